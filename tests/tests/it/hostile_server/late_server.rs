//! Servers that lie about late answers.

use super::{Scene, call, done, violation};
use crate::hostile::end::{DONE, End, on_the_stack, out_of_band};
use std::time::Duration;
use underpass::{CallError, thread};
use underpass_channel::layout::{COLLECT, STACK};
use underpass_channel::{Cell, Tag};
use underpass_harness::alone;
use underpass_tests::{Probe, Watchdog, until};

/// The outcome of a call that gives its slot back.
const LATE: u16 = 9;

/// Says that `call` is late, under `number`.
fn late(call: &Cell, number: u64) -> Cell {
    Cell::inline(call.slot(), LATE, &number.to_le_bytes()).unwrap()
}

fn collects(call: &Cell) -> bool {
    (call.what(), call.bounded, call.length, call.tag()) == (COLLECT, true, Tag::BYTES as u32, Tag::NONE)
}

/// The client's call that collects, which comes next.
fn collecting(end: &End) -> Cell {
    let collecting = call(end);
    assert!(collects(&collecting), "{collecting:?}");
    collecting
}

/// The client's call that collects, and another one. They come in any order.
fn collecting_beside(end: &End) -> (Cell, Cell) {
    let (one, other) = (call(end), call(end));
    assert!(collects(&one) != collects(&other), "{one:?} {other:?}");
    if collects(&one) { (one, other) } else { (other, one) }
}

/// Answers the call that collects with `reply`, which is for the late call of `number`.
fn answer(end: &End, number: u64, reply: &Cell) {
    end.channel.section_words(reply.slot()).write([number, 0, 0, 0]);
    end.post(reply);
}

#[test]
fn a_late_answer_reaches_its_call() {
    alone!();
    let _watchdog = Watchdog::new("a_late_answer_reaches_its_call");
    let scene = Scene::new("late-honest");
    let serve = |end: &End| {
        end.post(&late(&call(end), 5));
        let (first, second) = collecting_beside(end);
        // The other call passes the first one.
        end.post(&done(&second, &[0, 2, 0, 0, 0]));
        answer(end, 5, &done(&first, &[0, 1, 0, 0, 0]));
    };
    let pids = scene.lied_to(serve, |client| {
        let slow = client.clone();
        let slow = thread::spawn(move || slow.pid());
        until("the call to be sent", || (client.counters().calls == 1).then_some(()));
        let short = client.pid();
        (slow.join().unwrap(), short)
    });
    assert_eq!(pids, (Ok(1), Ok(2)));
}

#[test]
fn a_late_call_without_a_number_of_its_own_closes_the_binding() {
    alone!();
    let _watchdog = Watchdog::new("a_late_call_without_a_number_of_its_own_closes_the_binding");
    let scene = Scene::new("late-numbers");
    scene.violates(|end| end.post(&Cell::new(call(end).slot(), LATE)));
    scene.violates(|end| end.post(&Cell::inline(call(end).slot(), LATE, &[1; 9]).unwrap()));
    scene.violates(|end| end.post(&on_the_stack(call(end).slot(), LATE, 8)));
    scene.violates(|end| end.post(&out_of_band(call(end).slot(), LATE)));
    // Two calls under one number.
    let twice = |end: &End| {
        let (first, second) = (call(end), call(end));
        end.post(&late(&first, 7));
        collecting(end);
        end.post(&late(&second, 7));
    };
    scene.lied_to(twice, |client| {
        let calls = [client.clone(), client.clone()].map(|client| thread::spawn(move || client.pid()));
        calls.into_iter().for_each(|call| violation(call.join().unwrap()));
    });
}

#[test]
fn an_answer_to_no_late_call_closes_the_binding() {
    alone!();
    let _watchdog = Watchdog::new("an_answer_to_no_late_call_closes_the_binding");
    let scene = Scene::new("late-answers");
    let begin = |end: &End| {
        end.post(&late(&call(end), 5));
        collecting(end)
    };
    // A number that no call has, whatever else the answer says.
    for number in [0, 4, 6, u64::MAX] {
        scene.violates(|end| answer(end, number, &done(&begin(end), &[0, 1, 0, 0, 0])));
    }
    // The call that collects is late itself, or has no known outcome, or its bytes are nowhere.
    scene.violates(|end| answer(end, 5, &late(&begin(end), 5)));
    scene.violates(|end| answer(end, 5, &Cell::new(begin(end).slot(), 100)));
    scene.violates(|end| answer(end, 5, &on_the_stack(begin(end).slot(), DONE, STACK as u32 + 1)));
    scene.violates(|end| answer(end, 5, &out_of_band(begin(end).slot(), DONE)));
    // Another slot than the one that collects.
    scene.violates(|end| answer(end, 5, &Cell::new(begin(end).slot() + 1, DONE)));
}

#[test]
fn a_late_answer_that_nobody_wants_is_taken_once() {
    alone!();
    let _watchdog = Watchdog::new("a_late_answer_that_nobody_wants_is_taken_once");
    let scene = Scene::new("late-unwanted");
    let serve = |end: &End| {
        end.post(&late(&call(end), 5));
        let (first, second) = collecting_beside(end);
        end.post(&late(&second, 6));
        // The first call is given up by now: its caller has made another.
        answer(end, 5, &done(&first, &[0, 1, 0, 0, 0]));
        let second = collecting(end);
        answer(end, 5, &done(&second, &[0, 1, 0, 0, 0]));
    };
    scene.lied_to(serve, |client| {
        let hasty = client.with_deadline(Duration::from_millis(20));
        let given_up = hasty.pid();
        assert!(matches!(given_up, Err(CallError::Deadline(_))), "{given_up:?}");
        violation(client.pid());
    });
}
