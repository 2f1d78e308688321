//! Ports and streams that have nothing to do with the dying process, and must not notice it.

use std::error::Error;
use underpass::port::sync::{SyncPortOptions, SyncPortSender};
use underpass::port::{PortOptions, PortReceiver, PortSender};
use underpass::stream::StreamOptions;
use underpass::{Running, Server};

/// The names of the ports.
const MESSAGES: &str = "others-messages";
const REQUESTS: &str = "others-requests";

/// A port of each kind, with a sender.
#[derive(Debug)]
pub struct Others {
    sender: PortSender<u64>,
    receiver: PortReceiver<u64>,
    requests: SyncPortSender<u64, u64>,
    _running: Running,
}

impl Others {
    /// Opens them.
    pub fn open() -> Result<Self, Box<dyn Error>> {
        let (service, receiver) = PortOptions::new().open::<u64>()?;
        let doubles = SyncPortOptions::new().with_handler::<u64, u64>(|number| 2 * number);
        let running = Server::new().export(MESSAGES, service).export(REQUESTS, doubles).start()?;
        let (sender, requests) = (PortSender::connect(MESSAGES)?, SyncPortSender::connect(REQUESTS)?);
        Ok(Self { sender, receiver, requests, _running: running })
    }

    /// Sends a message of each kind, and receives it.
    pub fn go_on(&self) -> Result<(), Box<dyn Error>> {
        self.sender.send(&7)?;
        let came = self.receiver.recv()?.into_message();
        let doubled = self.requests.send(&21)?;
        let (sender, mut stream) = StreamOptions::new().open::<u64>()?;
        sender.send(&9)?;
        sender.finish();
        match (came, doubled, stream.recv()?, stream.recv()?) {
            (Some(7), 42, Some(9), None) => Ok(()),
            other => Err(format!("others have received {other:?}").into()),
        }
    }
}
