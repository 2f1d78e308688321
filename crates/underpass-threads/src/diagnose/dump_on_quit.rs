//! A dump when the process is sent `SIGQUIT`.

use crate::diagnose::dump;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use underpass_os::futex::{self, FutexScope, Watched};
use underpass_os::{process, signal};

/// How often a dump was asked for.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// Has a [`dump`](crate::dump()) written to the standard error output whenever this process is sent
/// `SIGQUIT`: by `kill -QUIT`, or Ctrl-\ in its terminal. The process goes on.
///
/// A kernel thread of its own writes the dump, and the handler only wakes it. So it doesn't matter
/// what the handler interrupts, nor whether all activations are held up.
///
/// # Errors
/// If the program handles `SIGQUIT` in another way already, or the kernel gives no kernel thread.
///
/// # Examples
/// ```
/// underpass::thread::dump_on_quit()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn dump_on_quit() -> io::Result<()> {
    static BEGUN: Mutex<bool> = Mutex::new(false);
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    if !*begun {
        signal::install(signal::QUIT, handle_quit)?;
        std::thread::Builder::new().name("underpass-quit".into()).spawn(run)?;
        *begun = true;
    }
    Ok(())
}

/// Runs in the signal handler.
fn handle_quit() {
    // Relaxed: the count carries nothing else.
    ASKED.fetch_add(1, Ordering::Relaxed);
    futex::wake(&ASKED, FutexScope::Private, 1);
}

fn run() {
    let mut seen = 0;
    loop {
        let asked = ASKED.load(Ordering::Relaxed);
        if asked == seen {
            futex::wait(Watched { word: &ASKED, expected: seen, scope: FutexScope::Private }, None);
            continue;
        }
        seen = asked;
        // Not through `std`: a suspended thread may hold its lock.
        process::say(dump::collect().to_string().as_bytes());
    }
}
