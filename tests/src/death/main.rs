//! Two domains, of which one dies repeatedly, at a step or a moment that a seed chooses. The other
//! checks what it was told and what is left.
//!
//! `underpass-test-death server|client SEED ROUNDS` lets servers or clients die. It needs a
//! `$UNDERPASS_DIR` of its own. It prints how many died at which steps, and ends with an error if a
//! result was wrong or something was left. It starts itself as the dying process:
//!
//! `underpass-test-death witness MARKS` exports a `Witness`. `underpass-test-death caller MARKS
//! SEED FIRST` calls it. `underpass-test-death honest` keeps calling while others die.
//!
//! `underpass-test-death ports ROLE SEED ROUNDS` lets processes of ROLE die or stop beside ports,
//! signals and streams. It starts itself as that process, as `underpass-test-death mortal ROLE
//! JOURNAL SEED ROUND`.
//!
//! With `$UNDERPASS_TEST_CPU` all of them use only that CPU.
#![forbid(unsafe_code)]

mod account;
mod calls;
mod clients;
mod doomed;
mod marks;
mod ports;
mod servers;
mod witness;

use crate::marks::Marks;
use crate::witness::{Sworn, Witness};
use std::error::Error;
use underpass::Server;
use underpass_tests::Numbers;

/// The name that the witnesses export one after another.
const NAME: &str = "witness";

fn main() -> Result<(), Box<dyn Error>> {
    underpass_os::process::die_with_parent()?;
    underpass_os::process::raise_files()?;
    if let Ok(cpu) = std::env::var("UNDERPASS_TEST_CPU") {
        underpass_os::cpu::confine(&[cpu.parse()?])?;
    }
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().ok_or("no role")?;
    let mut next = || arguments.next().ok_or("too few arguments");
    match role.as_str() {
        "server" => servers::die(next()?.parse()?, next()?.parse()?),
        "client" => clients::die(next()?.parse()?, next()?.parse()?),
        "witness" => {
            let marks = Marks::open(next()?.as_ref())?;
            Ok(Server::new().export(NAME, Witness::serve(Sworn { marks })).run()?)
        }
        "caller" => {
            let marks = Marks::open(next()?.as_ref())?;
            clients::call(marks, &mut Numbers::of(next()?.parse()?), next()?.parse()?)
        }
        "honest" => clients::go_on(),
        "ports" => ports::die(&next()?, next()?.parse()?, next()?.parse()?),
        "mortal" => {
            let (role, path, seed) = (next()?, next()?, next()?.parse()?);
            ports::live(&role, &path, seed, next()?.parse()?)
        }
        _ => Err("no such role".into()),
    }
}
