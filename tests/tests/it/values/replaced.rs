//! Values of a server that another one replaces end with it.

use crate::values::{SERVER, given_to};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use underpass::sync::{Condvar, Mutex};
use underpass::{CallError, Outcome, Policy};
use underpass_tests::{
    Adds, Room, ServerProcess, Sink, SinkClient, Transaction, Vault, VaultClient, Watchdog, until,
};

/// A server, which another one then replaces.
struct Replaced {
    name: String,
    old: ServerProcess,
}

impl Replaced {
    fn new(of: &str) -> Self {
        let name = Room::name(of);
        let old = ServerProcess::start(SERVER, &name, "vault");
        Self { name, old }
    }

    /// Starts the next server. The old one refuses new calls from now on, sooner or later.
    fn replace(&mut self) -> ServerProcess {
        let new = ServerProcess::start(SERVER, &self.name, "vault-replace");
        self.old.leave_the_name();
        new
    }
}

fn is_not_started<T: std::fmt::Debug>(result: &Result<T, CallError>) -> bool {
    matches!(result, Err(CallError::Closed(Outcome::NotStarted) | CallError::PeerDied(Outcome::NotStarted)))
}

#[test]
fn values_end_with_the_server_that_is_replaced() {
    let _watchdog = Watchdog::new("values_end_with_the_server_that_is_replaced");
    let mut scene = Replaced::new("replaced");
    let vault = VaultClient::import_resilient(&scene.name, Policy::default()).unwrap();
    let (old, sink) = (vault.begin().unwrap(), SinkClient::new(Adds::default()));
    old.put(1, 1).unwrap();
    vault.watch(sink.clone()).unwrap();
    assert_eq!(given_to(scene.old.pid()), 1);
    let _new = scene.replace();
    scene.old.ended();
    // They do not go on at the next server, which never gave them.
    let told = old.commit();
    assert!(is_not_started(&told), "{told:?}");
    until("the sink to come back", || (given_to(scene.old.pid()) == 0).then_some(()));
    assert_eq!(sink.tell(3), Ok(3), "it is called here");
    until("the restart to be told", || {
        matches!(vault.transactions(), Err(CallError::Restarted(..))).then_some(())
    });
    vault.acknowledge_restart();
    assert_eq!(vault.transactions(), Ok((0, 0)), "the next server");
    let passed = vault.who_calls(old.clone());
    assert!(matches!(passed, Err(CallError::NoResources(Outcome::NotStarted, _))), "{passed:?}");
    let new = vault.begin().unwrap();
    assert_eq!((new.put(1, 2), new.commit(), vault.get(1)), (Ok(()), Ok(()), Ok(Some(2))));
    assert_eq!((vault.watch(sink), vault.publish(4)), (Ok(1), Ok(4)));
    let told = old.put(1, 1);
    assert!(is_not_started(&told), "{told:?}");
}

/// A sink that answers when the test says so.
#[derive(Default)]
struct Gate {
    told: AtomicBool,
    open: Mutex<bool>,
    opened: Condvar,
}

struct Waits(Arc<Gate>);

impl Sink for Waits {
    fn tell(&self, n: u64) -> Result<u64, CallError> {
        self.0.told.store(true, Ordering::SeqCst);
        let open = self.0.open.lock().unwrap();
        drop(self.0.opened.wait_while(open, |open| !*open));
        Ok(n)
    }

    fn who_tells(&self) -> Result<u32, CallError> {
        Ok(0)
    }

    fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
        Ok(bytes.to_vec())
    }
}

#[test]
fn a_call_under_way_may_use_its_values_to_its_end() {
    let _watchdog = Watchdog::new("a_call_under_way_may_use_its_values_to_its_end");
    let mut scene = Replaced::new("replaced-under-way");
    let vault = VaultClient::import(&scene.name).unwrap();
    let (gate, told) = (Arc::<Gate>::default(), Arc::<AtomicU64>::default());
    vault.watch(SinkClient::new(Waits(gate.clone()))).unwrap();
    vault.watch(SinkClient::new(Adds { by: 5, told: told.clone() })).unwrap();
    let transaction = vault.begin().unwrap();
    let caller = {
        let vault = vault.clone();
        std::thread::spawn(move || vault.publish(1))
    };
    until("the first sink to be told", || gate.told.load(Ordering::SeqCst).then_some(()));
    let _new = scene.replace();
    until("the old server to drain", || is_not_started(&transaction.put(1, 1)).then_some(()));
    *gate.open.lock().unwrap() = true;
    gate.opened.notify_all();
    // The second sink is told by a server that drains.
    assert_eq!(caller.join().unwrap(), Ok(7));
    scene.old.ended();
    until("the sinks to be dropped", || (Arc::strong_count(&told) == 1).then_some(()));
}
