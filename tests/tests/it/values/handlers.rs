//! Implementations with async handlers are values too: of a server, of a client, and within one
//! domain.

use crate::values::{given_to, vault};
use std::fs::File;
use std::io::Write;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use underpass::{CallError, Handler, Outcome, Shared};
use underpass_tests::{
    Adds, Office, OfficeClient, OfficeCounts, SinkClient, Teller, Vault, VaultClient, Watchdog, office, until,
};

/// The process that implements the calling process's offices.
fn own() -> u32 {
    std::process::id()
}

/// Calls every method of `office` in both ways.
fn use_all(office: &OfficeClient) {
    assert_eq!((office.add(1, 2), office.who()), (Ok(3), Ok(own())));
    for len in [0, 20, 300, 50_000, 200_000] {
        let bytes = vec![len as u8; len];
        assert_eq!(office.echo(&bytes), Ok(bytes.clone()));
        assert_eq!(office.sum(Shared::from(&bytes)), Ok(len as u64 * u64::from(len as u8)));
        smol::block_on(async { assert_eq!(office.echo_async(&bytes).await, Ok(bytes.clone())) });
    }
    let mut file = File::from(office.carry(File::open("/dev/null").unwrap().into()).unwrap());
    assert!(file.metadata().is_ok() && file.write(&[]).is_err());
    assert_eq!(office.panic("oh"), Err(CallError::Panicked("oh".to_owned())));
    assert_eq!(office.tell(SinkClient::new(Adds { by: 5, ..Adds::default() }), 1), Ok(6));
    let another = office.another().unwrap();
    smol::block_on(async {
        assert_eq!(another.add_async(3, 4).await, Ok(7));
        assert_eq!(another.panic_async("oh").await, Err(CallError::Panicked("oh".to_owned())));
        assert_eq!(another.who_async().await, Ok(own()));
    });
}

/// Calls it from threads of both kinds, and from tasks.
fn use_by_many(office: &OfficeClient) {
    let calls = |office: OfficeClient| move || (0..100).for_each(|n| assert_eq!(office.add(n, 1), Ok(n + 1)));
    let plain: Vec<_> = (0..2).map(|_| std::thread::spawn(calls(office.clone()))).collect();
    let own: Vec<_> = (0..8).map(|_| underpass::thread::spawn(calls(office.clone()))).collect();
    for sum in
        underpass_tests::all((0..100).map(|n| async move { (n, office.add_async(n, 2).await) }), |_| {})
    {
        assert_eq!(sum.1, Ok(sum.0 + 2));
    }
    plain.into_iter().for_each(|thread| thread.join().unwrap());
    own.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Callers that give up: `staying` counts the handlers that are not dropped.
fn give_up(office: &OfficeClient, staying: impl Fn() -> u32) {
    let thread = {
        let office = office.clone();
        underpass::thread::spawn(move || office.stay())
    };
    until("the handler", || (staying() == 1).then_some(()));
    thread.cancel();
    assert_eq!(thread.join().unwrap(), Err(CallError::Cancelled(Outcome::Unknown)));
    until("the handler to be dropped", || (staying() == 0).then_some(()));
    {
        let mut stay = pin!(office.stay_async());
        assert!(stay.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        until("the handler", || (staying() == 1).then_some(()));
    }
    until("the handler to be dropped", || (staying() == 0).then_some(()));
    assert_eq!(office.add(1, 1), Ok(2));
}

fn offices(vault: &VaultClient) -> (u32, u32) {
    vault.offices().unwrap()
}

#[test]
fn a_server_returns_async_handlers() {
    let _watchdog = Watchdog::new("a_server_returns_async_handlers");
    let (_server, vault) = vault("handlers-there");
    let office = vault.office().unwrap();
    use_all(&office);
    use_by_many(&office);
    give_up(&office, || offices(&vault).1);
    until("the others to be dropped", || (offices(&vault).0 == 1).then_some(()));
    // It comes home, where it is called within its domain.
    assert_eq!(vault.add_at(&office, 5, 6), Ok(11));
    drop(office);
    until("it to be dropped", || (offices(&vault).0 == 0).then_some(()));
    let held: Vec<_> = (0..100).map(|_| vault.office().unwrap()).collect();
    assert_eq!(offices(&vault).0, 100);
    drop(held);
    until("all to be dropped", || (offices(&vault).0 == 0).then_some(()));
}

#[test]
fn a_client_gives_async_handlers() {
    let _watchdog = Watchdog::new("a_client_gives_async_handlers");
    let (server, vault) = vault("handlers-here");
    let counts = OfficeCounts::default();
    let ours = office(&counts);
    for n in 0..50 {
        assert_eq!(vault.add_at(&ours, n, 1), Ok(n + 1));
        let added = smol::block_on(vault.add_at_async(&ours, n, 2));
        assert_eq!(added, Ok(n + 2));
    }
    // Handlers of both domains call each other.
    let theirs = vault.office().unwrap();
    assert_eq!(theirs.play(ours.clone(), 9), Ok(10));
    assert_eq!(smol::block_on(theirs.play_async(ours.clone(), 9)), Ok(10));
    let games: Vec<_> = (0..8)
        .map(|_| {
            let (theirs, ours) = (theirs.clone(), ours.clone());
            underpass::thread::spawn(move || theirs.play(ours, 7))
        })
        .collect();
    games.into_iter().for_each(|game| assert_eq!(game.join().unwrap(), Ok(8)));
    // It returns home, and is called within this domain.
    let home = vault.return_office(ours).unwrap();
    assert_eq!((home.who(), home.add(2, 2), home.counters().calls), (Ok(own()), Ok(4), 0));
    drop((home, theirs));
    until("all to be dropped", || (counts.live.load(Ordering::SeqCst) == 0).then_some(()));
    until("the rows to be released", || (given_to(server.pid()) == 0).then_some(()));
}

#[test]
fn async_handlers_are_called_within_their_domain() {
    let _watchdog = Watchdog::new("async_handlers_are_called_within_their_domain");
    let counts = OfficeCounts::default();
    let office = office(&counts);
    use_all(&office);
    use_by_many(&office);
    give_up(&office, || counts.staying.load(Ordering::SeqCst));
    assert_eq!(office.play(office.clone(), 5), Ok(6));
    drop(office);
    until("it to be dropped", || (counts.live.load(Ordering::SeqCst) == 0).then_some(()));
}

#[test]
fn an_executor_that_drops_a_handler_tells_its_caller() {
    let _watchdog = Watchdog::new("an_executor_that_drops_a_handler_tells_its_caller");
    let counts = OfficeCounts::default();
    for spawn in [drop::<Handler> as fn(Handler), |_| panic!("no executor")] {
        let office = OfficeClient::of_handlers(Teller::new(&counts), spawn);
        assert_eq!(office.add(1, 1), Err(CallError::Dropped(Outcome::NotStarted)));
        let told = smol::block_on(office.add_async(1, 1));
        assert_eq!(told, Err(CallError::Dropped(Outcome::NotStarted)));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let handle = runtime.handle().clone();
    let office = OfficeClient::of_handlers(Teller::new(&counts), move |handler| drop(handle.spawn(handler)));
    // The caller is on the only thread of the executor.
    assert_eq!(runtime.block_on(office.add_async(1, 1)), Ok(2));
}
