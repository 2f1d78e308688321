//! Servo's ipc-channel: for each caller a channel of bytes there and one back. The server has a
//! thread for each pair.
#![forbid(unsafe_code)]

use ipc_channel::ipc::{self, IpcBytesReceiver, IpcBytesSender, IpcOneShotServer, IpcSender};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use underpass_rpc_peer::{
    Client, Connection, Outcome, Peer, ThreadClient, Variant, Work, answer_in_place, locked, ready,
};

const VARIANTS: &[Variant] = &[Variant {
    name: "bytes",
    about: "channels of bytes over sequenced packets, both sides block; a pair and a thread for each caller",
    callers: 32,
    idles: true,
    server: serve,
    client: connect,
}];

/// The file that has the name of the next one-shot server.
const NAME: &str = "ipc-channel";

/// The server's ends of a caller's two channels.
type Ends = (IpcBytesReceiver, IpcBytesSender);

fn serve(directory: &Path) -> Outcome {
    for number in 0_u64.. {
        let (server, name) = IpcOneShotServer::<Ends>::new()?;
        let new = directory.join("ipc-channel-new");
        fs::write(&new, name)?;
        fs::rename(&new, directory.join(NAME))?;
        if number == 0 {
            ready()?;
        }
        let (_, (requests, answers)) = server.accept()?;
        thread::spawn(move || {
            // The channels end with an error when the client closes them.
            while let Ok(request) = requests.recv() {
                if answers.send(&answer_in_place(request)).is_err() {
                    break;
                }
            }
        });
    }
    Ok(())
}

/// A caller's ends.
struct Channels {
    requests: IpcBytesSender,
    answers: IpcBytesReceiver,
}

impl Connection for Channels {
    fn call(&mut self, work: &Work) -> Outcome {
        self.requests.send(work.request())?;
        work.check(&self.answers.recv()?)
    }
}

fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let directory = directory.to_owned();
    let numbers = AtomicU64::new(0);
    Ok(Box::new(ThreadClient::new(move || {
        // The renaming takes the name: each one-shot server has one client.
        let taken = directory.join(format!("ipc-channel-{}", numbers.fetch_add(1, Ordering::Relaxed)));
        while let Err(error) = fs::rename(directory.join(NAME), &taken) {
            if error.kind() != ErrorKind::NotFound {
                return Err(error.into());
            }
            // The server makes the next one.
            thread::sleep(Duration::from_micros(100));
        }
        let bootstrap = IpcSender::<Ends>::connect(fs::read_to_string(taken)?)?;
        let ((requests, theirs), (back, answers)) = (ipc::bytes_channel()?, ipc::bytes_channel()?);
        bootstrap.send((theirs, back))?;
        Ok(Channels { requests, answers })
    })))
}

fn main() -> ExitCode {
    Peer { peer: "ipc-channel", version: locked("ipc-channel"), variants: VARIANTS }.main()
}
