//! What an idle processor looks at.

use std::sync::atomic::AtomicU32;

/// The receiving end of a channel, as processors see it.
///
/// The steps of sleeping (S1 to S4) and their proof are in `underpass-channel/src/README.md`.
pub trait Line: Send + Sync {
    /// Takes the replies that have come and hands them to who waits for them; says whether there were any.
    fn poll(&self) -> bool;

    /// Whether calls have come that wait for [`serve`](Self::serve).
    fn pending(&self) -> bool;

    /// Whether more than one call seems to wait for [`serve`](Self::serve).
    fn backlog(&self) -> bool {
        false
    }

    /// Runs the next call that has come on the calling thread; says whether there was one.
    fn serve(&self) -> bool;

    /// *S1:* says that the domain's last processor goes to sleep; gives the value that [`word`](Self::word) has to hold,
    /// or nothing if no message of this line is awaited. `others` of the domain may sleep too, and can be knocked for.
    fn park(&self, others: bool) -> Option<u32>;

    /// Says that one of several processors goes to sleep; otherwise as [`park`](Self::park).
    fn spare(&self) -> Option<u32>;

    /// *S3:* whether nothing has come. `false` if that can't be told now.
    fn quiet(&self) -> bool;

    /// The word to sleep on.
    fn word(&self) -> &AtomicU32;

    /// Says that this domain looks by itself again.
    fn look(&self);

    /// Says that this domain will look only when told over the socket.
    fn set_aside(&self);

    /// A plain kernel thread is about to sleep on this line by itself.
    fn enter(&self) {}

    /// The thread that [`enter`](Self::enter)ed sleeps no more. If others still do, a bell that was theirs is passed on.
    fn leave(&self) {}

    /// Calls a spare processor of the peer, if something was posted since the peer was last called.
    fn knock(&self);

    /// Whether the peer may be running on another CPU than this thread, so that polling can pay.
    fn elsewhere(&self) -> bool;

    /// Whether the peer may ever run on the CPU of this thread, so that giving way to it can help.
    fn shares(&self) -> bool;
}
