//! What an idle processor looks at.

use crate::Keeper;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use underpass_os::Stamp;

/// The receiving end of a channel, as processors see it.
///
/// The steps of sleeping (S1 to S4) and their proof are in `underpass-channel/src/README.md`.
pub trait Line: Send + Sync {
    /// Takes the replies that have come and hands them to who waits for them; says whether there
    /// were any.
    fn poll(&self) -> bool;

    /// Whether calls have come that wait for [`serve`](Self::serve).
    fn pending(&self) -> bool;

    /// Whether a message seems to have come, for who looks again and again: little enough to do to
    /// see it at once. Whether it is to be polled or served, those say.
    fn stirs(&self) -> bool {
        true
    }

    /// Whether more than one call seems to wait for [`serve`](Self::serve).
    fn backlog(&self) -> bool {
        false
    }

    /// How many calls have been taken, modulo 2³²: a hint, for who asks whether another serves
    /// them.
    fn taken(&self) -> u32 {
        0
    }

    /// Runs the next call that has come on the calling thread, which has the number `by`, never 0;
    /// says whether there was one.
    fn serve(&self, by: u64) -> bool;

    /// As [`serve`](Self::serve), for who has nothing else to do: looks
    /// [`Spin::ROW`](crate::Spin::ROW) times in a row for a call, having done before all that can
    /// be done before. Nothing where that can't be, or would be of no use.
    fn serve_soon(&self, _by: u64) -> Option<bool> {
        None
    }

    /// *S1:* says that the domain's last processor goes to sleep; gives the value that
    /// [`word`](Self::word) has to hold, or nothing if no message of this line is awaited. `others`
    /// of the domain may sleep too, and can be knocked for.
    fn park(&self, others: bool) -> Option<u32>;

    /// Says that one of several processors goes to sleep; otherwise as [`park`](Self::park).
    fn spare(&self) -> Option<u32>;

    /// *S3:* whether nothing has come. `false` if that can't be told now.
    fn quiet(&self) -> bool;

    /// The word to sleep on.
    fn word(&self) -> &AtomicU32;

    /// When and from where the peer last called who sleeps on the word, as it says.
    fn called(&self) -> Option<Stamp> {
        None
    }

    /// Says that this domain looks by itself again.
    fn look(&self);

    /// Says that this domain will look only when told over the socket.
    fn set_unpolled(&self);

    /// Whether this line has carried anything since this was asked last, or since it became active.
    /// Asked under the lock of [`lines`](crate::lines).
    fn used(&self) -> bool {
        true
    }

    /// *A2:* says that this domain does not look at this line any more, until it is called over the
    /// socket or makes a call.
    fn retire(&self) {}

    /// *A4:* whether nothing has come or is awaited. `false` if that can't be told now.
    fn rests(&self) -> bool {
        false
    }

    /// Says that this domain looks at this line again; `false` if it is closed. Under the lock of
    /// [`lines`](crate::lines).
    fn revive(&self) -> bool {
        true
    }

    /// A plain kernel thread, or a listener for its threads, is about to sleep on this line by
    /// itself.
    fn enter(&self) {}

    /// Who [`enter`](Self::enter)ed sleeps no more, and has `own` calls of its own under way at the
    /// least. If others wait too, a bell that was theirs is passed on.
    fn leave(&self, own: u32) {
        let _ = own;
    }

    /// After how many ns a sleeper on this line is to [`insist`](Self::insist): replies are awaited
    /// of a peer whose processors may all be held up by what blocks in a procedure. The sleeper has
    /// `donated` its own processor to the peer, or not.
    fn insists(&self, donated: bool) -> Option<u64> {
        let _ = donated;
        None
    }

    /// Calls the peer again, in a way that reaches it also when none of its processors looks or
    /// sleeps.
    fn insist(&self) {
        self.call();
    }

    /// A processor that is busy with threads asks this each [`PROMPT`](crate::PROMPT) ns or so:
    /// calls the peer, as [`insist`](Self::insist) does, if it has taken none of our calls for as
    /// long as a sleeper would wait.
    fn insist_if_late(&self) {}

    /// Whether calls wait for [`serve`](Self::serve); if so, whether none was taken since the
    /// monitor last asked. The monitor alone asks. Takes neither lock nor memory.
    fn stalls(&self) -> Option<bool> {
        None
    }

    /// Whether replies are awaited on this line.
    fn awaits(&self) -> bool {
        false
    }

    /// Calls a spare processor of the peer, if something was posted since the peer was last called.
    fn knock(&self);

    /// Whether calls wait at a peer that has no processor, and that was not called for them: it is
    /// to be given one.
    #[inline]
    fn owed(&self) -> bool {
        false
    }

    /// Whether calls are [`owed`](Self::owed), and were so when a busy processor last asked this.
    #[inline]
    fn overdue(&self) -> bool {
        false
    }

    /// *Donate:* wakes the peer's listener of this CPU for what is [`owed`](Self::owed); `false` if
    /// none sleeps. The caller goes to sleep at once, with the line parked or spare, and gets its
    /// processor back by a wake-up.
    fn donate(&self) -> bool {
        false
    }

    /// As [`donate`](Self::donate), but the caller stays ready to run, and gives way instead of
    /// sleeping. Gives the CPU, for [`is_back`](Self::is_back); nothing if no listener takes the
    /// processor: then the peer has been called.
    fn begin_to_give_way(&self) -> Option<usize> {
        None
    }

    /// Whether the listener of `cpu` has given the processor back to who gives way.
    fn is_back(&self, cpu: usize) -> bool {
        let _ = cpu;
        true
    }

    /// Who began to give way does so no more, after `times` times. Counted.
    fn gave_way(&self, times: u32) {
        let _ = times;
    }

    /// Calls the peer for what is [`owed`](Self::owed), onto a processor of its own.
    fn call(&self) {}

    /// A listener of this CPU is about to sleep: the word on which it waits for a processor from
    /// this line's peer, and its value, if it can.
    fn listen(&self, cpu: usize) -> Option<(&AtomicU32, u32)> {
        let _ = cpu;
        None
    }

    /// A listener of this CPU can't watch this line's word: nobody shall think that it does.
    /// `false` if the processor has come already.
    fn ignore(&self, cpu: usize) -> bool {
        let _ = cpu;
        true
    }

    /// Whether this line's peer has donated the processor of this CPU since
    /// [`listen`](Self::listen), or since [`hand_back`](Self::hand_back) where it stays.
    fn came(&self, cpu: usize) -> bool {
        let _ = cpu;
        false
    }

    /// Serves on a processor that the peer has donated, from now on: bells wait for the return.
    fn borrow(&self) {}

    /// Gives the processor of this CPU back: calls the peer. A listener that `stays` looks at
    /// [`came`](Self::came) before it sleeps.
    fn hand_back(&self, cpu: usize, stays: bool) {
        let _ = (cpu, stays);
    }

    /// Who serves this line, where several activations serve calls: for the room that dispatches.
    #[inline]
    fn keeper(&self) -> Option<&Keeper> {
        None
    }

    /// A spin for a message of this line alone, or one that a call of this line has ended, found
    /// something or did not. Counted.
    fn spun(&self, paid: bool) {
        let _ = paid;
    }

    /// The interface and the method whose call the thread `by` runs, if it was taken by
    /// [`serve`](Self::serve): for people. It takes no lock and no memory, since the caller may
    /// have interrupted anything.
    fn runs(&self, by: u64) -> Option<(&'static str, &'static str)> {
        let _ = by;
        None
    }

    /// Itself, for the room that made the line.
    fn itself(self: Arc<Self>) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// Whether the peer may be running on another CPU than this thread, so that polling can pay.
    fn elsewhere(&self) -> bool;

    /// Whether the peer may ever run on the CPU of this thread, so that giving way to it can help.
    fn shares(&self) -> bool;
}
