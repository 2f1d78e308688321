//! What a server gives: transactions and cursors.

use crate::values::{vault, vault_with};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;
use underpass::{CallError, Outcome};
use underpass_tests::{Cursor, CursorClient, Transaction, Vault, VaultClient, Watchdog, until};

fn live(vault: &VaultClient) -> u64 {
    vault.transactions().unwrap().0
}

#[test]
fn a_transaction_belongs_to_its_client() {
    let _watchdog = Watchdog::new("a_transaction_belongs_to_its_client");
    let (_server, vault) = vault("transaction");
    let one = vault.begin().unwrap();
    one.put(1, 10).unwrap();
    assert_eq!(one.who_calls(), Ok(std::process::id()));
    let other = vault.begin().unwrap();
    other.put(2, 20).unwrap();
    assert_eq!(vault.transactions(), Ok((2, 2)));
    one.commit().unwrap();
    drop((one, other));
    until("both to be dropped", || (vault.transactions() == Ok((0, 2))).then_some(()));
    assert_eq!((vault.get(1), vault.get(2)), (Ok(Some(10)), Ok(None)));
}

#[test]
fn a_cursor_makes_cursors_and_outlives_its_vault() {
    let _watchdog = Watchdog::new("a_cursor_makes_cursors_and_outlives_its_vault");
    let (_server, vault) = vault("cursor");
    let entries = vault.begin().unwrap();
    (0..3).for_each(|key| entries.put(key, 10 * u64::from(key)).unwrap());
    entries.commit().unwrap();
    let cursor = vault.scan().unwrap();
    drop((vault, entries));
    assert_eq!(cursor.next(), Ok(Some((0, 0))));
    let other: CursorClient = cursor.fork().unwrap();
    let rest = [cursor.next(), cursor.next(), cursor.next()];
    assert_eq!(rest, [Ok(Some((1, 10))), Ok(Some((2, 20))), Ok(None)]);
    assert_eq!(other.next(), Ok(Some((1, 10))));
}

#[test]
fn a_hundred_thousand_live_over_one_connection() {
    const ALL: u64 = 100_000;
    let _watchdog = Watchdog::new("a_hundred_thousand_live_over_one_connection");
    let (_server, vault) = vault_with("many", "vault-few", Some(ALL as u32));
    let mut held = Vec::with_capacity(ALL as usize);
    while held.len() < ALL as usize {
        held.extend(vault.begin_many(1000).unwrap());
    }
    assert_eq!(live(&vault), ALL);
    for (key, transaction) in held.iter().enumerate().step_by(9973) {
        transaction.put(key as u32, 1).unwrap();
        transaction.commit().unwrap();
        assert_eq!(vault.get(key as u32), Ok(Some(1)));
    }
    // The limit of the user. Nothing is left of the transaction that was made for nobody.
    assert!(matches!(vault.begin(), Err(CallError::NoResources(Outcome::Executed, _))));
    until("it to be dropped", || (live(&vault) == ALL).then_some(()));
    held.truncate(10);
    until("the others to be dropped", || (live(&vault) == 10).then_some(()));
    assert_eq!(held[9].who_calls(), Ok(std::process::id()));
    drop(held);
    until("all to be dropped", || (live(&vault) == 0).then_some(()));
    // The last of them counts until it is dropped.
    until("room", || vault.begin().ok());
}

#[test]
fn a_reply_that_nobody_takes_releases_its_values() {
    let _watchdog = Watchdog::new("a_reply_that_nobody_takes_releases_its_values");
    let (_server, vault) = vault("untaken");
    let hurried = vault.with_deadline(Duration::from_millis(5));
    for _ in 0..20 {
        let late = hurried.begin_slowly(20);
        // Where others keep the processors, the caller runs again when the reply has come too.
        assert!(matches!(late, Err(CallError::Deadline(_)) | Ok(_)), "{late:?}");
    }
    // Futures that are dropped before their replies come, or before they are looked at.
    for n in 0..20 {
        let mut begun = pin!(vault.begin_slowly_async(n % 3));
        // It may be ready already.
        let _begun = begun.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    until("all to be begun", || {
        let (live, begun) = vault.transactions().unwrap();
        (live == 0 && begun > 0).then_some(())
    });
    let kept = vault.begin().unwrap();
    until("the others to be dropped", || (live(&vault) == 1).then_some(()));
    assert!(kept.put(1, 1).is_ok());
}

#[test]
fn a_late_answer_has_values_too() {
    let _watchdog = Watchdog::new("a_late_answer_has_values_too");
    let (_server, vault) = vault("late");
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let vault = vault.clone();
            underpass::thread::spawn(move || vault.begin_slowly(30).unwrap())
        })
        .collect();
    let held: Vec<_> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    assert_eq!(live(&vault), 100);
    assert!(held.iter().all(|transaction| transaction.put(1, 1).is_ok()));
    drop(held);
    until("all to be dropped", || (live(&vault) == 0).then_some(()));
}

#[test]
fn threads_of_both_kinds_make_and_drop_them_at_once() {
    let _watchdog = Watchdog::new("threads_of_both_kinds_make_and_drop_them_at_once");
    let (_server, vault) = vault("storm");
    let work = |vault: VaultClient| {
        move || {
            for n in 0..200 {
                let transaction = vault.begin().unwrap();
                let others = vault.begin_many(n % 5).unwrap();
                assert_eq!(transaction.put(n, 1), Ok(()));
                drop(transaction);
                assert!(others.iter().all(|other| other.put(n, 2).is_ok()));
            }
        }
    };
    let plain: Vec<_> = (0..3).map(|_| std::thread::spawn(work(vault.clone()))).collect();
    let own: Vec<_> = (0..8).map(|_| underpass::thread::spawn(work(vault.clone()))).collect();
    plain.into_iter().for_each(|thread| thread.join().unwrap());
    own.into_iter().for_each(|thread| thread.join().unwrap());
    until("all to be dropped", || (live(&vault) == 0).then_some(()));
}
