//! Other processes, which send or own.

use std::process::Command;
use underpass_tests::ObedientProcess;

const PORT: &str = env!("CARGO_BIN_EXE_underpass-test-sync-port");

/// A process with a sender to the port `name`, which has connected.
pub fn sender(name: &str, cpu: Option<usize>) -> ObedientProcess {
    ObedientProcess::start_on(Command::new(PORT).args([name, "sender", "0"]), cpu, "connected")
}

/// A process that owns the port `name`, for `messages` messages of each sender.
pub fn owner(name: &str, messages: usize, cpu: Option<usize>) -> ObedientProcess {
    let mut command = Command::new(PORT);
    ObedientProcess::start_on(command.args([name, "owner", &messages.to_string()]), cpu, "open")
}

/// The next answer, of kernel entries: how many of them were wake-ups.
pub fn signals(process: &mut ObedientProcess) -> u64 {
    let answer = process.hear();
    let signals = answer.split(' ').nth(1).and_then(|signals| signals.parse().ok());
    signals.unwrap_or_else(|| panic!("{answer}"))
}
