//! A program that knows version 1 of an interface, and another version 2 than
//! `underpass-test-second`. Its arguments are those of `underpass-test-first`.
#![forbid(unsafe_code)]

mod other_archive;

use other_archive::{Archive, ArchiveClient, Cabinet, obey};
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
