//! Connections: all bindings between two domains share one, and each binding keeps its promises.

use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use underpass::{CallError, Outcome, Running, Server, thread};
use underpass_harness::skip;
use underpass_tests::{
    Probe, ProbeClient, PublicRoom, Puppet, Reception, Receptionist, Room, SOMEBODY, ServerProcess, Watchdog,
    fds_of, until,
};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// The tests count what their process has in all, so they run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    until("the last test's memory to be freed", || (regions_of("self") == 0).then_some(()));
    alone
}

/// The regions that a process has mapped.
fn regions_of(pid: &str) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| line.contains("underpass-binding")).count()
}

/// A process that exports so many interfaces, and their names.
fn many(of: &str, exports: usize, change: impl FnOnce(&mut Command)) -> (ServerProcess, Vec<String>) {
    let name = Room::name(of);
    let server = ServerProcess::start_with(SERVER, &name, "many", |command| {
        command.arg(exports.to_string());
        change(command);
    });
    let others = (1..exports).map(|n| format!("{name}-{n}"));
    let names = [name.clone()].into_iter().chain(others).collect();
    (server, names)
}

fn import(names: &[String]) -> Vec<ProbeClient> {
    names.iter().map(|name| ProbeClient::import_within(name, ServerProcess::soon()).unwrap()).collect()
}

/// A server in this process, for puppets to call: two interfaces with the same implementation.
fn receptions(of: &str, change: impl FnOnce(Server) -> Server) -> (Running, [String; 2], Receptionist) {
    let names = ["a", "b"].map(|which| Room::name(&format!("{of}-{which}")));
    let receptionist = Receptionist::default();
    let server = Server::new().directory(PublicRoom::directory(SERVER)).mode(0o666);
    let server =
        names.iter().fold(server, |server, name| server.export(name, Reception::serve(receptionist.clone())));
    (change(server).start().unwrap(), names, receptionist)
}

/// A puppet with a binding to each name.
fn bound(names: &[String]) -> Puppet {
    let mut puppet = Puppet::start(SERVER);
    for name in names {
        assert_eq!(puppet.ask(&format!("connect {name} 1")), "()");
    }
    puppet
}

fn count(running: &Running) -> usize {
    running.bindings().list().len()
}

#[test]
fn a_hundred_interfaces_have_one_socket_and_one_region() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a_hundred_interfaces_have_one_socket_and_one_region"));
    let (server, names) = many("hundred", 100, |_| {});
    let first = import(&names[..1]);
    let pid = server.pid().to_string();
    until("the server to close what it has passed", || {
        first[0].null().unwrap();
        (regions_of(&pid) == 1).then_some(())
    });
    let (here, there) = (fds_of(std::process::id()), fds_of(server.pid()));
    let others = import(&names[1..]);
    for (n, client) in (0..).zip(&others) {
        assert_eq!(client.add(n, 1), Ok(n + 1));
        assert_eq!(client.pid(), Ok(server.pid()));
    }
    assert_eq!((regions_of("self"), regions_of(&pid)), (1, 1));
    // The sockets by which the imports came are closed. Each side may have opened a few files of
    // its own since it was counted.
    until("the second sockets to be closed", || {
        let (now_here, now_there) = (fds_of(std::process::id()), fds_of(server.pid()));
        (now_here < here + 9 && now_there < there + 9).then_some(())
    });
    // Arguments and results of every size go over each of them.
    for client in [&first[0], &others[0], &others[98]] {
        for size in [0, 46, 47, 48, 49, 55, 56, 57, 4096, 40_000, 200_000] {
            let bytes = vec![size as u8; size];
            assert_eq!(client.echo(&bytes), Ok(bytes));
        }
    }
}

#[test]
fn a_further_import_takes_less_than_a_kibibyte_a_side() {
    /// Enough that the memory of the allocators does not count.
    const MANY: usize = 4_000;
    let (_alone, _watchdog) = (alone(), Watchdog::new("a_further_import_takes_less_than_a_kibibyte_a_side"));
    if underpass_os::process::user() != 0 {
        skip!("only root may have so many bindings");
    }
    let (server, names) = many("memory", 1, |_| {});
    let resident = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
    };
    let both = || [std::process::id(), server.pid()].map(resident);
    // The first ones make the allocators and the threads as large as they get.
    let mut kept: Vec<ProbeClient> = Vec::with_capacity(2 * MANY);
    kept.extend((0..500).map(|_| ProbeClient::import(&names[0]).unwrap()));
    let before = both();
    kept.extend((0..MANY).map(|_| ProbeClient::import(&names[0]).unwrap()));
    let grown = both().iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect::<Vec<_>>();
    assert!(grown.iter().all(|grown| *grown <= MANY * 1024), "{grown:?} bytes for {MANY} imports");
    assert_eq!((kept[0].add(1, 2), kept[MANY].add(3, 4)), (Ok(3), Ok(7)));
    assert_eq!(regions_of("self"), 1);
}

#[test]
fn one_donation_serves_the_calls_over_three_interfaces() {
    let _watchdog = Watchdog::new("one_donation_serves_the_calls_over_three_interfaces");
    let _alone = alone();
    let (_server, names) = many("donated", 3, |command| {
        command.env("UNDERPASS_PROCESSORS", "0");
    });
    let clients = import(&names);
    // Rounds that one donation has served, and rounds that took several.
    let (mut one, mut several) = (0, 0);
    // On a busy machine the server's own processor serves some rounds, and a listener is late.
    until("a hundred rounds with a donation", || {
        match donations_of_a_round(&clients) {
            0 => {}
            1 => one += 1,
            _ => several += 1,
        }
        (one + several == 100).then_some(())
    });
    assert!(one > several, "{one} rounds took one donation, {several} took several");
}

/// Makes six calls over each interface at once. All callers live on one activation. When the last
/// of them waits, the processor is donated. Returns how many donations the connection has given.
fn donations_of_a_round(clients: &[ProbeClient]) -> u64 {
    let clients = clients.to_vec();
    let round = thread::spawn(move || {
        let given = || clients.iter().map(|client| client.counters().donations_given).collect::<Vec<_>>();
        let before = given();
        let call = |n: usize| {
            let client = clients[n % clients.len()].clone();
            thread::spawn(move || client.null().unwrap())
        };
        let callers: Vec<_> = (0..6 * clients.len()).map(call).collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        let now = given();
        assert!(now.iter().all(|each| *each == now[0]), "{now:?}: they are those of the connection");
        now[0] - before[0]
    });
    round.join().unwrap()
}

#[test]
fn a_binding_counts_its_own_calls() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a_binding_counts_its_own_calls"));
    let (_server, names) = many("counted", 2, |_| {});
    let [a, b]: [ProbeClient; 2] = import(&names).try_into().unwrap();
    let before = underpass::counters();
    (0..10).for_each(|_| a.null().unwrap());
    (0..5).for_each(|_| drop(b.echo(&[1; 1000]).unwrap()));
    let (of_a, of_b) = (a.counters(), b.counters());
    assert_eq!((of_a.calls, of_a.bytes_out, of_a.bytes_in), (10, 0, 10));
    assert_eq!(of_b.calls, 5);
    assert!((5000..5100).contains(&of_b.bytes_out) && (5000..5100).contains(&of_b.bytes_in), "{of_b:?}");
    drop(a);
    let domain = underpass::counters().since(&before);
    assert_eq!(
        (domain.calls, domain.bytes_in),
        (15, 10 + of_b.bytes_in),
        "what a dropped binding did counts"
    );
}

#[test]
fn an_import_apart_shares_nothing() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("an_import_apart_shares_nothing"));
    let (_server, names) = many("apart", 1, |_| {});
    let shared = import(&[names[0].clone(), names[0].clone()]);
    let apart = ProbeClient::import_apart(&names[0], ServerProcess::soon()).unwrap();
    let further = ProbeClient::import_apart(&names[0], ServerProcess::soon()).unwrap();
    assert_eq!(regions_of("self"), 3);
    drop(shared);
    until("the shared one to end", || (regions_of("self") == 2).then_some(()));
    assert_eq!((apart.add(1, 2), further.add(3, 4)), (Ok(3), Ok(7)));
    let again = ProbeClient::import(&names[0]).unwrap();
    assert_eq!((again.add(1, 2), regions_of("self")), (Ok(3), 3), "it does not join one that is apart");
}

#[test]
fn another_server_or_a_later_one_has_another_connection() {
    let _watchdog = Watchdog::new("another_server_or_a_later_one_has_another_connection");
    let _alone = alone();
    let (mut first, names) = many("incarnation", 1, |_| {});
    let (_second, others) = many("incarnation-other", 1, |_| {});
    let clients = import(&[names[0].clone(), others[0].clone()]);
    assert_eq!(regions_of("self"), 2);
    first.kill();
    until("the end to be seen", || clients[0].null().is_err().then_some(()));
    let (later, _) = many("incarnation", 1, |_| {});
    let again = import(&names);
    assert_eq!(again[0].pid(), Ok(later.pid()));
    assert_eq!(clients[1].add(1, 2), Ok(3), "the other server's is as before");
    assert!(matches!(clients[0].null(), Err(CallError::PeerDied(Outcome::NotStarted))));
}

#[test]
fn a_revoked_binding_frees_its_callers_and_no_others() {
    let _watchdog = Watchdog::new("a_revoked_binding_frees_its_callers_and_no_others");
    let _alone = alone();
    let (running, names, receptionist) = receptions("revoked", |server| server);
    let mut puppet = bound(&names);
    puppet.ask("wait 0 3");
    puppet.ask("wait 1 2");
    until("the calls", || (receptionist.begun.load(Ordering::SeqCst) == 5).then_some(()));
    assert_eq!(running.bindings().revoke(|binding| binding.name() == names[0]), 1);
    // The callers of the other binding still wait.
    let mut other = bound(&names);
    assert_eq!((puppet.ask("add 1"), other.ask("add 0")), ("3".to_owned(), "3".to_owned()));
    assert!(puppet.ask("add 0").contains("Revoked(NotStarted"), "and no new call goes over it");
    assert_eq!(count(&running), 3);
    receptionist.open.store(1, Ordering::SeqCst);
    let told = puppet.ask("join");
    let told: Vec<_> = told.split(' ').collect();
    assert_eq!(told.iter().filter(|told| **told == "()").count(), 2, "{told:?}");
    assert_eq!(told.iter().filter(|told| told.contains("Revoked(Unknown")).count(), 3, "{told:?}");
    // The slots of the calls whose callers were freed come back. The door stays open for those.
    assert_eq!(puppet.ask(&format!("connect {} 1", names[0])), "()");
    assert_eq!((puppet.ask("add 2"), regions_of("self")), ("3".to_owned(), 2));
}

#[test]
fn a_binding_that_expires_leaves_the_others() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a_binding_that_expires_leaves_the_others"));
    let name = Room::name("expires");
    let brief = Reception::serve(Receptionist::default()).expires_in(Duration::from_millis(50));
    let (running, names, _) = receptions("expires", |server| server.export(&name, brief));
    let mut puppet = bound(&[names[0].clone(), name.clone()]);
    until("the end", || puppet.ask("add 1").contains("Revoked(NotStarted").then_some(()));
    assert_eq!((puppet.ask("add 0"), count(&running)), ("3".to_owned(), 1));
}

#[test]
fn a_dropped_binding_ends_alone_and_the_last_ends_the_connection() {
    let _watchdog = Watchdog::new("a_dropped_binding_ends_alone_and_the_last_ends_the_connection");
    let _alone = alone();
    let ended = Arc::new(Mutex::new(Vec::new()));
    let (noted, name) = (ended.clone(), Room::name("dropped"));
    let hooked = Reception::serve(Receptionist::default())
        .on_binding_end(move |binding| noted.lock().unwrap().push(binding.id()));
    let (running, names, _) = receptions("dropped", |server| server.export(&name, hooked));
    let mut puppet = bound(&[names[0].clone(), name.clone(), name.clone()]);
    assert_eq!((count(&running), regions_of("self")), (3, 1));
    puppet.ask("release 1");
    until("the hook", || (ended.lock().unwrap().len() == 1).then_some(()));
    assert_eq!((count(&running), puppet.ask("add 1")), (2, "3".to_owned()));
    puppet.ask("release 0");
    until("the release", || (count(&running) == 1).then_some(()));
    assert_eq!((puppet.ask("add 0"), regions_of("self")), ("3".to_owned(), 1));
    puppet.ask("drop");
    until("the end", || (count(&running) == 0 && regions_of("self") == 0).then_some(()));
    until("the hook of the last", || (ended.lock().unwrap().len() == 2).then_some(()));
}

#[test]
fn the_end_of_an_export_leaves_the_bindings_of_others() {
    let _watchdog = Watchdog::new("the_end_of_an_export_leaves_the_bindings_of_others");
    let _alone = alone();
    let (running, names, _) = receptions("export", |server| server);
    let name = Room::name("export-alone");
    let receptionist = Receptionist::default();
    let alone = Server::new()
        .directory(PublicRoom::directory(SERVER))
        .mode(0o600)
        .export(&name, Reception::serve(receptionist.clone()))
        .start()
        .unwrap();
    // Another mode, and another server of the same process with the same limits.
    let mut puppet = bound(&[names[0].clone(), name.clone()]);
    assert_eq!(regions_of("self"), 1);
    puppet.ask("wait 1 1");
    until("the call", || (receptionist.begun.load(Ordering::SeqCst) == 1).then_some(()));
    // A call that has begun is waited for; others are refused, as no violation.
    let ends = std::thread::spawn(move || alone.shutdown(Duration::from_secs(60)));
    until("the drain", || puppet.ask("add 1").contains("Closed(NotStarted").then_some(()));
    assert_eq!(puppet.ask("add 0"), "3");
    receptionist.open.store(1, Ordering::SeqCst);
    assert_eq!((ends.join().unwrap(), puppet.ask("join")), (0, "()".to_owned()));
    assert!(puppet.ask("add 1").contains("Closed(NotStarted"));
    assert_eq!((puppet.ask("add 0"), count(&running)), ("3".to_owned(), 1));
}

#[test]
fn each_import_is_authorized() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("each_import_is_authorized"));
    let (asked, name) = (Arc::new(AtomicU64::new(0)), Room::name("authorized"));
    let seen = asked.clone();
    // The first and the third may.
    let decided = Reception::serve(Receptionist::default())
        .authorize(move |_| seen.fetch_add(1, Ordering::SeqCst) != 1);
    let (running, names, _) = receptions("authorized", |server| server.export(&name, decided));
    let mut puppet = bound(&[names[0].clone(), name.clone()]);
    assert!(puppet.ask(&format!("connect {name} 1")).contains("NotAuthorized"));
    assert_eq!(puppet.ask(&format!("connect {name} 1")), "()");
    assert_eq!((asked.load(Ordering::SeqCst), count(&running), regions_of("self")), (3, 3, 1));
}

#[test]
fn an_import_that_is_given_up_leaves_no_row() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("an_import_that_is_given_up_leaves_no_row"));
    let (open, name) = (Arc::new(AtomicU64::new(0)), Room::name("given-up"));
    let (seen, asked) = (open.clone(), Arc::new(AtomicU64::new(0)));
    let counted = asked.clone();
    let slow = Reception::serve(Receptionist::default()).authorize(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        until("the decision", || (seen.load(Ordering::SeqCst) == 1).then_some(()));
        true
    });
    let (running, names, _) = receptions("given-up", |server| server.export(&name, slow));
    let mut puppet = bound(&names[..1]);
    // It may take the server for late more than once.
    let told = puppet.ask(&format!("hurry {name} 20"));
    assert_ne!(told, "()", "it is not decided yet");
    open.store(1, Ordering::SeqCst);
    // The next import comes after those that were given up.
    assert_eq!(puppet.ask(&format!("connect {name} 1")), "()");
    assert!(asked.load(Ordering::SeqCst) >= 2);
    until("the rows that nobody has to end", || (count(&running) == 2).then_some(()));
    assert_eq!((puppet.ask("add 0"), puppet.ask("add 1"), regions_of("self")), ("3".into(), "3".into(), 1));
}

#[test]
fn a_ticket_joins_like_a_name() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a_ticket_joins_like_a_name"));
    let server = ServerProcess::start(SERVER, &Room::name("ticket"), "shared");
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    client.share_with(&ours).unwrap();
    let passed = ProbeClient::import_from(&theirs, ServerProcess::soon()).unwrap();
    assert_eq!((passed.add(1, 2), regions_of("self")), (Ok(3), 1));
    drop(client);
    assert_eq!((passed.add(1, 2), regions_of("self")), (Ok(3), 1));
}

#[test]
fn another_user_has_another_connection() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("another_user_has_another_connection"));
    if underpass_os::process::user() != 0 {
        skip!("only root can become another user");
    }
    let (_running, names, _) = receptions("users", |server| server);
    let mut puppets = [Puppet::start(SERVER), Puppet::of_user(SERVER, SOMEBODY)];
    for puppet in &mut puppets {
        for name in &names {
            assert_eq!(puppet.ask(&format!("connect {name} 1")), "()");
        }
        assert_eq!((puppet.ask("add 0"), puppet.ask("add 1")), ("3".to_owned(), "3".to_owned()));
    }
    assert_eq!(regions_of("self"), 2);
}

#[test]
fn one_binding_has_at_most_half_of_the_slots() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("one_binding_has_at_most_half_of_the_slots"));
    let (_running, names, receptionist) = receptions("half", |server| server);
    let mut puppet = bound(&names);
    puppet.ask("wait 0 100");
    let begun = || receptionist.begun.load(Ordering::SeqCst);
    until("as many calls as may be", || (begun() == 32).then_some(()));
    // The other binding has its own half.
    puppet.ask("wait 1 31");
    until("the other binding's calls", || (begun() == 63).then_some(()));
    assert_eq!((puppet.ask("add 1"), begun()), ("3".to_owned(), 63));
    receptionist.open.store(1, Ordering::SeqCst);
    let told = puppet.ask("join");
    assert_eq!(told.split(' ').filter(|told| *told == "()").count(), 131);
    assert_eq!(begun(), 131);
}

#[test]
fn a_captured_binding_ends_alone() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("a_captured_binding_ends_alone"));
    let (running, names, receptionist) = receptions("captured", |server| server);
    let mut puppet = bound(&names);
    puppet.ask("quarantine 0 2");
    let told: Vec<_> = (0..3).map(|_| puppet.ask("give-up 0 20")).collect();
    assert!(told.iter().all(|told| told.contains("Deadline")), "{told:?}");
    assert!(puppet.ask("add 0").contains("Captured(NotStarted"));
    assert_eq!(puppet.ask("add 1"), "3");
    // The server is told, though the captured calls still run.
    until("the release", || (count(&running) == 1).then_some(()));
    receptionist.open.store(1, Ordering::SeqCst);
    assert_eq!(puppet.ask("add 1"), "3");
}

#[test]
fn bindings_come_and_go_while_others_call() {
    let (_alone, _watchdog) = (alone(), Watchdog::new("bindings_come_and_go_while_others_call"));
    let (server, names) = many("churn", 4, |_| {});
    let kept = import(&names[..1]);
    let (stop, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let (client, stop, failed) = (kept[0].clone(), stop.clone(), failed.clone());
            thread::spawn(move || {
                while stop.load(Ordering::SeqCst) == 0 {
                    if client.add(1, 2) != Ok(3) {
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    for round in 0..300usize {
        let some = import(&names[1 + round % 3..2 + round % 3]);
        assert_eq!(some[0].add(1, round as u8), Ok(1u8.wrapping_add(round as u8)));
    }
    stop.store(1, Ordering::SeqCst);
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    // Each channel has a region, and callers that contend may have got further ones.
    let channels = 1 + kept[0].counters().channels_beside as usize;
    assert_eq!((failed.load(Ordering::SeqCst), regions_of("self")), (0, channels));
    assert_eq!(regions_of(&server.pid().to_string()), channels);
}
