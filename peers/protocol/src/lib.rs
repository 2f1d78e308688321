//! A measured peer: told by lines on its standard input what to do, it answers with nanoseconds.
//!
//! *Decides:* the protocol (`peers/README.md` says it in words), the warm-up before each
//! measurement, and the case `call`.
//!
//! *Must not know:* any of the packages measured.
//!
//! *Read first:* [`serve`].
#![forbid(unsafe_code)]

mod call;
mod children;
pub mod tasks;

pub use call::call;
pub use children::{BATCH, Children};

use std::io::{self, BufRead, Write};
use std::time::Duration;

/// A case: its name, and how many operations of it take how long.
pub type Case<'a> = (&'a str, &'a dyn Fn(u64) -> Duration);

/// The most operations that are done, unmeasured, before those that are measured.
const WARM_UP: u64 = 10_000;

/// Says who `peer` is, then carries out one line after another until `quit` or the end of the
/// input.
///
/// `package` is the crate that is measured; its version is the one in `Cargo.lock`.
///
/// # Errors
/// Standard input or output failed.
pub fn serve(peer: &str, package: &str, cases: &[Case]) -> io::Result<()> {
    let mut answers = io::stdout().lock();
    let names: Vec<String> = cases.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let version = locked(package).unwrap_or("unknown");
    writeln!(answers, r#"{{"peer":"{peer}","version":"{version}","cases":[{}]}}"#, names.join(","))?;
    answers.flush()?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        match line.trim() {
            "quit" => break,
            command => match obey(command, cases) {
                Ok(taken) => writeln!(answers, "{}", taken.as_nanos().max(1))?,
                Err(why) => writeln!(answers, "error {why}")?,
            },
        }
        answers.flush()?;
    }
    Ok(())
}

/// Carries out `CASE N`.
fn obey(command: &str, cases: &[Case]) -> Result<Duration, String> {
    let (name, count) = command.split_once(' ').ok_or_else(|| format!("`{command}` is not `CASE N`"))?;
    let (_, run) = cases
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| format!("no case `{name}` here; the first line that was printed lists them"))?;
    let count: u64 = count.trim().parse().map_err(|_| format!("`{count}` is no number of operations"))?;
    if count == 0 {
        return Err("nothing to do: N is 0".into());
    }
    run(count.min(WARM_UP));
    Ok(run(count))
}

/// The version of `package` that the workspace's lock file names.
fn locked(package: &str) -> Option<&'static str> {
    let after = format!("name = \"{package}\"\nversion = \"");
    let (_, rest) = include_str!("../../Cargo.lock").split_once(after.as_str())?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASES: &[Case] = &[("double", &|count| Duration::from_nanos(2 * count))];

    #[test]
    fn a_case_is_run_with_the_number_that_was_asked_for() {
        assert_eq!(obey("double 21", CASES), Ok(Duration::from_nanos(42)));
        assert_eq!(obey("double 1000000", CASES), Ok(Duration::from_nanos(2_000_000)));
    }

    #[test]
    fn what_is_not_a_case_and_a_number_is_refused() {
        for wrong in ["", "double", "double 0", "double x", "double -1", "treble 1"] {
            assert!(obey(wrong, CASES).is_err(), "{wrong:?} was obeyed");
        }
    }

    #[test]
    fn versions_come_from_the_lock_file() {
        assert_eq!(locked("underpass-peer"), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(locked("no-such-package"), None);
    }
}
