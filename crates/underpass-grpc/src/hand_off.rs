//! How a handler gets from the activation that takes its call to tokio. This file alone knows.

use std::task::{Context, Poll, Waker};
use tokio::runtime::Handle;
use underpass::Handler;
use underpass::thread::without_switches;

/// How a handler gets from the activation that takes its call to tokio.
///
/// An activation is a kernel thread of Underpass, and tokio's workers are others. A handler that
/// always becomes a task wakes two threads if both are asleep.
///
/// # Examples
/// ```
/// use underpass_grpc::{HandOff, ServeOptions};
///
/// let options = ServeOptions::new().hand_off(HandOff::Spawn);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandOff {
    /// The handler becomes a task of the runtime at once. The processors of Underpass run nothing
    /// of it. For handlers that compute for milliseconds before their first `await`, and for those
    /// that ask for their task (`tokio::task::id`) there.
    Spawn,
    /// The activation polls the handler once, in the runtime's context. If that ends it, no other
    /// thread is woken. Otherwise it becomes a task. The stack is that of a handler (2 MiB).
    ///
    /// Right for every handler that does not block, as tokio asks of it anyway. One that blocks or
    /// computes holds its activation, as it would hold a worker of tokio's. Calls of others go to
    /// other activations, of which there are as many as processors. If it blocks, another one takes
    /// its place after some milliseconds.
    ///
    /// If other threads of the program have started on the activation, they would wait too. So the
    /// handler becomes a task at once then.
    #[default]
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

/// Polls `handler` here, if nobody else has to wait for that. Returns whether it has ended.
fn poll_once(runtime: &Handle, handler: &mut Handler) -> bool {
    // The runtime's context belongs to the kernel thread. No other user-level thread may run on it
    // in between, so a handler that blocks does so in the kernel.
    let poll = || {
        let _context = runtime.enter();
        // Wake-ups before the task exists are not lost: a task begins with a poll.
        handler.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    };
    without_switches(poll).unwrap_or(false)
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
    fn a_handler_that_blocks_keeps_the_context_of_its_runtime() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let handle = runtime.handle().clone();
        let (woken, wait) = underpass::sync::mpsc::channel();
        let (sender, receiver) = channel();
        let caller = underpass::thread::spawn(move || {
            let handler = async move {
                let before = std::thread::current().id();
                // A call that blocks a user-level thread. Here it blocks the kernel thread.
                let came: u32 = wait.recv().unwrap();
                let same = std::thread::current().id() == before;
                sender.send((came, same, Handle::try_current().is_ok())).unwrap();
            };
            HandOff::PollFirst.start(&handle, Box::pin(handler));
            Handle::try_current().is_err()
        });
        underpass::thread::spawn(move || woken.send(7).unwrap()).join().unwrap();
        assert_eq!(receiver.recv(), Ok((7, true, true)));
        assert!(caller.join().unwrap(), "the context is left");
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
