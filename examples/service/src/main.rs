//! A store of words as a service: `underpass-example.service` and `.socket` start it under systemd,
//! and `Containerfile` in a container.
//!
//! `underpass-example serve` is the service. `underpass-example get KEY` and `set KEY WORD` call
//! it, and wait for it if it is being started. `underpass-example health` says whether it serves,
//! by its exit status.
#![forbid(unsafe_code)]

use service_example::{NAME, Store, Words, WordsClient};
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;
use underpass::inspect::{Inspect, InspectClient};
use underpass::service::ServiceManager;
use underpass::{Health, Server};

/// How long a client waits for the service.
const SOON: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => serve(),
        ["get", key] => {
            let word = WordsClient::import_within(NAME, SOON)?.get(key)?;
            println!("{}", word.ok_or("there is no such word")?);
            Ok(())
        }
        ["set", key, word] => match WordsClient::import_within(NAME, SOON)?.set(key, word)? {
            true => Ok(()),
            false => Err("it is not kept beyond the end of the server".into()),
        },
        ["health"] => {
            let health = InspectClient::import(NAME)?.with_deadline(Duration::from_secs(5)).health()?;
            if health.serving { Ok(()) } else { Err(health.why_not.into()) }
        }
        _ => Err("serve, get KEY, set KEY WORD, or health".into()),
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    let (manager, health) = (ServiceManager::from_environment()?, Health::new());
    // systemd makes the folder, and names it here.
    let folder = std::env::var_os("STATE_DIRECTORY").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let server = Server::new()
        // The name's socket, if the manager holds it.
        .socket_activation()
        // The user and the group of the socket may connect.
        .mode(0o660)
        .health(&health)
        .export(NAME, Words::serve(Store::open(&folder, &health)?))
        .drain_on_signals(Duration::from_secs(10));
    manager.status("serves words")?;
    Ok(manager.announce(server).run()?)
}
