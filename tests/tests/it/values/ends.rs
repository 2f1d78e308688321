//! How values end: by the death of a side, by revocation, and with their server.

use crate::values::holder::holder;
use crate::values::{given_to, vault};
use std::time::Duration;
use underpass::{CallError, Outcome, Policy, Running, Server};
use underpass_tests::{
    Adds, Room, Safe, ServerProcess, Sink, SinkClient, Transaction, Vault, VaultClient, Watchdog, kill, until,
};

/// A vault in this process, and its name.
pub fn own_vault(of: &str) -> (Running, String, Safe) {
    let (name, safe) = (Room::name(of), Safe::default());
    let running = Server::new().export(&name, Vault::serve(safe.clone())).start().unwrap();
    (running, name, safe)
}

fn dropped(safe: &Safe) {
    until("the transactions to be dropped", || (safe.live() == 0).then_some(()));
}

#[test]
fn transactions_are_dropped_when_their_client_dies() {
    let _watchdog = Watchdog::new("transactions_are_dropped_when_their_client_dies");
    let (running, name, safe) = own_vault("client-death");
    let (mut dies, mut lives) = (holder(&name), holder(&name));
    for holder in [&mut dies, &mut lives] {
        assert_eq!(holder.ask("begin 100"), "Ok(())");
        assert!(holder.ask("watch 3").starts_with("Ok("));
    }
    assert_eq!(safe.live(), 200);
    // One of them has a call under way, and its implementation waits for the end of that.
    assert_eq!(dies.ask("linger 5"), "lingers");
    kill(dies.pid());
    until("the transactions to be dropped", || (safe.live() <= 101).then_some(()));
    assert_eq!(lives.ask("put 7"), "Ok(())");
    assert_eq!(lives.ask("drop 7"), "dropped");
    until("one more to be dropped", || (safe.live() <= 100).then_some(()));
    drop((dies, lives, running));
}

#[test]
fn sinks_end_when_their_server_dies() {
    let _watchdog = Watchdog::new("sinks_end_when_their_server_dies");
    let (mut server, vault) = vault("server-death");
    let told = std::sync::Arc::<std::sync::atomic::AtomicU64>::default();
    vault.watch(SinkClient::new(Adds { by: 1, told: told.clone() })).unwrap();
    assert_eq!((vault.publish(1), given_to(server.pid())), (Ok(2), 1));
    let transaction = vault.begin().unwrap();
    server.kill();
    until("the sink to be dropped", || (std::sync::Arc::strong_count(&told) == 1).then_some(()));
    assert!(matches!(transaction.put(1, 1), Err(CallError::PeerDied(Outcome::NotStarted))));
    assert_eq!(given_to(server.pid()), 0);
}

#[test]
fn a_revoked_value_ends_alone() {
    let _watchdog = Watchdog::new("a_revoked_value_ends_alone");
    let (running, name, safe) = own_vault("value-revoked");
    let mut holder = holder(&name);
    assert_eq!(holder.ask("begin 3"), "Ok(())");
    let mut ids: Vec<_> = running.bindings().list().iter().map(|binding| binding.id()).collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), 4, "the import and its values");
    assert_eq!(running.bindings().revoke(|binding| binding.id() == ids[2]), 1);
    let told = holder.ask("put 1");
    assert!(told.contains("has revoked") && told.contains("was not started"), "{told}");
    assert_eq!((holder.ask("put 0"), holder.ask("put 2")), ("Ok(())".into(), "Ok(())".into()));
    until("it to be dropped", || (safe.live() == 2).then_some(()));
    assert_eq!(holder.ask("drop 1"), "dropped");
    assert_eq!(holder.ask("begin 1"), "Ok(())");
    assert_eq!(running.bindings().list().len(), 4);
    // All of one export.
    assert_eq!(running.bindings().revoke(|binding| binding.name() == name), 4);
    dropped(&safe);
    let told = holder.ask("put 0");
    assert!(told.contains("was not started"), "{told}");
}

#[test]
fn a_shutdown_waits_until_values_are_dropped() {
    let _watchdog = Watchdog::new("a_shutdown_waits_until_values_are_dropped");
    let (running, name, safe) = own_vault("shutdown");
    let mut holder = holder(&name);
    assert_eq!(holder.ask("begin 500"), "Ok(())");
    assert_eq!(running.shutdown(Duration::from_secs(60)), 0);
    assert_eq!(safe.live(), 0);
    let told = holder.ask("put 0");
    assert!(told.contains("was not started"), "{told}");
}

#[test]
fn a_resilient_client_gets_values_of_the_next_server() {
    let _watchdog = Watchdog::new("a_resilient_client_gets_values_of_the_next_server");
    let name = Room::name("resilient");
    let mut first = ServerProcess::start(crate::values::SERVER, &name, "vault");
    let vault = VaultClient::import_resilient(&name, Policy::default()).unwrap();
    let old = vault.begin().unwrap();
    assert_eq!((vault.watch(SinkClient::new(Adds::default())), vault.publish(2)), (Ok(1), Ok(2)));
    first.kill();
    let _second = ServerProcess::start(crate::values::SERVER, &name, "vault");
    until("the restart to be told", || {
        matches!(vault.transactions(), Err(CallError::Restarted(..))).then_some(())
    });
    vault.acknowledge_restart();
    assert!(
        matches!(old.put(1, 1), Err(CallError::PeerDied(Outcome::NotStarted))),
        "it ended with its server"
    );
    let new = vault.begin().unwrap();
    assert_eq!((new.put(1, 1), vault.transactions()), (Ok(()), Ok((1, 1))));
    assert_eq!((vault.watch(SinkClient::new(Adds::default())), vault.publish(3)), (Ok(1), Ok(3)));
    assert!(SinkClient::new(Adds::default()).tell(1).is_ok());
}
