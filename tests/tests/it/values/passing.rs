//! Values that are passed on, within one domain, and what can't be passed.

use crate::values::{vault, vault_with};
use std::os::unix::net::UnixStream;
use underpass::{CallError, Outcome, Server, ShareError};
use underpass_tests::{
    Adds, Cursor, CursorClient, Room, Safe, ServerProcess, Sink, SinkClient, Transaction, TransactionClient,
    Vault, VaultClient, Watchdog, until,
};

#[test]
fn a_value_is_passed_on_where_its_server_allows_it() {
    let _watchdog = Watchdog::new("a_value_is_passed_on_where_its_server_allows_it");
    let (_server, vault) = vault_with("shared", "vault-shared", None);
    let transaction = vault.begin().unwrap();
    transaction.put(1, 1).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    transaction.share_with(&ours).unwrap();
    let passed = TransactionClient::import_from(&theirs, ServerProcess::soon()).unwrap();
    passed.put(2, 2).unwrap();
    drop(transaction);
    assert_eq!(vault.transactions(), Ok((1, 1)), "the other holder has it");
    passed.commit().unwrap();
    assert_eq!((vault.get(1), vault.get(2)), (Ok(Some(1)), Ok(Some(2))), "it is one transaction");
    // It is the value that was passed on, and not what it came from.
    let again = vault.begin().unwrap();
    again.share_with(&ours).unwrap();
    assert!(VaultClient::import_from(&theirs, ServerProcess::soon()).is_err());
    drop((passed, again));
    until("all to be dropped", || (vault.transactions() == Ok((0, 2))).then_some(()));
}

#[test]
fn a_value_is_not_passed_on_where_its_server_forbids_it() {
    let _watchdog = Watchdog::new("a_value_is_not_passed_on_where_its_server_forbids_it");
    let (_one, vault) = vault("unshared");
    let transaction = vault.begin().unwrap();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    assert!(matches!(transaction.share_with(&ours), Err(ShareError::NotAllowed)));
    // Nor by an argument of a call to another domain.
    let (_other, elsewhere) = crate::values::vault("elsewhere");
    let refused = elsewhere.who_calls(transaction.clone());
    assert!(
        matches!(&refused, Err(CallError::NoResources(Outcome::NotStarted, why)) if why.contains("share_with")),
        "{refused:?}"
    );
    assert!(transaction.put(1, 1).is_ok() && elsewhere.begin().is_ok());
}

#[test]
fn within_one_domain_all_of_it_is_direct() {
    let _watchdog = Watchdog::new("within_one_domain_all_of_it_is_direct");
    let (name, safe) = (Room::name("within"), Safe::default());
    let running = Server::new().export(&name, Vault::serve(safe.clone())).start().unwrap();
    let vault = VaultClient::import(&name).unwrap();
    let transaction = vault.begin().unwrap();
    transaction.put(1, 10).unwrap();
    assert_eq!(vault.who_calls(transaction.clone()), Ok(std::process::id()));
    transaction.commit().unwrap();
    drop(transaction);
    assert_eq!((safe.live(), vault.get(1)), (0, Ok(Some(10))), "it is dropped with its last stub");
    assert_eq!((vault.watch(SinkClient::new(Adds::default())), vault.publish(3)), (Ok(1), Ok(3)));
    let home = vault.give_back().unwrap().unwrap();
    assert_eq!((home.tell(4), home.counters().calls), (Ok(4), 0));
    drop(running);
}

/// Counts without being `Sync`.
struct Counts(std::cell::Cell<u32>);

impl Cursor for Counts {
    fn next(&self) -> Result<Option<(u32, u64)>, CallError> {
        self.0.set(self.0.get() + 1);
        Ok(Some((self.0.get(), 0)))
    }

    fn fork(&self) -> Result<CursorClient, CallError> {
        Ok(CursorClient::of_service(Self(self.0.clone()).serve_exclusive()))
    }
}

#[test]
fn an_exclusive_implementation_is_a_value() {
    let _watchdog = Watchdog::new("an_exclusive_implementation_is_a_value");
    let cursor = CursorClient::of_service(Counts(Default::default()).serve_sequential());
    assert_eq!((cursor.next(), cursor.next()), (Ok(Some((1, 0))), Ok(Some((2, 0)))));
    assert_eq!(cursor.fork().unwrap().next(), Ok(Some((3, 0))));
}

#[test]
#[should_panic(expected = "a stub of Sink can't have a service of Cursor")]
fn a_service_of_another_interface_is_refused() {
    let _ = SinkClient::of_service(Counts(Default::default()).serve_exclusive());
}
