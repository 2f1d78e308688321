//! Models of a call that gives its slot back while it ends
//! (`underpass-rpc/src/dispatch/late/README.md`, S2, S3, E1 and E2).

use super::{Shared, together};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use underpass_sync::CallTurn;

/// What the two threads share.
struct Call {
    turn: CallTurn,
    /// The slot: what was posted over it. Loom checks that one thread uses it.
    slot: UnsafeCell<Vec<&'static str>>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    late: Vec<u64>,
    /// What the client sees of the number, in order.
    said: Vec<&'static str>,
}

/// S2 and S3.
fn sweep(call: &Call, number: u64) {
    let mut table = call.table.lock().unwrap();
    if call.turn.goes_late(number) {
        table.late.push(number);
        call.slot.with_mut(|slot| unsafe { (*slot).push("late") });
        table.said.push("late");
    }
}

/// E1 and E2.
fn end(call: &Call) {
    match call.turn.ends() {
        None => call.slot.with_mut(|slot| unsafe { (*slot).push("done") }),
        Some(number) => {
            let mut table = call.table.lock().unwrap();
            let place = table.late.iter().position(|&late| late == number);
            table.late.remove(place.expect("the call is entered before it ends"));
            table.said.push("answer");
        }
    }
}

#[test]
fn one_thread_uses_the_slot_and_the_answer_comes_second() {
    loom::model(|| {
        let slot = UnsafeCell::new(Vec::new());
        let call = Arc::new(Call { turn: CallTurn::default(), slot, table: Mutex::default() });
        let (one, other) = (Shared(call.clone()), Shared(call.clone()));
        together([
            Box::new(move || {
                let one = one;
                sweep(&one.0, 7);
            }),
            Box::new(move || {
                let other = other;
                end(&other.0);
            }),
        ]);
        let posted = call.slot.with(|slot| unsafe { (*slot).clone() });
        let said = call.table.lock().unwrap().said.clone();
        match posted[..] {
            ["done"] => assert!(said.is_empty()),
            ["late"] => assert_eq!(said, ["late", "answer"]),
            _ => panic!("{posted:?}"),
        }
    });
}
