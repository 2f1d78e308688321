//! A server under a service manager, which tests play.
//!
//! `underpass-test-service NAME serve` exports a `Probe` as NAME, over the passed socket if there
//! is one, tells its manager, and ends on signals. `twice` exports it, stops, and then does the
//! same as `serve`. `two` also exports one as NAME-own, over a socket of its own.
//!
//! `underpass-test-service - tell` sends each notification once.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;
use underpass::Server;
use underpass::service::ServiceManager;
use underpass_tests::{Probe, Subject};

fn main() -> Result<(), Box<dyn Error>> {
    // It must not outlive its test.
    underpass_os::process::die_with_parent()?;
    underpass_os::process::raise_files()?;
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [name, what] = &arguments[..] else { return Err("two arguments".into()) };
    let manager = ServiceManager::from_environment()?;
    let server = || Server::new().socket_activation().export(name, Probe::serve(Subject::default()));
    let server = match what.as_str() {
        "serve" => server(),
        "two" => server().export(format!("{name}-own"), Probe::serve(Subject::default())),
        "twice" => {
            server().start()?.stop();
            server()
        }
        "tell" => {
            manager.status("two\nlines")?;
            manager.reloading()?;
            manager.ready()?;
            manager.main_pid(std::process::id())?;
            return Ok(manager.stopping()?);
        }
        what => return Err(format!("{what:?} is nothing to do").into()),
    };
    manager.announce(server.drain_on_signals(Duration::from_secs(3600))).run()?;
    println!("main ends");
    Ok(())
}
