//! The monitor finds blocking that was not announced, and other threads get the processor.

use crate::fake;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use underpass_harness::alone;
use underpass_processor::metrics;

#[test]
fn what_a_blocked_thread_waits_for_can_start() {
    alone!();
    fake::start(1);
    for _ in 0..3 {
        let (say, heard) = mpsc::channel();
        fake::spawn(move || {
            fake::spawn(move || say.send(7).unwrap());
            // This blocks without announcing it.
            assert_eq!(heard.recv(), Ok(7));
        });
        fake::rests();
    }
    assert!(metrics().compensations() > 0);
    assert!(fake::BLOCKING.load(Ordering::Relaxed) > 0);
}
