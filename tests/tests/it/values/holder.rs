//! A process that holds interfaces of a vault, and obeys its test.

use crate::values::SERVER;
use std::process::Command;
use underpass_tests::ObedientProcess;

/// A process that has imported `name`.
pub fn holder(name: &str) -> ObedientProcess {
    ObedientProcess::start_on(Command::new(SERVER).args([name, "hold-values"]), None, "ready")
}
