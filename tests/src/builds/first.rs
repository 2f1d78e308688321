//! A program that knows version 1 of an interface. `underpass-test-second` is a later build of it.
//!
//! `underpass-test-first NAME serve` exports the interface, and `replace` does so in place of the
//! current server. `underpass-test-first NAME call` imports it, and `resilient` does so for good.
//! Both take orders from the standard input.
#![forbid(unsafe_code)]

mod first_archive;

use first_archive::{Archive, ArchiveClient, Cabinet, obey};
use std::error::Error;
use underpass_tests::{Build, run_build};

fn main() -> Result<(), Box<dyn Error>> {
    run_build(&Build {
        services: &|| vec![Cabinet.serve()],
        import: &|name, within| ArchiveClient::import_within(name, within),
        import_resilient: &|name, policy| ArchiveClient::import_resilient(name, policy),
        obey: &obey,
    })
}
