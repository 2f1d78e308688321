//! How a handler gets from the activation that takes its call to tokio. This file alone knows.

use std::task::{Context, Poll, Waker};
use tokio::runtime::Handle;
use underpass::Handler;
use underpass::thread::no_preempt;

/// How a handler gets from the activation that takes its call to tokio.
///
/// An activation is a kernel thread of Underpass, and tokio's workers are others. So a call that
/// finds both asleep wakes two threads.
///
/// # Examples
/// ```
/// use underpass_grpc::{HandOff, ServeOptions};
///
/// let options = ServeOptions::new().hand_off(HandOff::PollFirst);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandOff {
    /// The handler becomes a task of the runtime at once. Right for every handler.
    #[default]
    Spawn,
    /// The activation polls the handler once, in the runtime's context. If that ends it, no other
    /// thread is woken. Otherwise it becomes a task.
    ///
    /// Only for handlers that compute for microseconds before their first `await`, and that block
    /// nowhere, neither in the kernel nor in a blocking call of Underpass. They hold up the calls
    /// of others meanwhile. The stack is that of a handler (2 MiB).
    PollFirst,
}

impl HandOff {
    /// Has `handler` run.
    pub(crate) fn start(self, runtime: &Handle, mut handler: Handler) {
        let ended = match self {
            Self::Spawn => false,
            Self::PollFirst => poll_once(runtime, &mut handler),
        };
        if !ended {
            drop(runtime.spawn(handler));
        }
    }
}

/// Polls `handler` here. Returns whether it has ended.
fn poll_once(runtime: &Handle, handler: &mut Handler) -> bool {
    // The runtime's context belongs to the kernel thread. No other user-level thread may run on it
    // in between.
    let _processor = no_preempt();
    let _context = runtime.enter();
    // Wake-ups before the task exists are not lost: a task begins with a poll.
    handler.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use tokio::runtime::Builder;

    #[test]
    fn a_handler_that_waits_goes_on_as_a_task() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        for hand_off in [HandOff::Spawn, HandOff::PollFirst] {
            let (sender, receiver) = channel();
            let handler = async move {
                let begun = std::thread::current().id();
                tokio::task::yield_now().await;
                sender.send((begun, std::thread::current().id())).unwrap();
            };
            hand_off.start(runtime.handle(), Box::pin(handler));
            let (begun, ended) = receiver.recv().unwrap();
            let here = std::thread::current().id();
            assert_ne!(ended, here);
            assert_eq!(begun == here, hand_off == HandOff::PollFirst);
        }
    }

    #[test]
    fn a_handler_that_does_not_wait_ends_here() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (sender, receiver) = channel();
        let handler = async move { sender.send(std::thread::current().id()).unwrap() };
        HandOff::PollFirst.start(runtime.handle(), Box::pin(handler));
        assert_eq!(receiver.try_recv(), Ok(std::thread::current().id()));
    }
}
