//! Whether the runtime of this domain works: threads run, and the clerk does what it has to.

use crate::control::timer;
use std::sync::mpsc::sync_channel;

/// Waits until an activation has run a new user-level thread, and the clerk has run a timer. If one
/// of them never does, this never returns. For a kernel thread, which a service manager's watchdog
/// waits for.
pub fn await_runtime() {
    let (thread_ran, heard) = sync_channel(2);
    let timer_ran = thread_ran.clone();
    // The channel has room for both.
    timer::set(0, move || _ = timer_ran.try_send(()));
    underpass_threads::spawn(move || _ = thread_ran.try_send(()));
    // An error says that a sender was dropped unused: the domain has ended its work.
    let _ = heard.recv().and_then(|()| heard.recv());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_clerk_that_hangs_gives_no_sign_of_life() {
        await_runtime();
        let (release, held) = sync_channel::<()>(0);
        let (hangs, hung) = sync_channel(0);
        timer::set(0, move || {
            hangs.send(()).unwrap();
            held.recv().unwrap();
        });
        hung.recv().unwrap();
        let released = Arc::new(AtomicBool::new(false));
        let seen = released.clone();
        let waits = std::thread::spawn(move || {
            await_runtime();
            seen.load(Ordering::SeqCst)
        });
        // Threads run meanwhile, more than one after another.
        (0..100).for_each(|_| underpass_threads::spawn(|| ()).join().unwrap());
        assert!(!waits.is_finished());
        released.store(true, Ordering::SeqCst);
        release.send(()).unwrap();
        assert!(waits.join().unwrap());
    }
}
