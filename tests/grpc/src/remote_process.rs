//! A process that exports to other machines, and its client's side.

use crate::depot::{Depot, DepotService, Tally, TallyService};
use crate::rows::{Rows, RowsService};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use underpass::remote::RemotePeers;
use underpass_grpc::remote::RemoteServer;

/// Exports all services at `address`, until standard input ends.
///
/// # Errors
/// The address can't be listened at.
pub fn serve_remote(address: &str) -> Result<(), Box<dyn Error>> {
    let anyone = RemotePeers::anyone;
    let server = RemoteServer::new()
        .export("depot", Depot::serve(DepotService::default()).remote_peers(anyone()))
        .export("tally", Tally::serve(TallyService::default()).remote_peers(anyone()))
        .export("rows", Rows::serve(RowsService::default()).remote_peers(anyone()));
    let listener = server.listen(address, None)?;
    println!("{}", listener.address());
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// A server process, at an address of the loopback network that no other has.
#[derive(Debug)]
pub struct RemoteProcess {
    process: Child,
    binary: String,
    address: SocketAddr,
}

impl RemoteProcess {
    /// Starts `binary` (`env!("CARGO_BIN_EXE_underpass-test-grpc")`).
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(binary: &str) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let process = std::process::id().to_le_bytes();
        let host = Ipv4Addr::new(127, 100 | process[1], process[0], NEXT.fetch_add(1, Ordering::Relaxed));
        Self::run(binary, SocketAddr::from((host, 0)))
    }

    fn run(binary: &str, address: SocketAddr) -> Self {
        let mut command = Command::new(binary);
        command.args(["remote", &address.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the server can be started");
        let mut line = String::new();
        let output = process.stdout.take().expect("it has an output");
        BufReader::new(output).read_line(&mut line).expect("the server says where it listens");
        let address = line.trim().parse().expect("an address");
        Self { process, binary: binary.to_owned(), address }
    }

    /// The address of an export.
    pub fn address(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// Kills it.
    ///
    /// # Panics
    /// If it can't be killed.
    pub fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it is a child");
    }

    /// Starts it again at the same address, after it was killed.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        *self = Self::run(&self.binary, self.address);
    }
}

impl Drop for RemoteProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
