//! A test that can't run on this machine reports that it was skipped, and why.
//!
//! The harness knows only tests that pass and tests that fail. It also hides what a test that
//! passes has printed. So the report goes to the standard error of the process, past the harness's
//! capture, as one line: `skipped: TEST: REASON`. `.ci/run` counts these lines and compares the
//! tests with `.ci/skips`, where each test that may be skipped stands with the condition for it.
//!
//! ```no_run
//! use underpass_skip::skip;
//!
//! // With #[test] in a test's file.
//! fn a_name_of_another_user_is_found_by_root() {
//!     let root = false;
//!     if !root {
//!         skip!("only root sees what other users export");
//!     }
//!     // …
//! }
//! ```

#![forbid(unsafe_code)]

use std::io::Write;

/// Reports that the function in which it stands is skipped, and returns from it.
///
/// The arguments are those of `format!`; they give the reason. The function returns `()`. In a
/// helper that a test calls, report by [`report`] with the test's name and return what tells the
/// test so.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        fn here() {}
        $crate::report($crate::function_of(::std::any::type_name_of_val(&here)), &::std::format!($($reason)+));
        return;
    }};
}

/// The function in which `here`, the name of a function inside it, stands: for [`skip!`].
pub fn function_of(here: &str) -> &str {
    let outer = here.strip_suffix("::here").unwrap_or(here);
    outer.trim_end_matches("::{{closure}}")
}

/// Writes the line that says that `test` was skipped because of `reason`.
pub fn report(test: &str, reason: &str) {
    // In one write, as tests run side by side. Where standard error is closed nobody counts.
    let line = format!("skipped: {test}: {}\n", reason.replace('\n', " "));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_function_around() {
        fn here() {}
        let inner = || {
            fn here() {}
            std::any::type_name_of_val(&here)
        };
        let own = "underpass_skip::tests::the_name_is_that_of_the_function_around";
        assert_eq!(function_of(std::any::type_name_of_val(&here)), own);
        assert_eq!(function_of(inner()), own);
    }
}
