//! How many processors a domain wants: the words `READY` and `WAITING_SINCE`. Any of its threads
//! publishes them, so that no request waits for the monitor.

use crate::page::layout::head;
use crate::page::words::{PageView, PageWords};
use underpass_seam::atomic::{Ordering, fence};

/// What a publication has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyChange {
    /// The domain wants a processor, and the word said that it wanted none.
    Begins,
    /// Nothing that others have to be told at once.
    Nothing,
}

/// Publishes what `wanted` says. `now` is asked if the domain begins to want a processor.
///
/// Each thread that changes what the domain wants publishes afterwards. Of several that publish at
/// once, the last one to write reads `wanted` again. So when all is quiet the word is right.
/// It repeats only if another thread has made or taken work meanwhile.
pub fn publish_ready(page: &impl PageWords, wanted: impl Fn() -> u32, now: impl Fn() -> u64) -> ReadyChange {
    let mut change = ReadyChange::Nothing;
    // SYNC with the fence below, of another that publishes: this one sees its store, or that one
    // sees the work that the caller has made.
    fence(Ordering::SeqCst);
    loop {
        let wants = wanted();
        if page.read(head::READY) == u64::from(wants) {
            return change;
        }
        // SYNC with the reads of this word by the server and by idle processors: it is a hint.
        let before = page.word(head::READY).swap(wants.into(), Ordering::AcqRel);
        if before == 0 && wants > 0 {
            // SYNC with the read by the server, as above.
            page.word(head::WAITING_SINCE).store(now(), Ordering::Release);
            change = ReadyChange::Begins;
        }
        // SYNC with the fence above.
        fence(Ordering::SeqCst);
    }
}
