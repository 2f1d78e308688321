//! A server process, and the three ways to it.

use crate::serving::address_of;
use std::process::Command;
use underpass_grpc::{Channel, Endpoint};
use underpass_tests::{Room, ServerProcess};

/// How a client reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By its name, through shared memory.
    Underpass,
    /// By HTTP/2 over TCP.
    Tcp,
    /// By HTTP/2 over a Unix socket.
    Unix,
}

/// All of them. A test that passes over each shows that nothing is lost.
pub const WAYS: [Way; 3] = [Way::Underpass, Way::Tcp, Way::Unix];

/// A server process with all services.
#[derive(Debug)]
pub struct Served {
    /// The process.
    pub process: ServerProcess,
    binary: String,
}

impl Served {
    /// Starts `binary` (`env!("CARGO_BIN_EXE_underpass-test-grpc")`) under a name for the test
    /// `of`.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(binary: &str, of: &str) -> Self {
        Room::directory();
        let name = Room::name(of);
        Self { process: run(binary, &name), binary: binary.to_owned() }
    }

    /// Starts the process again, after it was killed.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        let name = self.process.name().to_owned();
        self.process = run(&self.binary, &name);
    }

    /// Where the server is.
    ///
    /// # Panics
    /// If it has not said so.
    pub fn endpoint(&self, way: Way) -> Endpoint {
        let (unix, tcp) = address_of(self.process.name());
        let address = match way {
            Way::Underpass => format!("underpass:{}", self.process.name()),
            Way::Tcp => {
                format!("http://{}", std::fs::read_to_string(tcp).expect("the server has written it"))
            }
            Way::Unix => format!("unix:{}", unix.display()),
        };
        Channel::from_shared(address).expect("it is text")
    }

    /// A channel to the server.
    ///
    /// # Panics
    /// If it does not answer.
    pub async fn channel(&self, way: Way) -> Channel {
        self.endpoint(way).connect().await.expect("the server runs")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let (unix, tcp) = address_of(self.process.name());
        for path in [unix, tcp] {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn run(binary: &str, name: &str) -> ServerProcess {
    let mut command = Command::new(binary);
    command.args(["serve", name]);
    ServerProcess::run(command, name)
}
