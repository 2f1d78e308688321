//! Runs the line server and the domain that answers: `cargo run -p event-loop`, then
//! `nc 127.0.0.1 PORT`.
#![forbid(unsafe_code)]

use event_loop::{EventLoop, Loud, Oracle, OracleClient};
use std::process::{Child, Command};
use std::time::Duration;
use underpass::Server;

const NAME: &str = "event-loop-oracle";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::var_os("PART").is_some() {
        return Ok(Server::new().export(NAME, Oracle::serve(Loud)).run()?);
    }
    let mut oracle: Child = Command::new(std::env::current_exe()?).env("PART", "oracle").spawn()?;
    let event_loop = EventLoop::new(OracleClient::import_within(NAME, Duration::from_secs(10))?)?;
    println!("listening at {}", event_loop.address()?);
    let served = event_loop.run(1);
    oracle.kill()?;
    oracle.wait()?;
    Ok(served?)
}
