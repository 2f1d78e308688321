//! When a release takes effect.

use crate::values::vault;
use std::pin::pin;
use std::task::{Context, Waker};
use underpass::{Abandon, CallError, Outcome};
use underpass_tests::{Transaction, Vault, VaultClient, Watchdog, until};

/// As many calls as one row may have under way over one channel, less some.
const MANY: u32 = 24;

fn live(vault: &VaultClient) -> u64 {
    vault.transactions().unwrap().0
}

/// Returns when the server has done what this process has told it over the socket before. Another
/// value is released, and messages of one socket keep their order.
fn told(vault: &VaultClient) {
    let before = live(vault);
    drop(vault.begin().unwrap());
    until("the later release", || (live(vault) == before).then_some(()));
}

#[test]
fn a_release_waits_for_calls_that_were_posted_before_it() {
    let _watchdog = Watchdog::new("a_release_waits_for_calls_that_were_posted_before_it");
    let (_server, vault) = vault("release");
    let (transaction, abandon) = (vault.begin().unwrap(), Abandon::new());
    let free = transaction.abandonable(&abandon);
    let call = |n: u32| {
        let free = free.clone();
        let call = move || free.hold();
        match n % 6 {
            0 => Err(std::thread::spawn(call)),
            _ => Ok(underpass::thread::spawn(call)),
        }
    };
    let callers: Vec<_> = (0..MANY).map(call).collect();
    until("the calls", || (vault.holds().unwrap().0 == MANY).then_some(()));
    // Their callers give up, and nobody has a stub any more.
    abandon.abandon();
    for caller in callers {
        let result = match caller {
            Ok(thread) => thread.join().unwrap(),
            Err(thread) => thread.join().unwrap(),
        };
        assert_eq!(result, Err(CallError::Abandoned(Outcome::Unknown)));
    }
    drop((transaction, free));
    told(&vault);
    assert_eq!((live(&vault), vault.holds()), (1, Ok((MANY, 0))), "its calls run on");
    vault.let_go().unwrap();
    until("it to be dropped", || (live(&vault) == 0).then_some(()));
    assert_eq!(vault.holds(), Ok((0, MANY)), "each call has found it alive at its end");
}

#[test]
fn a_release_right_behind_a_call_leaves_nothing() {
    let _watchdog = Watchdog::new("a_release_right_behind_a_call_leaves_nothing");
    let (_server, vault) = vault("release-behind");
    vault.let_go().unwrap();
    let mut begun = 0;
    for round in 0..300 {
        let transaction = vault.begin().unwrap();
        let mut calls: Vec<_> = (0..round % 4).map(|_| Box::pin(transaction.hold_async())).collect();
        for call in &mut calls {
            // Posted, and perhaps not begun when the release comes.
            let _ = pin!(call).as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        begun += calls.len() as u32;
        drop(calls);
    }
    until("all to be dropped", || (live(&vault) == 0).then_some(()));
    // A call ran with its transaction, or was refused.
    let (holding, well) = vault.holds().unwrap();
    assert!(holding == 0 && well <= begun, "{holding} {well} {begun}");
    assert!(vault.begin().unwrap().commit().is_ok(), "nothing of that was a violation");
}
