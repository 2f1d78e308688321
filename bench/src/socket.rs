//! The competitor in `sizes` and `lrpc`: the same requests and replies over a Unix stream socket,
//! as fast as they can be.
//!
//! Both sides reuse their buffers, and a small message is one system call on each side. The server
//! has two kernel threads, one on the client's CPU and one on the other. Which one is faster
//! depends on the size, so both are measured.
//!
//! ```text
//! request   bytes that follow : u64 | bytes wanted : u64 | bytes
//! reply     as many bytes as were wanted
//! ```

use crate::BenchError;
use crate::measure::contest::Subject;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use underpass_os::clock::now_ns;
use underpass_os::cpu;

const HEAD: usize = 16;

/// The socket path of the server's thread on `cpu`.
fn path(scratch: &Path, cpu: usize) -> PathBuf {
    scratch.join(format!("socket-{cpu}"))
}

/// Starts a kernel thread on `cpu` that serves one client.
///
/// # Errors
/// If the socket cannot be made.
pub fn serve(scratch: &Path, cpu: usize) -> Result<(), BenchError> {
    let path = path(scratch, cpu);
    // The previous scenario may have left one.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(path)?;
    std::thread::Builder::new().name(format!("socket-{cpu}")).spawn(move || {
        let served = cpu::confine(&[cpu]).and_then(|()| answer(&mut listener.accept()?.0));
        // The client sees the end of the connection and reports it.
        if let Err(error) = served {
            eprintln!("the socket's server on CPU {cpu}: {error}");
        }
    })?;
    Ok(())
}

/// Answers requests until the client is gone.
fn answer(stream: &mut UnixStream) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        let mut filled = 0;
        while filled < HEAD {
            match stream.read(&mut buffer[filled..])? {
                0 => return Ok(()),
                n => filled += n,
            }
        }
        let word = |at: usize| u64::from_le_bytes(buffer[at..at + 8].try_into().expect("8 bytes"));
        let (there, back) = (word(0) as usize, word(8) as usize);
        if buffer.len() < HEAD + there.max(back) {
            buffer.resize(HEAD + there.max(back), 1);
        }
        stream.read_exact(&mut buffer[filled..HEAD + there])?;
        stream.write_all(&buffer[HEAD..HEAD + back])?;
    }
}

/// Requests of one size over the connection to one thread of the server.
#[derive(Debug)]
pub struct OverSocket<'a> {
    name: &'static str,
    stream: &'a UnixStream,
    request: Vec<u8>,
    reply: Vec<u8>,
}

/// Connects to the server's thread on `cpu`.
///
/// # Errors
/// If there is no such thread.
pub fn connect(scratch: &Path, cpu: usize) -> Result<UnixStream, BenchError> {
    let path = path(scratch, cpu);
    Ok(UnixStream::connect(&path).map_err(|e| format!("{}: {e}", path.display()))?)
}

impl<'a> OverSocket<'a> {
    /// Sends `there` bytes to the server over `stream`, and receives `back` bytes.
    pub fn new(name: &'static str, stream: &'a UnixStream, there: usize, back: usize) -> Self {
        let mut request = [(there as u64).to_le_bytes(), (back as u64).to_le_bytes()].concat();
        request.resize(HEAD + there, 1);
        Self { name, stream, request, reply: vec![0; back] }
    }

    fn once(&mut self) -> Result<(), BenchError> {
        self.stream.write_all(&self.request)?;
        Ok(self.stream.read_exact(&mut self.reply)?)
    }
}

impl Subject for OverSocket<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        (0..operations / 8 + 1).try_for_each(|_| self.once())?;
        let start = now_ns();
        (0..operations).try_for_each(|_| self.once())?;
        Ok(now_ns() - start)
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        self.once()?;
        for _ in 0..operations {
            let start = now_ns();
            self.once()?;
            samples.push((now_ns() - start) as f64);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_size_go_both_ways() {
        let (client, mut server) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || answer(&mut server));
        for (there, back) in [(1, 8), (0, 1), (200, 200), (4096, 8), (8, (1 << 20) + 3), ((1 << 20) + 3, 1)] {
            let mut subject = OverSocket::new("test", &client, there, back);
            subject.batch(3).unwrap();
            let mut samples = Vec::new();
            subject.single(2, &mut samples).unwrap();
            assert_eq!((samples.len(), subject.reply.len()), (2, back));
        }
        drop(client);
        serving.join().unwrap().unwrap();
    }
}
