//! A program that knows version 2 of an interface: a later build of `underpass-test-first`, with
//! the same arguments.
//!
//! `underpass-test-second NAME serve-both` also exports an implementation of the interface of
//! `underpass-test-broken`, under the same name.
#![forbid(unsafe_code)]

mod broken_archive;
mod second_archive;

use second_archive::{Archive, ArchiveClient, Cabinet, obey};
use std::error::Error;
use underpass_tests::{Build, run_build};

fn main() -> Result<(), Box<dyn Error>> {
    let both = std::env::args().nth(2).is_some_and(|what| what == "serve-both");
    let services = || {
        let broken = both.then(|| broken_archive::Archive::serve(broken_archive::Cabinet));
        // Only bindings of the first one may be passed on.
        [Cabinet.serve().shareable()].into_iter().chain(broken).collect()
    };
    run_build(&Build {
        services: &services,
        import: &|name, within| ArchiveClient::import_within(name, within),
        import_resilient: &|name, policy| ArchiveClient::import_resilient(name, policy),
        obey: &obey,
    })
}
