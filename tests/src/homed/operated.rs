//! The home of an object with operations, and another domain that runs them.

use crate::{Done, SOON, raw, say};
use std::io::{BufRead, stdin};
use underpass::Server;
use underpass::homed::OperationError;
use underpass_tests::{Tableau, TableauClient, TableauHome};

pub fn home(name: &str) -> Done {
    let (services, home) = TableauHome::new(Tableau::EMPTY)?;
    let running = services.export(Server::new(), name).start()?;
    say("board")?;
    for order in stdin().lock().lines() {
        match order?.as_str() {
            "version" => say(home.newest_version()?.1)?,
            "revoke" => say(running.bindings().revoke(|_| true))?,
            _ => return Err("no such order".into()),
        }
    }
    Ok(())
}

pub fn client(name: &str) -> Done {
    let board = TableauClient::import_within(name, SOON)?;
    say("client")?;
    for order in stdin().lock().lines() {
        let order = order?;
        let mut words = order.split(' ');
        match (words.next(), words.next().and_then(|number| number.parse::<u64>().ok())) {
            (Some("work"), Some(times)) => {
                for _ in 0..times {
                    board.add(1, 1)??;
                    board.interrupt(2, 1)?;
                    let (sum, changes) = board.sum()?;
                    assert_eq!(sum, changes, "it is a whole version");
                }
                say("has worked")?;
            }
            (Some("sum"), _) => say(match board.sum() {
                Ok((sum, _)) => sum.to_string(),
                Err(e) => format!("{e:?}"),
            })?,
            (Some("fork"), _) => say(raw::in_child(|| {
                matches!(board.sum(), Err(OperationError::Forked))
                    && matches!(board.add(1, 1), Err(OperationError::Forked))
                    && matches!(board.touch(), Err(OperationError::Forked))
            })?)?,
            _ => return Err("no such order".into()),
        }
    }
    Ok(())
}
