//! Three processes that do real work: `cargo run --release -p underpass-demo`.
#![forbid(unsafe_code)]

use clap::Parser;
use std::process::ExitCode;
use underpass_demo::DemoOptions;

fn main() -> ExitCode {
    match underpass_demo::run(&DemoOptions::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("underpass-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the reader of the output has seen enough and closed the pipe.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
