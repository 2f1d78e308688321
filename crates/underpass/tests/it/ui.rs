//! Compiler errors about interfaces and types that can't be passed.
//!
//! Interfaces that must compile are in `accepted.rs`: with them among these cases, trybuild would
//! generate code for all that `underpass` depends on, and not just check it.
//!
//! After an intended change, `TRYBUILD=overwrite cargo test -p underpass --test it ui::` rewrites
//! the `.stderr` files.

use std::fs;
use std::path::Path;

#[test]
fn errors_point_at_the_right_token() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}

/// The reader of an error knows the crate `underpass`, and neither its parts nor their sources.
#[test]
fn no_error_shows_what_underpass_consists_of() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui");
    let (mut files, mut faults) = (0, Vec::new());
    for entry in fs::read_dir(home).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "stderr") {
            continue;
        }
        files += 1;
        for (number, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            if ["underpass_", "__private", "Types<", "$WORKSPACE", "$CARGO"]
                .iter()
                .any(|internal| line.contains(internal))
            {
                faults.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(files > 5, "the expected errors are found");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
