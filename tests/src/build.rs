//! What programs do that were built from different versions of an interface.

use crate::server::ServerProcess;
use std::error::Error;
use std::fmt::Debug;
use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;
use underpass::{CallError, ImportError, Policy, Server, Service};

/// What a program knows of the interface, with its client stub `C`.
#[allow(missing_debug_implementations, reason = "functions have nothing to show")]
pub struct Build<'a, C> {
    /// Makes the services that it exports under one name.
    pub services: &'a dyn Fn() -> Vec<Service>,
    /// Imports a name within a time.
    pub import: &'a dyn Fn(&str, Duration) -> Result<C, ImportError>,
    /// Imports a name for good.
    pub import_resilient: &'a dyn Fn(&str, Policy) -> Result<C, ImportError>,
    /// Makes the call that an order asks for, and returns its result.
    pub obey: &'a dyn Fn(&C, &str) -> String,
}

/// The `main` of a program. Its arguments are a name and what to do.
///
/// A client answers each line of its standard input by one line. The first line is about the
/// import. The order `until PID` repeats `pid` until it is another one than PID.
///
/// # Errors
/// Whatever keeps it from doing that.
pub fn run_build<C>(build: &Build<'_, C>) -> Result<(), Box<dyn Error>> {
    underpass_os::process::die_with_parent()?;
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [name, what] = &arguments[..] else { return Err("two arguments".into()) };
    let serve = |server: Server| {
        let services = (build.services)().into_iter();
        services.fold(server, |server, service| server.export(name.as_str(), service)).run()
    };
    let imported = match what.as_str() {
        "serve" | "serve-both" => return Ok(serve(Server::new())?),
        "replace" => return Ok(serve(Server::new().replace())?),
        "call" => (build.import)(name, ServerProcess::soon()),
        "resilient" => (build.import_resilient)(name, Policy::new().patience(ServerProcess::soon())),
        _ => return Err("no such thing to do".into()),
    };
    let client = match imported {
        Ok(client) => client,
        Err(e) => return Ok(answer(&e.to_string())?),
    };
    answer("imported")?;
    for order in std::io::stdin().lock().lines() {
        let order = order?;
        answer(&match order.strip_prefix("until ") {
            None => (build.obey)(&client, &order),
            Some(old) => loop {
                let pid = (build.obey)(&client, "pid");
                if pid != old {
                    break pid;
                }
            },
        })?;
    }
    Ok(())
}

/// Prints `text` as one line.
fn answer(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", text.replace('\n', " "))?;
    out.flush()
}

/// The value of a result; or the outcome of the call that failed, and the reason.
pub fn shown<T: Debug>(result: Result<T, CallError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(e) => format!("{:?}: {e}", e.outcome()),
    }
}

/// A file that contains `text`.
///
/// # Panics
/// If there can be none.
pub fn readable(text: &str) -> File {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(text.as_bytes()).expect("room in a pipe");
    File::from(OwnedFd::from(reader))
}

/// What `file` contains.
///
/// # Panics
/// If it can't be read.
pub fn read_all(mut file: File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).expect("a readable file");
    text
}
