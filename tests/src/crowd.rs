//! Two activations that contend for one import.

use crate::watchdog::until;
use crate::{Probe, ProbeClient};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass::thread;
use underpass_os::cpu;

/// A place where both threads meet.
#[derive(Debug, Default)]
pub struct Meeting {
    come: AtomicU32,
}

impl Meeting {
    /// Waits until both threads have come as often as the caller.
    ///
    /// # Panics
    /// If the other thread does not come.
    pub fn meet(&self) {
        let all = (self.come.fetch_add(1, Ordering::SeqCst) / 2 + 1) * 2;
        until("the other thread", || {
            thread::yield_now();
            (self.come.load(Ordering::SeqCst) >= all).then_some(())
        });
    }
}

/// Two activations of this domain, each pinned to a CPU of its own, call over `client` at once
/// until each has a channel of its own. Then both run `then`. Returns their results. `None` if
/// there is only one CPU, where nothing contends.
///
/// # Panics
/// If they do not get their channels.
pub fn crowd<R: Send + 'static>(
    client: &ProbeClient,
    then: impl Fn(&ProbeClient, &Meeting, usize) -> R + Send + Sync + 'static,
) -> Option<[R; 2]> {
    let all = cpu::allowed().expect("a process has CPUs");
    let &[first, second, ..] = &all[..] else { return None };
    let (meeting, then) = (Arc::new(Meeting::default()), Arc::new(then));
    let member = |number: usize, cpu: usize| {
        let (client, meeting, then, all) = (client.clone(), meeting.clone(), then.clone(), all.clone());
        let work = move || {
            cpu::confine(&[cpu]).expect("a kernel thread may be confined");
            meeting.meet();
            until("a channel for each", || {
                client.nap(1).expect("the server serves");
                (client.counters().calls_beside > 0).then_some(())
            });
            meeting.meet();
            let given = then(&client, &meeting, number);
            cpu::confine(&all).expect("a kernel thread may be set free");
            given
        };
        thread::Builder::new().dedicated().spawn(work).expect("a thread")
    };
    Some([member(0, first), member(1, second)].map(|thread| thread.join().expect("no panic")))
}
