//! A program that knows an interface of the same name, which does not fit: a method has another
//! argument. Its arguments are those of `underpass-test-first`.
#![forbid(unsafe_code)]

mod broken_archive;

use broken_archive::{Archive, ArchiveClient, Cabinet, obey};
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
