//! A thread can run only on an activation that sleeps. It gets its turn although all processors
//! compute.

use crate::fake;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use underpass_harness::alone;

#[test]
fn an_activation_that_wakes_for_a_thread_of_its_own_gets_its_turn() {
    alone!();
    let pool = fake::start(1);
    let begun = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicBool::new(false));
    // A second activation has to be started for the second thread.
    let (first, second) = (begun.clone(), begun.clone());
    fake::spawn(move || {
        fake::spawn(move || first.store(true, Ordering::Release));
        fake::blocking_call(|| fake::until(|| second.load(Ordering::Acquire)));
    });
    fake::rests();
    assert!(pool.activation_counts().activations > 1);
    fake::spawn(move || {
        let home = pool.activations().find(|other| other.number() != fake::own().number()).unwrap();
        let flag = done.clone();
        fake::spawn_at(home, move || {
            assert_eq!(fake::own().number(), home.number());
            flag.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            spin_loop();
        }
    });
    fake::rests();
}
