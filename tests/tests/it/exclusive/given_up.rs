//! Calls that are given up while they wait for their turn, and callers that die.

use crate::exclusive::{KINDS, Scene};
use std::time::Duration;
use underpass::{Abandon, CallError, thread};
use underpass_tests::{Ledger, Porch, Watchdog, kill, until};

/// A process that keeps the token of `scene` until the gate is open.
fn keep(scene: &Scene) -> std::process::Child {
    let keeper = scene.caller(&["keep", "1"]);
    scene.until_logged(1);
    keeper
}

/// Opens the gate, and checks that nothing but call 2 was executed besides the one that kept it.
fn ends(scene: &Scene, mut keeper: std::process::Child) {
    scene.porch.open().unwrap();
    assert!(keeper.wait().unwrap().success());
    assert_eq!(scene.ledger.note(2), Ok(()));
    assert_eq!(scene.porch.log(), Ok(vec![1, 2]));
}

#[test]
fn a_call_whose_deadline_passes_before_its_turn_is_not_started() {
    let _watchdog = Watchdog::new("a_call_whose_deadline_passes_before_its_turn_is_not_started");
    for kind in KINDS {
        let scene = Scene::new("late", kind);
        let keeper = keep(&scene);
        for millis in [1, 20, 50] {
            let told = scene.ledger.with_deadline(Duration::from_millis(millis)).note(9);
            assert!(matches!(told, Err(CallError::Deadline(_))), "{told:?}");
        }
        ends(&scene, keeper);
    }
}

#[test]
fn a_call_that_is_given_up_before_its_turn_is_not_started() {
    let _watchdog = Watchdog::new("a_call_that_is_given_up_before_its_turn_is_not_started");
    for kind in KINDS {
        let scene = Scene::new("given-up", kind);
        let keeper = keep(&scene);
        let (abandon, before) = (Abandon::new(), scene.ledger.counters().calls);
        let (free, called) = (scene.ledger.abandonable(&abandon), scene.ledger.clone());
        let (abandoned, cancelled) =
            (thread::spawn(move || free.note(9)), thread::spawn(move || called.note(9)));
        until("both to call", || (scene.ledger.counters().calls == before + 2).then_some(()));
        abandon.abandon();
        cancelled.cancel();
        assert!(matches!(abandoned.join().unwrap(), Err(CallError::Abandoned(_))));
        assert!(matches!(cancelled.join().unwrap(), Err(CallError::Cancelled(_))));
        ends(&scene, keeper);
    }
}

#[test]
fn a_caller_that_dies_before_its_turn_is_not_served() {
    let _watchdog = Watchdog::new("a_caller_that_dies_before_its_turn_is_not_served");
    for kind in KINDS {
        let scene = Scene::new("dead", kind);
        let keeper = keep(&scene);
        let mut dies = scene.caller(&["hold", "9"]);
        // Its call is taken, and waits.
        until("the call to wait", || (scene.porch.waiting() == Ok(1)).then_some(()));
        let before = scene.porch.bindings().unwrap();
        kill(dies.id());
        dies.wait().unwrap();
        until("its binding to end", || (scene.porch.bindings() == Ok(before - 1)).then_some(()));
        ends(&scene, keeper);
    }
}

#[test]
fn a_caller_that_dies_in_its_turn_keeps_nobody_waiting() {
    let _watchdog = Watchdog::new("a_caller_that_dies_in_its_turn_keeps_nobody_waiting");
    for (kind, how) in KINDS.into_iter().flat_map(|kind| ["hold", "keep"].map(|how| (kind, how))) {
        let scene = Scene::new(&format!("dies-{how}"), kind);
        let mut dies = scene.caller(&[how, "1"]);
        scene.until_logged(1);
        kill(dies.id());
        dies.wait().unwrap();
        let waits = scene.ledger.clone();
        let waits = thread::spawn(move || waits.note(2));
        // Its handler goes on, as any handler does. The others go on when it has ended.
        scene.porch.open().unwrap();
        assert_eq!(waits.join().unwrap(), Ok(()));
        assert_eq!(scene.ledger.note(3), Ok(()));
        assert_eq!(scene.porch.log(), Ok(vec![1, 2, 3]));
    }
}
