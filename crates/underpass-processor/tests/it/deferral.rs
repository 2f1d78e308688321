//! An activation that holds preemption off is not preempted. It gives way when preemption is on
//! again.

use crate::fake;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass_harness::alone;
use underpass_processor::preempt;

#[test]
fn a_critical_section_ends_before_its_activation_gives_way() {
    alone!();
    fake::start(1);
    let ran = Arc::new(AtomicBool::new(false));
    fake::spawn(move || {
        let other = ran.clone();
        preempt::disable();
        fake::spawn(move || other.store(true, Ordering::Release));
        // From here on it is asked to give way, and perhaps interrupted, many times.
        while !fake::own().summoned() {
            spin_loop();
        }
        for _ in 0..10_000_000 {
            spin_loop();
        }
        assert!(!ran.load(Ordering::Acquire), "there is one processor, and its holder was not preempted");
        preempt::enable();
        while !ran.load(Ordering::Acquire) {
            spin_loop();
        }
    });
    fake::rests();
}
