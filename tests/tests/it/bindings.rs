//! Bindings: which clients get one, what the server knows about its holder, and how the server
//! takes it back.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use underpass::{Binding, CallError, Grant, ImportError, Running, Server, binding_state, caller};
use underpass_harness::{alone, skip};
use underpass_tests::{
    ANOTHER, PublicRoom, Puppet, Reception, ReceptionClient, Receptionist, Room, SOMEBODY, Watchdog, fds_of,
    listen, until,
};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

fn is_root() -> bool {
    underpass_os::process::user() == 0
}

fn server() -> Server {
    Server::new().directory(PublicRoom::directory(SERVER)).mode(0o666)
}

/// A puppet with a binding to `name`.
fn bound(name: &str) -> Puppet {
    let mut puppet = Puppet::start(SERVER);
    assert_eq!(puppet.ask(&format!("import {name} 1")), "()");
    assert_eq!(puppet.ask("add 0"), "3");
    puppet
}

/// The regions that this process has mapped.
fn regions() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter(|line| line.contains("underpass-binding")).count()
}

#[test]
fn a_server_decides_who_gets_a_binding() {
    alone!();
    let _watchdog = Watchdog::new("a_server_decides_who_gets_a_binding");
    if !is_root() {
        skip!("only root can become another user");
    }
    let (open, closed) = (Room::name("open"), Room::name("closed"));
    let decide = |peer: &underpass::Peer| match peer.uid() {
        SOMEBODY if peer.is_in(SOMEBODY) => Grant::allow(),
        0 => panic!("root is too much"),
        uid => Grant::deny(format!("user {uid} is nobody here")),
    };
    let running = server()
        .export(&open, Reception::serve(Receptionist::default()))
        .export(&closed, Reception::serve(Receptionist::default()).authorize(decide))
        .start()
        .unwrap();
    let mut puppets = [0, SOMEBODY, ANOTHER].map(|uid| Puppet::of_user(SERVER, uid));
    for puppet in &mut puppets {
        assert_eq!(puppet.ask(&format!("import {open} 1")), "()", "the other export lets everybody in");
    }
    let [root, somebody, another] =
        puppets.each_mut().map(|puppet| puppet.ask(&format!("import {closed} 1")));
    assert!(root.contains("NotAuthorized") && root.contains("root is too much"), "{root}");
    assert_eq!(somebody, "()");
    assert!(another.contains("NotAuthorized") && another.contains("user 61001 is nobody here"), "{another}");
    assert_eq!(puppets[1].ask("add 1"), "3");
    let names: Vec<_> = running.bindings().list().iter().map(|binding| binding.name().to_owned()).collect();
    assert_eq!(names, [open.clone(), open.clone(), open, closed]);
}

#[test]
fn a_procedure_sees_its_caller() {
    alone!();
    let _watchdog = Watchdog::new("a_procedure_sees_its_caller");
    let name = Room::name("caller");
    let _running = server().export(&name, Reception::serve(Receptionist::default())).start().unwrap();
    let users = if is_root() { vec![0, SOMEBODY, ANOTHER] } else { vec![underpass_os::process::user()] };
    let mut puppets: Vec<_> = users
        .iter()
        .map(|&uid| if users.len() > 1 { Puppet::of_user(SERVER, uid) } else { Puppet::start(SERVER) })
        .collect();
    for puppet in &mut puppets {
        assert_eq!(puppet.ask(&format!("import {name} 1")), "()");
    }
    for _ in 0..20 {
        for (puppet, uid) in puppets.iter_mut().zip(&users) {
            let (said, pid) = (puppet.ask("who 0"), puppet.pid());
            // The caller before the pause and after it, and no caller in a thread of its own.
            let one = format!("Some(Who {{ pid: {pid}, uid: {uid}, gid: ");
            assert!(said.matches(&one).count() == 2 && said.ends_with("None]"), "{said}");
            assert_eq!(said.matches("pidfd: true").count(), 2, "{said}");
        }
    }
    assert!(underpass::caller().is_none());
}

#[test]
fn a_binding_is_revoked_for_one_client_for_one_interface_and_for_all() {
    alone!();
    let _watchdog = Watchdog::new("a_binding_is_revoked");
    let (one, other) = (Room::name("one"), Room::name("other"));
    let files = fds_of(std::process::id());
    let running = server()
        .export(&one, Reception::serve(Receptionist::default()))
        .export(&other, Reception::serve(Receptionist::default()))
        .start()
        .unwrap();
    let mut puppets = [bound(&one), bound(&one), bound(&one)];
    assert_eq!(puppets[2].ask(&format!("import {other} 1")), "()");
    let bindings = running.bindings();
    assert_eq!(bindings.list().len(), 4);
    let pid = puppets[0].pid();
    assert_eq!(bindings.revoke(|binding| binding.peer().pid() == pid), 1);
    let revoked = "Revoked(NotStarted)";
    let tells =
        |puppet: &mut Puppet, what: &str| until("the end", || (puppet.ask(what) == revoked).then_some(()));
    tells(&mut puppets[0], "add 0");
    assert_eq!((puppets[1].ask("add 0"), puppets[2].ask("add 0")), ("3".to_owned(), "3".to_owned()));
    assert_eq!(bindings.revoke(|binding| binding.name() == other), 1);
    tells(&mut puppets[2], "add 1");
    assert_eq!(puppets[2].ask("add 0"), "3", "the other interface goes on");
    assert_eq!(puppets[0].ask(&format!("import {one} 1")), "()", "who may import may do so again");
    assert_eq!(bindings.revoke(|_| true), 3);
    tells(&mut puppets[0], "add 1");
    tells(&mut puppets[1], "add 0");
    tells(&mut puppets[2], "add 0");
    assert_eq!((bindings.list().len(), bindings.revoke(|_| true)), (0, 0));
    until("memory to be freed", || (regions() == 0).then_some(()));
    running.stop();
    // The files of the clerk and of the processors stay.
    until("files to be closed", || (fds_of(std::process::id()) <= files + 12).then_some(()));
}

#[test]
fn calls_under_way_are_told_the_truth_when_their_binding_is_revoked() {
    alone!();
    let _watchdog = Watchdog::new("calls_under_way_are_told_the_truth");
    let name = Room::name("truth");
    let receptionist = Receptionist::default();
    let running = server().export(&name, Reception::serve(receptionist.clone())).start().unwrap();
    let mut puppet = bound(&name);
    puppet.ask("wait 0 10");
    until("calls to begin", || (receptionist.begun.load(Ordering::SeqCst) == 10).then_some(()));
    assert_eq!(running.bindings().revoke(|_| true), 1);
    assert_eq!(puppet.ask("join"), ["Revoked(Unknown)"; 10].join(" "));
    assert_eq!(puppet.ask("add 0"), "Revoked(NotStarted)");
    assert!(regions() == 1, "calls under way have their arguments still");
    receptionist.open.store(1, Ordering::SeqCst);
    until("memory to be freed", || (regions() == 0).then_some(()));
}

#[test]
fn a_binding_ends_when_its_time_is_over() {
    alone!();
    let _watchdog = Watchdog::new("a_binding_ends_when_its_time_is_over");
    let (short, own, ever) = (Room::name("short"), Room::name("own"), Room::name("ever"));
    let soon = Duration::from_millis(30);
    let running = server()
        .export(&short, Reception::serve(Receptionist::default()).expires_in(soon))
        .export(
            &own,
            Reception::serve(Receptionist::default())
                .expires_in(Duration::from_secs(3600))
                .authorize(move |_| Grant::allow().expires_in(soon)),
        )
        .export(&ever, Reception::serve(Receptionist::default()))
        .start()
        .unwrap();
    let mut puppet = Puppet::start(SERVER);
    for name in [&short, &own, &ever] {
        assert_eq!(puppet.ask(&format!("import {name} 1")), "()");
    }
    for which in ["add 0", "add 1"] {
        until("the end of its time", || (puppet.ask(which) == "Revoked(NotStarted)").then_some(()));
    }
    assert_eq!(puppet.ask("add 2"), "3");
    let left = running.bindings().list();
    assert_eq!((left.len(), left[0].name(), left[0].expires_in()), (1, &*ever, None));
}

fn shut_down(running: Running, within: Duration) -> std::thread::JoinHandle<usize> {
    std::thread::spawn(move || running.shutdown(within))
}

#[test]
fn a_server_that_shuts_down_answers_what_it_began_and_begins_nothing() {
    alone!();
    let _watchdog = Watchdog::new("a_server_that_shuts_down");
    let name = Room::name("shutdown");
    let receptionist = Receptionist::default();
    let running = server().export(&name, Reception::serve(receptionist.clone())).start().unwrap();
    let (mut busy, mut other) = (bound(&name), bound(&name));
    busy.ask("wait 0 5");
    until("calls to begin", || (receptionist.begun.load(Ordering::SeqCst) == 5).then_some(()));
    let ending = shut_down(running, Duration::from_secs(3600));
    until("new calls to be turned away", || (other.ask("add 0") == "Closed(NotStarted)").then_some(()));
    until("its own too", || (busy.ask("add 0") == "Closed(NotStarted)").then_some(()));
    assert!(busy.ask(&format!("import {name} 1")).contains("NotExported"));
    assert!(!ending.is_finished(), "it waits for the calls under way");
    receptionist.open.store(1, Ordering::SeqCst);
    assert_eq!(busy.ask("join"), ["()"; 5].join(" "));
    assert_eq!(ending.join().unwrap(), 0);
    assert_eq!(busy.ask("add 0"), "Closed(NotStarted)");
    until("memory to be freed", || (regions() == 0).then_some(()));
}

#[test]
fn a_shutdown_waits_up_to_its_limit_and_reports_the_calls_it_cut_off() {
    alone!();
    let _watchdog = Watchdog::new("a_shutdown_waits_for_so_long");
    let name = Room::name("cut");
    let receptionist = Receptionist::default();
    let running = server().export(&name, Reception::serve(receptionist.clone())).start().unwrap();
    let (mut busy, mut idle) = (bound(&name), bound(&name));
    busy.ask("wait 0 3");
    until("calls to begin", || (receptionist.begun.load(Ordering::SeqCst) == 3).then_some(()));
    assert_eq!(running.shutdown(Duration::from_millis(20)), 1);
    assert_eq!(busy.ask("join"), ["Closed(Unknown)"; 3].join(" "));
    assert_eq!(idle.ask("add 0"), "Closed(NotStarted)");
    receptionist.open.store(1, Ordering::SeqCst);
}

/// One puppet passes its binding on to another. Returns what each of them says.
fn pass_on(from: &mut Puppet, to: &mut Puppet, address: &str) -> (String, String) {
    to.begin(&format!("take {address}"));
    let gave = from.ask(&format!("give 0 {address}"));
    (gave, to.hear())
}

#[test]
fn a_binding_is_passed_on_only_if_its_server_lets_it_and_to_who_is_let_in() {
    alone!();
    let _watchdog = Watchdog::new("a_binding_is_passed_on");
    if !is_root() {
        skip!("only root can become another user");
    }
    let (open, picky, closed) = (Room::name("shared"), Room::name("picky"), Room::name("unshared"));
    let running = server()
        // The third puppet cannot import by itself.
        .mode(0o600)
        .limits_of(SOMEBODY, underpass::Limits { bindings: 1, ..underpass::Limits::default() })
        .export(
            &open,
            Reception::serve(Receptionist::default())
                .authorize(|peer| match peer.uid() {
                    0 => Grant::allow().expires_in(Duration::from_secs(3600)),
                    _ => Grant::allow(),
                })
                .shareable(),
        )
        .export(
            &picky,
            Reception::serve(Receptionist::default())
                .authorize(|peer| Grant::from(peer.uid() == 0).shareable(true)),
        )
        .export(&closed, Reception::serve(Receptionist::default()))
        .start()
        .unwrap();
    let mut third = Puppet::of_user(SERVER, SOMEBODY);
    assert!(third.ask(&format!("import {open} 1")).contains("PermissionDenied"));
    let mut first = bound(&open);
    assert_eq!(pass_on(&mut first, &mut third, &format!("{open}-a")), ("()".into(), "()".into()));
    let said = third.ask("who 0");
    assert!(said.contains(&format!("pid: {}, uid: {SOMEBODY},", third.pid())), "{said}");
    assert_eq!((third.ask("add 0"), first.ask("add 0")), ("3".to_owned(), "3".to_owned()));
    assert!(
        running.bindings().list().iter().all(|binding| binding.expires_in().is_some()),
        "nor is it longer"
    );
    // It is a client of its own. It counts for its user, and its binding outlives the first
    // client's end.
    let (gave, took) = pass_on(&mut first, &mut third, &format!("{open}-b"));
    assert!(gave == "()" && took.contains("Limit("), "{gave} {took}");
    assert_eq!(running.bindings().revoke(|binding| binding.peer().uid() == 0), 1);
    drop(first);
    assert_eq!(third.ask("add 0"), "3");
    assert_eq!(running.bindings().revoke(|binding| binding.peer().uid() == SOMEBODY), 1);
    assert_eq!(third.ask("add 0"), "Revoked(NotStarted)");
    until("its room to be free", || (regions() == 0).then_some(()));
    // A binding that was not taken before the first client's binding ended cannot be taken any
    // more.
    let (give, take) = (listen(&format!("{open}-c")).unwrap(), UnixStream::pair().unwrap());
    let mut first = bound(&open);
    assert_eq!(first.ask(&format!("give 0 {open}-c")), "()");
    let ticket = underpass_os::take_passed(give.accept().unwrap().0, u64::MAX / 2).unwrap();
    assert_eq!(running.bindings().revoke(|binding| binding.peer().pid() == first.pid()), 1);
    underpass_os::pass(&take.0, ticket.as_fd()).unwrap();
    let lapsed = ReceptionClient::import_from(&take.1, Duration::from_secs(100)).unwrap_err();
    assert!(matches!(lapsed, ImportError::Lapsed), "{lapsed}");
    until("its room to be free", || (regions() == 0).then_some(()));
    let (gave, took) = pass_on(&mut bound(&picky), &mut third, &picky);
    assert!(gave == "()" && took.contains("NotAuthorized"), "{gave} {took}");
    let (gave, took) = pass_on(&mut bound(&closed), &mut third, &closed);
    assert!(gave == "NotAllowed" && took.contains("nobody has passed"), "{gave} {took}");
}

/// Events of the ends of bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Hook(u64),
    /// The number of the binding, as its state knows it and as its drop is told.
    Dropped(u64, u64),
}

type Ends = Arc<Mutex<Vec<Heard>>>;

/// The state of a binding.
struct Transaction {
    owner: u64,
    ends: Ends,
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let told = caller().expect("it is dropped for a binding").binding_id();
        self.ends.lock().unwrap().push(Heard::Dropped(self.owner, told));
    }
}

#[underpass::interface]
trait Bank {
    /// The binding over which this is called: before and after a pause, and as its state says.
    fn owners(&self) -> Result<[u64; 3], CallError>;
}

/// Keeps state for each binding.
#[derive(Clone, Default)]
struct Ledger {
    ends: Ends,
    reception: Receptionist,
    /// Another interface of this domain.
    other: Option<BankClient>,
}

impl Ledger {
    fn owner() -> u64 {
        caller().expect("somebody has called").binding_id()
    }

    fn transaction(&self) -> Arc<Transaction> {
        binding_state(|| Transaction { owner: Self::owner(), ends: self.ends.clone() }).unwrap()
    }

    fn hook(&self) -> impl Fn(&Binding) + Send + Sync + 'static {
        let ends = self.ends.clone();
        move |binding| {
            // The drop of a state runs like a handler, so it may wait.
            underpass::thread::sleep(Duration::from_millis(1));
            assert_eq!(Self::owner(), binding.id());
            ends.lock().unwrap().push(Heard::Hook(binding.id()));
        }
    }

    fn heard(&self) -> Vec<Heard> {
        self.ends.lock().unwrap().clone()
    }
}

impl Bank for Ledger {
    fn owners(&self) -> Result<[u64; 3], CallError> {
        let before = Self::owner();
        underpass::thread::sleep(Duration::from_millis(1));
        Ok([before, Self::owner(), self.transaction().owner])
    }
}

impl Reception for Ledger {
    fn who(&self) -> Result<[Option<underpass_tests::Who>; 3], CallError> {
        self.reception.who()
    }

    fn add(&self, a: u8, b: u8) -> Result<u8, CallError> {
        assert_eq!(self.transaction().owner, Self::owner());
        self.reception.add(a, b)
    }

    fn wait(&self) -> Result<(), CallError> {
        self.transaction();
        self.reception.wait()
    }

    fn doze(&self, ms: u64) -> Result<(), CallError> {
        self.reception.doze(ms)
    }

    fn begun(&self) -> Result<u32, CallError> {
        self.reception.begun()
    }

    /// The owners of the called interface, around a call of another interface, which sees an owner
    /// of its own.
    fn workers(&self) -> Result<(u32, u32, u32), CallError> {
        let owner = || Self::owner() as u32;
        let (before, [there, ..]) = (owner(), self.other.as_ref().unwrap().owners()?);
        Ok((before, there as u32, owner()))
    }
}

#[test]
fn a_server_learns_of_each_bindings_end_whatever_the_reason() {
    alone!();
    let _watchdog = Watchdog::new("a_server_learns_of_each_bindings_end");
    for reason in ["dropped", "died", "revoked", "expired", "stopped", "shut down"] {
        let (name, ledger) = (Room::name(&format!("ends-{}", &reason[..4])), Ledger::default());
        let mut service = Reception::serve(ledger.clone()).on_binding_end(ledger.hook());
        if reason == "expired" {
            service = service.expires_in(Duration::from_millis(200));
        }
        let mut running = Some(server().export(&name, service).start().unwrap());
        let mut puppet = Puppet::start(SERVER);
        assert_eq!(puppet.ask(&format!("import {name} 1")), "()");
        let bindings = running.as_ref().unwrap().bindings();
        let id = match reason {
            // The binding may be over before it can be examined.
            "expired" => None,
            _ => {
                assert_eq!(puppet.ask("add 0"), "3");
                assert_eq!(puppet.ask("thread 0"), "3", "one state for all calls");
                Some(bindings.list()[0].id())
            }
        };
        match reason {
            "dropped" => drop(puppet.ask("drop")),
            "died" => drop(puppet),
            "revoked" => assert_eq!(bindings.revoke(|_| true), 1),
            "stopped" => running.take().unwrap().stop(),
            "shut down" => {
                assert_eq!(running.take().unwrap().shutdown(Duration::from_secs(60)), 0);
                assert_eq!(ledger.heard().len(), 2, "it has waited for the hook, and for the state");
            }
            _ => {}
        }
        let heard = until("the end to be heard", || {
            let heard = ledger.heard();
            (heard.len() > id.map_or(0, |_| 1)).then_some(heard)
        });
        match id {
            Some(id) => assert_eq!(heard, [Heard::Hook(id), Heard::Dropped(id, id)], "{reason}"),
            None => assert!(matches!(heard[0], Heard::Hook(_)), "{reason}"),
        }
        until("the binding's memory to be freed", || (regions() == 0).then_some(()));
        assert!(ledger.heard().len() <= 2, "once");
    }
}

#[test]
fn a_binding_has_not_ended_while_a_call_of_it_runs() {
    alone!();
    let _watchdog = Watchdog::new("a_binding_has_not_ended_while_a_call_of_it_runs");
    let (name, ledger) = (Room::name("runs"), Ledger::default());
    let server = server().export(&name, Reception::serve(ledger.clone()).on_binding_end(ledger.hook()));
    let running = server.start().unwrap();
    let (mut dying, mut other) = (bound(&name), bound(&name));
    let id = running.bindings().list()[0].id();
    // Waiting calls, perhaps next to others over further channels.
    dying.ask("wait 0 3");
    until("the calls to begin", || (ledger.reception.begun.load(Ordering::SeqCst) == 3).then_some(()));
    drop(dying);
    until("its end to be heard", || (running.bindings().list().len() == 1).then_some(()));
    for _ in 0..100 {
        assert_eq!(other.ask("add 0"), "3");
        assert!(ledger.heard().is_empty(), "its calls still run");
    }
    ledger.reception.open.store(1, Ordering::SeqCst);
    until("the hook and the drop", || (ledger.heard().len() == 2).then_some(()));
    assert_eq!(ledger.heard(), [Heard::Hook(id), Heard::Dropped(id, id)]);
}

#[test]
fn a_shutdown_waits_for_the_end_of_a_binding_that_was_closed_before() {
    alone!();
    let _watchdog = Watchdog::new("a_shutdown_waits_for_the_end_of_a_binding");
    for reason in ["died", "revoked"] {
        let (name, ledger) = (Room::name(&format!("late-{reason}")), Ledger::default());
        let server = server().export(&name, Reception::serve(ledger.clone()).on_binding_end(ledger.hook()));
        let running = server.start().unwrap();
        let path = running.paths().next().unwrap().to_owned();
        let mut client = bound(&name);
        let id = running.bindings().list()[0].id();
        client.ask("wait 0 1");
        until("the call to begin", || (ledger.reception.begun.load(Ordering::SeqCst) == 1).then_some(()));
        match reason {
            "died" => drop(client),
            _ => assert_eq!(running.bindings().revoke(|_| true), 1),
        }
        until("its end to be heard", || running.bindings().list().is_empty().then_some(()));
        let heard = ledger.clone();
        let shutdown = std::thread::spawn(move || {
            let cut_off = running.shutdown(Duration::from_secs(60));
            (cut_off, heard.heard())
        });
        // The handler returns only after the shutdown has begun.
        until("the name to go", || (!path.exists()).then_some(()));
        ledger.reception.open.store(1, Ordering::SeqCst);
        let ended = vec![Heard::Hook(id), Heard::Dropped(id, id)];
        assert_eq!(shutdown.join().unwrap(), (0, ended), "{reason}");
    }
}

#[test]
fn each_import_is_one_owner_within_its_domain_too() {
    alone!();
    let _watchdog = Watchdog::new("each_import_is_one_owner");
    let (name, ledger) = (Room::name("within"), Ledger::default());
    let bank = Server::new().export(&name, Bank::serve(ledger.clone()).on_binding_end(ledger.hook()));
    let _bank = bank.start().unwrap();
    let (one, other) = (BankClient::import(&name).unwrap(), BankClient::import(&name).unwrap());
    let clone = one.clone();
    let owners = |client: &BankClient| {
        let owners = client.owners().unwrap();
        assert!(owners.iter().all(|owner| *owner == owners[0]), "{owners:?}");
        owners[0]
    };
    let id = owners(&one);
    assert_eq!(underpass::thread::spawn(move || owners(&clone)).join().unwrap(), id, "a clone is the same");
    let other_id = owners(&other);
    assert_ne!(other_id, id);
    assert!(caller().is_none() && binding_state(|| 0).is_none(), "the call is over");
    // A procedure that calls another interface is that call's caller. Its own caller stays the
    // same.
    let teller = Ledger { other: Some(other), ..Ledger::default() };
    let reception = Room::name("teller");
    let serving = server().export(&reception, Reception::serve(teller.clone())).start().unwrap();
    let mut puppet = bound(&reception);
    let said = puppet.ask("workers 0");
    let remote = serving.bindings().list()[0].id();
    assert_eq!(said, format!("({remote}, {other_id}, {remote})"));
    assert!(ledger.heard().is_empty());
    drop(one);
    until("the hook and the drop", || (ledger.heard().len() == 2).then_some(()));
    assert_eq!(ledger.heard(), [Heard::Hook(id), Heard::Dropped(id, id)], "the other goes on");
}
