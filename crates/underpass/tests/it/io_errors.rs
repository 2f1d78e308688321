//! Interfaces may return `io::Result`: it carries errors of the handler and errors of the call.

use std::io;
use std::path::Path;
use std::time::Duration;
use underpass::{CallError, Handler, Outcome, Server};

/// Async handlers are called over a channel, even by importers in the same process.
#[underpass::interface(asynchronous)]
trait Files {
    /// The length of the file.
    fn len(&self, path: &Path) -> io::Result<u64>;
    /// Fails.
    fn refuse(&self, why: String) -> io::Result<()>;
    /// Never returns.
    fn hang(&self) -> io::Result<()>;
}

struct Disk;

impl FilesAsync for Disk {
    async fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(std::fs::metadata(path)?.len())
    }
    async fn refuse(&self, why: String) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
    async fn hang(&self) -> io::Result<()> {
        std::future::pending().await
    }
}

/// Runs each call on a kernel thread.
fn spawn(mut handler: Handler) {
    std::thread::spawn(move || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while handler.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn errors_of_handlers_and_of_calls_arrive() {
    let name = format!("io-errors-{}", std::process::id());
    let running = Server::new().export(&name, FilesAsync::serve(Disk, spawn)).start().unwrap();
    let files = FilesClient::import(&name).unwrap();

    assert_eq!(files.len(Path::new("/proc/self/stat")).unwrap(), 0);
    let missing = files.len(Path::new("/nothing/here")).unwrap_err();
    assert_eq!((missing.kind(), missing.raw_os_error()), (io::ErrorKind::NotFound, Some(2)));
    let refused = files.refuse("the disk is full of eels".into()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(refused.to_string(), "the disk is full of eels");

    // The call's own failure is an `io::Error` too, and contains the `CallError`.
    let late = files.with_deadline(Duration::from_millis(20)).hang().unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    let told = late.get_ref().and_then(|source| source.downcast_ref::<CallError>());
    assert!(matches!(told, Some(CallError::Deadline(Outcome::Unknown | Outcome::NotStarted))), "{late}");

    drop(files);
    running.stop();
}
