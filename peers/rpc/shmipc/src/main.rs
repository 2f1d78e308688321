//! shmipc: data in shared memory, and wake-ups over a Unix socket. Each side has a runtime of one
//! thread, and each of 32 callers has a stream of one session.
//!
//! A stream has no messages, so each begins with its length in four bytes.
#![forbid(unsafe_code)]

use shmipc::Listener;
use shmipc::buffer::BufferReader;
use shmipc::config::{Config, SizePercentPair};
use shmipc::consts::MemMapType;
use shmipc::session::{SessionManager, SessionManagerConfig};
use shmipc::stream::Stream;
use shmipc::transport::{DefaultUnixConnect, DefaultUnixListen};
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use underpass_rpc_peer::{
    Client, Load, Outcome, Peer, Totals, Variant, Work, answer, locked, ready, repeat_together,
};

const VARIANTS: &[Variant] = &[Variant {
    name: "memfd",
    about: "shared memory, and wake-ups over a Unix socket; a tokio runtime of one thread on each side, a stream for each caller",
    callers: 32,
    idles: true,
    server: |directory| runtime()?.block_on(serve(directory)),
    client: connect,
}];

/// A connection, which carries many streams.
type Session = SessionManager<DefaultUnixConnect>;

/// The bytes of the length.
const LENGTH: usize = 4;

/// The longest message that a side takes from the other.
const LONGEST: usize = 64 << 20;

fn address(directory: &Path) -> std::io::Result<SocketAddr> {
    SocketAddr::from_pathname(directory.join("shmipc"))
}

/// As in the package's own benchmark: slices that have room for the messages.
fn config(directory: &Path) -> Config {
    let slice = |size, percent| SizePercentPair { size, percent };
    Config {
        mem_map_type: MemMapType::MemMapTypeMemFd,
        share_memory_buffer_cap: 256 << 20,
        buffer_slice_sizes: vec![
            slice((8 << 10) + 256, 20),
            slice((64 << 10) + 256, 10),
            slice((1 << 20) + 4096, 70),
        ],
        share_memory_path_prefix: directory.join("shmipc-memory").display().to_string(),
        queue_path: directory.join("shmipc-queue").display().to_string(),
        ..Config::default()
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Sends a message that `fill` writes.
async fn send(stream: &mut Stream, length: usize, fill: impl FnOnce(&mut [u8])) -> Outcome {
    stream.write_bytes(&(length as u32).to_le_bytes())?;
    if length > 0 {
        fill(stream.reserve(length)?);
    }
    Ok(stream.flush(false).await?)
}

/// Receives a message, which stands in the stream's shared memory while `read` has it.
async fn receive<T>(stream: &mut Stream, read: impl FnOnce(&[u8]) -> T) -> Outcome<T> {
    let length = u32::from_le_bytes(stream.read_exact_bytes(LENGTH).await?[..].try_into()?) as usize;
    if length > LONGEST {
        return Err(format!("a message of {length} bytes is too long").into());
    }
    let result = read(&stream.read_exact_bytes(length).await?);
    stream.recv_buf().release_previous_read();
    Ok(result)
}

async fn serve(directory: &Path) -> Outcome {
    let mut listener = Listener::new(DefaultUnixListen, address(directory)?, config(directory)).await?;
    ready()?;
    loop {
        // The stream ends with an error when its client closes it.
        tokio::spawn(answer_all(listener.accept().await?));
    }
}

/// Answers one request after another.
async fn answer_all(mut stream: Stream) -> Outcome {
    let mut request = Vec::new();
    loop {
        let keep = |bytes: &[u8]| {
            request.clear();
            request.extend_from_slice(bytes);
        };
        receive(&mut stream, keep).await?;
        send(&mut stream, request.len(), |to| answer(&request, to)).await?;
    }
}

/// A client, its streams, and the sessions that it keeps beside the one that it calls over.
struct Connected {
    runtime: Runtime,
    directory: PathBuf,
    session: Session,
    streams: Vec<Mutex<Stream>>,
    others: Vec<(Session, Mutex<Stream>)>,
}

async fn dial(directory: &Path) -> Outcome<Session> {
    let config = SessionManagerConfig::new().with_config(config(directory)).with_session_num(1);
    Ok(SessionManager::new(config, DefaultUnixConnect, address(directory)?).await?)
}

fn connect(directory: &Path) -> Outcome<Box<dyn Client>> {
    let (runtime, directory) = (runtime()?, directory.to_owned());
    let session = runtime.block_on(dial(&directory))?;
    Ok(Box::new(Connected { runtime, directory, session, streams: Vec::new(), others: Vec::new() }))
}

async fn call(stream: &mut Stream, work: &Work) -> Outcome {
    let request = work.request();
    send(stream, request.len(), |to| to.copy_from_slice(request)).await?;
    receive(stream, |answer| work.check(answer)).await??;
    stream.release_read_and_reuse();
    Ok(())
}

impl Client for Connected {
    fn load(&mut self, load: &Arc<Load>) -> Outcome<Totals> {
        while self.streams.len() < load.callers() {
            let _runtime = self.runtime.enter();
            self.streams.push(Mutex::new(self.session.get_stream()?));
        }
        let streams = &self.streams;
        // A caller takes the stream that is free: there are as many as callers.
        let all = repeat_together(load, tokio::time::sleep, async |work: &Work| {
            for stream in streams {
                if let Ok(mut stream) = stream.try_lock() {
                    return call(&mut stream, work).await;
                }
            }
            Err("there are more callers than streams".into())
        });
        self.runtime.block_on(all)
    }

    fn another(&mut self) -> Outcome {
        let directory = &self.directory;
        let other = self.runtime.block_on(async {
            let session = dial(directory).await?;
            let mut stream = session.get_stream()?;
            call(&mut stream, &Work::new(0)).await?;
            Outcome::Ok((session, Mutex::new(stream)))
        })?;
        self.others.push(other);
        Ok(())
    }
}

fn main() -> ExitCode {
    Peer { peer: "shmipc", version: locked("shmipc"), variants: VARIANTS }.main()
}
