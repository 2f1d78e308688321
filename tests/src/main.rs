//! A server for the tests to call, stop and kill.
//!
//! `underpass-test-server NAME probe|other` exports an interface as NAME in `$UNDERPASS_DIR`;
//! `underpass-test-server NAME import` imports NAME and calls it once;
//! `underpass-test-server NAME linger` imports NAME and calls it again and again.
#![forbid(unsafe_code)]

use underpass::Server;
use underpass_tests::{Other, Probe, ProbeClient, Subject, Unlike};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // No server outlives its test.
    underpass_os::process::die_with_parent()?;
    let mut arguments = std::env::args().skip(1);
    let (name, interface) = (arguments.next().ok_or("no name")?, arguments.next().ok_or("no interface")?);
    let service = match interface.as_str() {
        "probe" => Probe::serve(Subject::default()),
        "other" => Other::serve(Unlike),
        "import" => return Ok(ProbeClient::import(&name)?.null()?),
        "linger" => {
            let client = ProbeClient::import(&name)?;
            loop {
                client.nap(20)?;
            }
        }
        _ => return Err("no such interface".into()),
    };
    Ok(Server::new().export(name, service).run()?)
}
