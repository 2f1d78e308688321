//! Three processes that do real work: `cargo run --release -p underpass-demo`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use underpass_demo::{DemoOptions, HELP};

/// The status of a command line that is wrong.
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    let options = match DemoOptions::read(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("underpass-demo: {error}; `underpass-demo --help` lists the options");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    if options.help || options.version {
        match options.help {
            true => print!("{HELP}"),
            false => println!("underpass-demo {}", env!("CARGO_PKG_VERSION")),
        }
        return ExitCode::SUCCESS;
    }
    match underpass_demo::run(&options) {
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
