//! An interface may return `io::Result`: errors of the handler arrive, and so do those of the call.

use std::io;
use std::path::Path;
use std::time::Duration;
use underpass::{CallError, Handler, Outcome, Server};

/// Importers of handlers that are async have a channel, also in the very process.
#[underpass::interface(asynchronous)]
trait Files {
    /// Bytes of the file.
    fn len(&self, path: &Path) -> io::Result<u64>;
    /// Refuses.
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

/// A kernel thread for each call.
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

    // The call's own failure is an error too, which has all that is known of it.
    let late = files.with_deadline(Duration::from_millis(20)).hang().unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    let told = late.get_ref().and_then(|source| source.downcast_ref::<CallError>());
    assert!(matches!(told, Some(CallError::Deadline(Outcome::Unknown | Outcome::NotStarted))), "{late}");

    drop(files);
    running.stop();
}
