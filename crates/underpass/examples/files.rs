//! Passes open files with calls: `cargo run --example files`.
//!
//! A log reader that could run in a sandbox, because it opens no file by itself. Its client opens
//! the log and passes it. The client gets a pipe, from which it reads the found lines while the log
//! reader still searches.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::Duration;
use underpass::{CallError, Outcome, Server, Wire};

/// A log, and the word to look for.
#[derive(Wire)]
struct Question {
    log: File,
    word: String,
}

#[underpass::interface]
trait LogReader {
    /// The lines of the log that contain the word.
    fn search(&self, question: Question) -> Result<OwnedFd, CallError>;
    /// The length of the log. The caller keeps the file.
    fn length(&self, log: &File) -> Result<u64, CallError>;
}

struct Diligent;

impl LogReader for Diligent {
    fn search(&self, Question { log, word }: Question) -> Result<OwnedFd, CallError> {
        let (found, mut to) = pipe().map_err(|e| CallError::NoResources(Outcome::Unknown, e.to_string()))?;
        // A kernel thread, because reading files blocks.
        std::thread::spawn(move || {
            let lines = BufReader::new(log).lines().map_while(Result::ok);
            // A write fails if the client has closed the pipe.
            lines.filter(|line| line.contains(&word)).try_for_each(|line| writeln!(to, "{line}"))
        });
        Ok(found.into())
    }

    fn length(&self, log: &File) -> Result<u64, CallError> {
        Ok(log.metadata().map_err(|e| CallError::NoResources(Outcome::Unknown, e.to_string()))?.len())
    }
}

/// Ends the server with the example.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(name) = std::env::args().nth(1) {
        return Ok(Server::new().export(&name, LogReader::serve(Diligent)).run()?);
    }
    let name = format!("log-reader-{}", std::process::id());
    let _server = Other(Command::new(std::env::current_exe()?).arg(&name).spawn()?);
    let reader = LogReaderClient::import_within(&name, Duration::from_secs(10))?;

    let path = std::env::temp_dir().join(&name);
    std::fs::write(&path, "all is well\nfire in room 7\nall is well\nfire is out\n")?;
    let log = File::open(&path)?;
    std::fs::remove_file(&path)?;
    println!("{} bytes", reader.length(&log)?);
    let mut lines = String::new();
    File::from(reader.search(Question { log, word: "fire".to_owned() })?).read_to_string(&mut lines)?;
    print!("{lines}");
    assert_eq!(lines, "fire in room 7\nfire is out\n");
    Ok(())
}
