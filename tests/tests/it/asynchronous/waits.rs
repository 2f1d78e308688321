//! Which waker wakes a task.

use crate::asynchronous::callers::serve;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use underpass_tests::Watchdog;

/// Records that it was woken.
struct Tell(Sender<&'static str>, &'static str);

impl Wake for Tell {
    fn wake(self: Arc<Self>) {
        // The last wake-ups come after the test.
        let _ = self.0.send(self.1);
    }
}

#[test]
fn the_waker_of_the_last_poll_is_woken() {
    let _watchdog = Watchdog::new("the_waker_of_the_last_poll_is_woken");
    let (_server, client) = serve("async-last");
    let (tell, told) = channel();
    let [first, last] = ["first", "last"].map(|name| Waker::from(Arc::new(Tell(tell.clone(), name))));
    let mut call = Box::pin(client.nap_async(200));
    // The call is polled until it relies on its waker.
    assert!(call.as_mut().poll(&mut Context::from_waker(&first)).is_pending());
    while told.try_recv().is_ok() {
        assert!(call.as_mut().poll(&mut Context::from_waker(&first)).is_pending());
    }
    assert!(call.as_mut().poll(&mut Context::from_waker(&last)).is_pending());
    assert_eq!(told.recv(), Ok("last"));
    assert_eq!(call.as_mut().poll(&mut Context::from_waker(&first)), Poll::Ready(Ok(())));
}
