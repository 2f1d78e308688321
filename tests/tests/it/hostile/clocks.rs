//! Clients that lie about their clocks.

use crate::hostile::client::{hello_at, import_by};
use crate::hostile::clients::{Scene, call, outcome, refused};
use crate::hostile::end::{DONE, ROW, UNWANTED, procedure};
use std::sync::atomic::Ordering;
use underpass_channel::layout::CANCEL_WORDS;
use underpass_channel::{Cell, RingMemory};
use underpass_os::clock::{ahead_ns, now_ns};
use underpass_tests::Watchdog;

/// In ns.
const HOUR: i64 = 3_600_000_000_000;

#[test]
fn a_clock_that_is_not_as_it_says_gets_no_binding() {
    let _watchdog = Watchdog::new("a_clock_that_is_not_as_it_says_gets_no_binding");
    let scene = Scene::new("clocks");
    for ahead in [i64::MIN, i64::MAX, ahead_ns() - HOUR, ahead_ns() + HOUR] {
        refused(&scene, &hello_at(ahead, now_ns()), Some(3));
    }
    refused(&scene, &hello_at(ahead_ns(), now_ns() + HOUR as u64), Some(3));
    refused(&scene, &hello_at(ahead_ns(), u64::MAX), Some(3));
}

#[test]
fn a_clock_that_lies_well_moves_the_liars_own_deadlines() {
    let _watchdog = Watchdog::new("a_clock_that_lies_well_moves_the_liars_own_deadlines");
    let scene = Scene::new("shifts");
    let half_back = -(now_ns() as i64 / 2);
    for shift in [HOUR, half_back, i64::MAX / 2] {
        let shifted = || now_ns().saturating_add_signed(shift);
        let (end, _) = import_by(scene.name(), &hello_at(ahead_ns().saturating_add(shift), shifted()));
        let (soon, late) = (shifted() + HOUR as u64, shifted() - 1_000_000);
        for (deadline, of_it) in [(soon, DONE), (late, UNWANTED), (0, DONE), (1, UNWANTED)] {
            end.region.word(CANCEL_WORDS / 8 + 3).store(deadline, Ordering::SeqCst);
            end.post(&Cell { bounded: true, ..Cell::request(3, procedure("null"), ROW) });
            assert_eq!(outcome(&end, 3), of_it, "{deadline} by a clock that is shifted by {shift}");
        }
        assert_eq!(call(&end, 3, procedure("add"), &[1, 2]), DONE, "the binding goes on");
    }
    scene.is_unharmed();
}
