//! A holder as a program, and the commands for it.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Duration;
use underpass::Server;
use underpass_holder::{DriverProgram, DriverTable, Drivers, DriversClient};

const USAGE: &str = "usage: underpass-holder serve HOLDER
       underpass-holder start HOLDER NAME DEVICE MEMORY PROGRAM [ARGUMENT...]
       underpass-holder replace HOLDER NAME PROGRAM [ARGUMENT...]
       underpass-holder stop HOLDER NAME
       underpass-holder list HOLDER

`serve` keeps devices, and exports the interface `Drivers` as HOLDER. The other commands tell it to
start, replace, stop and list drivers. DEVICE is vfio-user:PATH or vfio-pci:ADDRESS, and MEMORY the
bytes of memory for its DMA. For a disk:

    underpass-holder start drivers disk0 vfio-user:/run/devices/nvme.sock 9000000 \\
        underpass-nvme --held disk0";

/// How long calls that have begun may take after SIGTERM.
const DRAIN: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let driver = |program: &str, arguments: &[&str]| DriverProgram {
        program: program.to_owned(),
        arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
    };
    match arguments[..] {
        ["serve", holder] => {
            let service = Drivers::serve(DriverTable::new());
            Ok(Server::new().export(holder, service).drain_on_signals(DRAIN).run()?)
        }
        ["start", holder, name, device, memory, program, ref rest @ ..] => {
            let drivers = DriversClient::import(holder)?;
            Ok(drivers.start(name, device, memory.parse()?, driver(program, rest))?)
        }
        ["replace", holder, name, program, ref rest @ ..] => {
            Ok(DriversClient::import(holder)?.replace(name, driver(program, rest))?)
        }
        ["stop", holder, name] => Ok(DriversClient::import(holder)?.stop(name)?),
        ["list", holder] => {
            for it in DriversClient::import(holder)?.list()? {
                let (name, processes) = (it.name, it.processes);
                let (starts, deaths, over) = (it.starts, it.deaths, it.handed_over);
                println!("{name}: {processes:?}, {starts} starts, {deaths} deaths, {over} handed over");
            }
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}
