//! Random programs of threads under many schedules. A model knows their results.
//!
//! Each seed makes a program: a tree of threads of every kind. They start, join, scope, park,
//! unpark, sleep, yield, cancel, lock, send, wait in vain, block in the kernel and panic. The
//! result of each does not depend on the order of events, so the model is a plain recursion.
//! Between any two steps a thread may yield, as its own seeded random numbers say. That, the number
//! of processors and the kernel's scheduling make the schedules. `shuttle` could do this only if
//! the threads were its own.
//!
//! `UNDERPASS_TEST_ROUNDS` is the number of seeds (30), `UNDERPASS_TEST_SEED` the first one.

mod perform;
mod program;
mod steps;

use crate::common::{setting, with_processors};
use perform::Stage;
use program::Program;
use std::sync::Arc;

/// Runs the programs of all seeds, each on a user-level thread and on a plain kernel thread.
fn perform_all(dice: u64) {
    let first = setting("UNDERPASS_TEST_SEED", 1);
    for seed in first..first + setting("UNDERPASS_TEST_ROUNDS", 30) {
        let program = Arc::new(Program::of_seed(seed));
        let expected = program.result();
        for on_user_thread in [true, false] {
            eprintln!("seed {seed}, {} threads, user-level: {on_user_thread}", program.threads());
            let stage = Arc::new(Stage::default());
            let got = {
                let (program, stage) = (program.clone(), stage.clone());
                let body = move || perform::perform(&program, &stage, dice);
                if on_user_thread {
                    underpass_threads::spawn(body).join().unwrap()
                } else {
                    std::thread::spawn(body).join().unwrap()
                }
            };
            assert_eq!(got, expected, "seed {seed}");
            stage.wait_for_detached(program.detached(), program.locks());
        }
    }
}

#[test]
fn every_program_ends_with_its_result() {
    with_processors(&[1, 2, 4], || perform_all(4));
}

#[test]
fn every_program_ends_with_its_result_when_threads_hardly_give_way() {
    with_processors(&[1, 2, 4], || perform_all(64));
}
