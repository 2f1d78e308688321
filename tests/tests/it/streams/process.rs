//! Other processes, which have one end of streams.

use std::process::Command;
use underpass_tests::ObedientProcess;

const STREAM: &str = env!("CARGO_BIN_EXE_underpass-test-stream");

/// A process that exports `name`, on one CPU if that is said.
pub fn serve(name: &str, cpu: Option<usize>) -> ObedientProcess {
    ObedientProcess::start_on(Command::new(STREAM).args([name, "serve"]), cpu, "ready")
}

/// A process that has imported `name`.
pub fn client(name: &str, cpu: Option<usize>) -> ObedientProcess {
    ObedientProcess::start_on(Command::new(STREAM).args([name, "client"]), cpu, "ready")
}
