//! Streams as arguments and results, between processes: order, credits, ends, deaths, deadlines,
//! revocation, async code.

mod asynchronous;
mod death;
mod ends;
mod items;
mod process;

use underpass_tests::{ObedientProcess, Room, RowsClient};

/// A server in a process of its own, and a binding to it.
struct Served {
    server: ObedientProcess,
    table: RowsClient,
    name: String,
}

/// Starts a server for the test `of`.
fn served(of: &str) -> Served {
    Room::directory();
    let name = Room::name(of);
    let server = process::serve(&name, None);
    let table = RowsClient::import_within(&name, std::time::Duration::from_secs(60)).unwrap();
    Served { server, table, name }
}

impl Served {
    /// Waits until the server's ends have made `count` reports, and returns them.
    fn reports(&self, count: usize) -> Vec<String> {
        use underpass_tests::Rows;
        underpass_tests::until("the reports", || {
            let reports = self.table.reports().unwrap();
            (reports.len() >= count).then_some(reports)
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(Room::directory().join(&self.name));
    }
}
