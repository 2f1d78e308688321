//! A peer: what it is called, and the process that is its server or its client.

use crate::{Load, Outcome, Totals, lines};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The client's side of a peer.
pub trait Client {
    /// Has as many callers as the load says make calls at once.
    ///
    /// # Errors
    /// The first failure of a call.
    fn load(&mut self, load: &Arc<Load>) -> Outcome<Totals>;

    /// Makes another connection, calls a Null over it, and keeps it.
    ///
    /// # Errors
    /// That failed.
    fn another(&mut self) -> Outcome;
}

/// A way in which a package can be set up.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// How the two sides wait, and what 32 callers are, in a few words.
    pub about: &'static str,
    /// The most callers at once that make sense.
    pub callers: usize,
    /// Whether both sides sleep, and use no processor, while nobody calls.
    pub idles: bool,
    /// Serves until the process ends. It calls [`ready`] as soon as clients can connect. What it
    /// needs in the file system lies in the directory.
    #[serde(skip)]
    pub server: fn(&Path) -> Outcome,
    /// Connects to the server of the same directory.
    #[serde(skip)]
    pub client: fn(&Path) -> Outcome<Box<dyn Client>>,
}

/// A package, and the ways in which it is measured.
#[derive(Clone, Debug, Serialize)]
pub struct Peer {
    /// The name of the peer.
    pub peer: &'static str,
    /// The version of the package.
    pub version: String,
    /// Its ways.
    pub variants: &'static [Variant],
}

impl Peer {
    /// The whole of a peer's `main`.
    pub fn main(&self) -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let done = match arguments[..] {
            ["variants"] => self.introduce(),
            ["server", variant, directory] => self.variant(variant).and_then(|variant| {
                thread::spawn(end_with_input);
                (variant.server)(Path::new(directory))
            }),
            ["client", variant, directory] => self
                .variant(variant)
                .and_then(|variant| lines::obey(|| (variant.client)(Path::new(directory)))),
            _ => Err("say `variants`, `server VARIANT DIRECTORY` or `client VARIANT DIRECTORY`".into()),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("{}: {failure}", self.peer);
                ExitCode::FAILURE
            }
        }
    }

    fn introduce(&self) -> Outcome {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }

    fn variant(&self, name: &str) -> Outcome<&Variant> {
        let found = self.variants.iter().find(|variant| variant.name == name);
        found.ok_or_else(|| format!("no variant `{name}`; `variants` lists them").into())
    }
}

/// The version of `package` that the workspace's lock file names.
pub fn locked(package: &str) -> String {
    let after = format!("name = \"{package}\"\nversion = \"");
    let version = include_str!("../../../Cargo.lock")
        .split_once(after.as_str())
        .and_then(|(_, rest)| rest.split('"').next());
    version.unwrap_or("unknown").into()
}

/// Tells that clients can connect from now on.
///
/// # Errors
/// Standard output is closed.
pub fn ready() -> Outcome {
    let mut out = io::stdout();
    writeln!(out, "ready")?;
    Ok(out.flush()?)
}

/// Set when the server's process is about to end. Relaxed: nothing else is passed on by it.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Whether the server's process is about to end: one that polls can return then, to tidy up.
pub fn ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// Ends the server when its standard input ends. So it never outlives the process that measures.
fn end_with_input() {
    let mut rest = [0; 64];
    while io::stdin().read(&mut rest).is_ok_and(|count| count > 0) {}
    ENDING.store(true, Ordering::Relaxed);
    thread::sleep(Duration::from_millis(50));
    std::process::exit(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        assert_eq!(locked("underpass-rpc-peer"), env!("CARGO_PKG_VERSION"));
        assert_eq!(locked("no-such-package"), "unknown");
    }

    #[test]
    fn a_peer_tells_its_variants() {
        const VARIANTS: &[Variant] = &[Variant {
            name: "poll",
            about: "spins",
            callers: 1,
            idles: false,
            server: |_| Ok(()),
            client: |_| Err("none".into()),
        }];
        let peer = Peer { peer: "fake", version: "1".into(), variants: VARIANTS };
        let told = serde_json::to_string(&peer).unwrap();
        assert_eq!(
            told,
            r#"{"peer":"fake","version":"1","variants":[{"name":"poll","about":"spins","callers":1,"idles":false}]}"#
        );
        assert!(peer.variant("poll").is_ok() && peer.variant("block").is_err());
    }
}
