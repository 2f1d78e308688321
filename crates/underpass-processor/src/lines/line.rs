//! What an idle processor polls.

use crate::LineOwner;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Whether the calls that wait on a line are taken. The monitor asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallProgress {
    /// No call waits.
    NoneWait,
    /// Calls wait, and some were taken since the monitor last asked.
    Taken,
    /// Calls wait, and none was taken since the monitor last asked.
    Stalled,
}

/// What a processor asks while it polls: whether messages have come, and to take them.
pub trait PolledLine: Send + Sync {
    /// Takes the replies that have come, and delivers them to their callers. Returns whether there
    /// were any.
    fn poll(&self) -> bool;

    /// Whether calls have come that wait for [`serve`](Self::serve).
    fn pending(&self) -> bool;

    /// Whether a message seems to have come. Pollers ask this again and again, so it does as little
    /// as it can. Only [`poll`](Self::poll) and [`serve`](Self::serve) say whether there is a
    /// message.
    fn stirs(&self) -> bool {
        true
    }

    /// Whether more than one call seems to wait for [`serve`](Self::serve).
    fn backlog(&self) -> bool {
        false
    }

    /// How many calls have been taken, modulo 2³². It is a hint that shows whether another
    /// activation serves them.
    fn taken(&self) -> u32 {
        0
    }

    /// Runs the next call that has come on the calling thread. `by` is that thread's number, never
    /// 0. Returns whether there was a call.
    fn serve(&self, by: u64) -> bool;

    /// Whether calls wait for [`serve`](Self::serve), and whether some were taken since the last
    /// time. Only the monitor asks. Takes neither lock nor memory.
    fn call_progress(&self) -> CallProgress {
        CallProgress::NoneWait
    }
}

/// How a processor announces that it sleeps on the line, and that it polls again.
///
/// The steps of sleeping (S1 to S4) and their proof are in `underpass-channel/src/README.md`.
pub trait SleepLine: Send + Sync {
    /// *S1:* announces that the domain's last processor goes to sleep. Returns the value that
    /// [`word`](Self::word) must hold for the sleep, or `None` if no message of this line is
    /// awaited. `others`: other processors of the domain sleep too, and the peer can wake them as
    /// spares.
    fn park(&self, others: bool) -> Option<u32>;

    /// Announces that one of several processors goes to sleep. Returns as [`park`](Self::park)
    /// does.
    fn spare(&self) -> Option<u32>;

    /// *S3:* whether nothing has come. `false` if that is not known now.
    fn quiet(&self) -> bool;

    /// The word to sleep on.
    fn word(&self) -> &AtomicU32;

    /// Announces that this domain polls again.
    fn look(&self);

    /// Announces that this domain will look at the line only when notified over the socket.
    fn set_unpolled(&self);
}

/// Whether the domain polls the line, or leaves it dormant until its next call.
pub trait ActiveLine: Send + Sync {
    /// Whether this line has carried anything since this was asked last, or since it became active.
    /// Called under the lock of [`lines`](crate::lines).
    fn used(&self) -> bool {
        true
    }

    /// *A2:* announces that this domain does not poll this line any more, until it is notified over
    /// the socket or makes a call.
    fn retire(&self) {}

    /// *A4:* whether nothing has come or is awaited. `false` if that is not known now.
    fn rests(&self) -> bool {
        false
    }

    /// Announces that this domain polls this line again. Returns `false` if the line is closed.
    /// Called under the lock of [`lines`](crate::lines).
    fn revive(&self) -> bool {
        true
    }
}

/// What sleepers owe to the peer, and to others that wait on the same line.
pub trait AwaitedLine: DonationLine {
    /// A plain kernel thread, or a listener for its threads, is about to sleep on this line by
    /// itself.
    fn enter(&self) {}

    /// A thread that [`enter`](Self::enter)ed has ended its sleep, and has at least `own` calls of
    /// its own under way. If other threads wait too, a wake-up that was meant for them is passed
    /// on.
    fn leave(&self, own: u32) {
        let _ = own;
    }

    /// After how many ns a sleeper on this line has to [`notify_again`](Self::notify_again). It has
    /// to if replies are awaited from a peer whose processors may all be held up by blocking
    /// procedures. `donated`: the sleeper has donated its own processor to the peer.
    fn notify_again_after(&self, donated: bool) -> Option<u64> {
        let _ = donated;
        None
    }

    /// Notifies the peer again, in a way that reaches it even if none of its processors polls or
    /// sleeps.
    fn notify_again(&self) {
        self.call();
    }

    /// Notifies the peer as [`notify_again`](Self::notify_again) does, if the peer has taken none
    /// of our calls for as long as a sleeper would wait. A processor that is busy with threads
    /// calls this about every [`PROMPT`](crate::PROMPT) ns.
    fn notify_again_if_late(&self) {}

    /// Whether replies are awaited on this line.
    fn awaits(&self) -> bool {
        false
    }

    /// Wakes a spare processor of the peer, if something was posted since the peer was last
    /// notified.
    fn wake_spare(&self);
}

/// How processors are given to the peer and taken from it: both sides of a donation.
pub trait DonationLine: PolledLine {
    /// Whether calls wait at a peer that has no processor, and that was not notified of them. Then
    /// it is to be given a processor.
    #[inline]
    fn owed(&self) -> bool {
        false
    }

    /// Whether calls are [`owed`](Self::owed), and already were when a busy processor last asked
    /// this.
    #[inline]
    fn overdue(&self) -> bool {
        false
    }

    /// *Donate:* wakes the peer's listener of this CPU for what is [`owed`](Self::owed). Returns
    /// `false` if none sleeps. The caller goes to sleep at once, with the line announced by
    /// [`park`](SleepLine::park) or [`spare`](SleepLine::spare), and gets its processor back by a
    /// wake-up.
    fn donate(&self) -> bool {
        false
    }

    /// As [`donate`](Self::donate), but the caller stays ready to run, and gives way instead of
    /// sleeping. Returns the CPU, for [`is_back`](Self::is_back). If no listener takes the
    /// processor, notifies the peer and returns `None`.
    fn begin_to_give_way(&self) -> Option<usize> {
        None
    }

    /// Whether the listener of `cpu` has given the processor back to the donor that gives way.
    fn is_back(&self, cpu: usize) -> bool {
        let _ = cpu;
        true
    }

    /// The donor has ended giving way, which it did `times` times. This is counted.
    fn gave_way(&self, times: u32) {
        let _ = times;
    }

    /// Notifies the peer of what is [`owed`](Self::owed), so that it serves it on a processor of
    /// its own.
    fn call(&self) {}

    /// A listener of this CPU is about to sleep. Returns the word on which it waits for a processor
    /// from this line's peer, and the word's value, if it can wait there.
    fn listen(&self, cpu: usize) -> Option<(&AtomicU32, u32)> {
        let _ = cpu;
        None
    }

    /// A listener of this CPU can't watch this line's word, so the peer must not believe that it
    /// does. Returns `false` if the processor has come already.
    fn ignore(&self, cpu: usize) -> bool {
        let _ = cpu;
        true
    }

    /// Whether this line's peer has donated the processor of this CPU since
    /// [`listen`](Self::listen), or since [`hand_back`](Self::hand_back) if the listener stayed.
    fn came(&self, cpu: usize) -> bool {
        let _ = cpu;
        false
    }

    /// Whether every call that has come has its reply. `false` if that is not known now. A listener
    /// on loan asks.
    fn answered(&self) -> bool {
        !self.pending()
    }

    /// From now on serves on a processor that the peer has donated: notifications wait for the
    /// return.
    fn borrow(&self) {}

    /// Gives the processor of this CPU back, by waking the peer. A listener that `stays` checks
    /// [`came`](Self::came) before it sleeps.
    fn hand_back(&self, cpu: usize, stays: bool) {
        let _ = (cpu, stays);
    }
}

/// The receiving end of a channel, as processors see it.
pub trait Line: PolledLine + SleepLine + ActiveLine + AwaitedLine + DonationLine {
    /// The activation that serves this line, if several activations serve calls. The crate that
    /// dispatches uses it.
    #[inline]
    fn owner(&self) -> Option<&LineOwner> {
        None
    }

    /// Counts a spin. It was for a message of this line alone, or a call of this line ended it.
    /// `paid`: it found something.
    fn spun(&self, paid: bool) {
        let _ = paid;
    }

    /// The interface and the method of the call that the thread `by` runs, if
    /// [`serve`](PolledLine::serve) took the call. This is for people. It takes neither lock nor
    /// memory, since the caller may have interrupted anything.
    fn runs(&self, by: u64) -> Option<(&'static str, &'static str)> {
        let _ = by;
        None
    }

    /// The line itself, for the crate that made it.
    fn itself(self: Arc<Self>) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }

    /// Whether the peer may run on another CPU than this thread, so that polling can pay.
    fn elsewhere(&self) -> bool;

    /// Whether the peer may ever run on the CPU of this thread, so that giving way to it can help.
    fn shares(&self) -> bool;
}
