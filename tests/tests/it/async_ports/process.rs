//! Other processes, which send or own.

use std::process::Command;
use underpass_tests::ObedientProcess;

const PORT: &str = env!("CARGO_BIN_EXE_underpass-test-port");

/// A process with `count` senders to the port `name`, which have connected.
pub fn sender(name: &str, count: usize) -> ObedientProcess {
    start(name, "sender", count, None, "connected")
}

/// As [`sender`] with one, on one CPU.
pub fn sender_on(name: &str, cpu: usize) -> ObedientProcess {
    start(name, "sender", 1, Some(cpu), "connected")
}

/// A process that receives signals as `name`, with `credits` for each sender.
pub fn signals(name: &str, credits: usize, cpu: Option<usize>) -> ObedientProcess {
    start(name, "signals", credits, cpu, "receives")
}

/// A process that signals to `name`.
pub fn signaller(name: &str, cpu: Option<usize>) -> ObedientProcess {
    start(name, "signaller", 0, cpu, "connected")
}

/// A process that owns the port `name`, for `messages` messages of each sender.
pub fn owner(name: &str, messages: usize, cpu: Option<usize>) -> ObedientProcess {
    start(name, "owner", messages, cpu, "open")
}

fn start(name: &str, role: &str, number: usize, cpu: Option<usize>, first: &str) -> ObedientProcess {
    let mut command = Command::new(PORT);
    ObedientProcess::start_on(command.args([name, role, &number.to_string()]), cpu, first)
}
