//! A bridge's process, for all tests.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tonic::transport::{Channel, Endpoint};

/// A bridge's process.
pub struct Bridged(Child, String);

impl Bridged {
    /// Starts it: the bridge to `name`, at this place.
    pub fn start(name: &str, listen: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_underpass-bridge"));
        command.args(["--listen", listen, name]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let place = line.trim().strip_prefix("listening at ").unwrap().to_owned();
        Self(child, place)
    }

    /// Where it listens.
    #[allow(dead_code, reason = "some of the tests need no address")]
    pub fn place(&self) -> &str {
        &self.1
    }

    /// A channel of tonic's.
    #[allow(dead_code, reason = "some of the tests have clients of their own")]
    pub async fn channel(&self) -> Channel {
        let address = match self.1.strip_prefix("unix:") {
            Some(path) => format!("unix:{path}"),
            None => format!("http://{}", self.1),
        };
        Endpoint::from_shared(address).unwrap().connect().await.unwrap()
    }
}

impl Drop for Bridged {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
