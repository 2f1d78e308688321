//! Processors that callers donate, and calls of servers without processors of their own.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use underpass::{Abandon, CallError, Outcome, thread};
use underpass_harness::skip;
use underpass_os::cpu;
use underpass_os::thread::current;
use underpass_tests::{
    Lodger, LodgerClient, Probe, ProbeClient, Room, ServerProcess, Watchdog, state_of, until,
};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// The server serves only on donated processors.
fn without_processors(command: &mut Command) {
    command.env("UNDERPASS_PROCESSORS", "0");
}

fn start(of: &str) -> (ServerProcess, ProbeClient) {
    let server = ServerProcess::start_with(SERVER, &Room::name(of), "probe", without_processors);
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    (server, client)
}

/// Calls until the server's listeners have started and accept donations.
fn warm(client: &ProbeClient) {
    until("a processor to be taken", || {
        client.null().unwrap();
        (client.donations().unwrap().1 > 0).then_some(())
    });
}

#[test]
fn a_server_without_processors_serves_on_its_callers() {
    let _watchdog = Watchdog::new("a_server_without_processors_serves_on_its_callers");
    let (_server, client) = start("donated");
    warm(&client);
    let (_, taken, _) = client.donations().unwrap();
    for n in 0..1000u32 {
        assert_eq!(client.add(n as u8, 1), Ok((n as u8).wrapping_add(1)));
    }
    let (given, now, returned) = client.donations().unwrap();
    assert!(now - taken > 20, "{} of 1,000 calls came with a processor", now - taken);
    assert_eq!(given, 0);
    assert!(
        now.saturating_sub(returned) <= cpu::allowed().unwrap().len() as u64,
        "but the one of this call, {now} - {returned}"
    );
}

/// URPC, 3.1.3: the processor returns when all calls of its client have replies, whatever else the
/// server could run on it. The server has no processor of its own that could be idle, and its
/// listener always has a ready thread. So nothing but the replies returns the processor.
#[test]
fn a_processor_returns_when_all_calls_have_replies() {
    let _watchdog = Watchdog::new("a_processor_returns_when_all_calls_have_replies");
    let server = ServerProcess::start_with(SERVER, &Room::name("lodger"), "lodger", without_processors);
    let client = LodgerClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    for stayed in 1..=20 {
        client.stay().unwrap();
        until("the thread to see that a processor was returned", || {
            (client.ended().unwrap() == stayed).then_some(())
        });
    }
}

#[test]
fn threads_and_kernel_threads_donate() {
    let _watchdog = Watchdog::new("threads_and_kernel_threads_donate");
    let (_server, client) = start("threads");
    warm(&client);
    let before = client.counters().donations_given;
    // On a busy machine the listener may be late, and the server's own processor serves first for a
    // while.
    until("donations", || {
        let inside = client.clone();
        thread::spawn(move || (0..300).for_each(|_| inside.null().unwrap())).join().unwrap();
        (client.counters().donations_given - before > 10).then_some(())
    });
}

#[test]
fn sleepers_wake_beside_callers_that_donate_all_the_time() {
    /// The most calls of each caller. They take more than a tenth of a second.
    const CALLS: usize = 400_000;
    let _watchdog = Watchdog::new("sleepers_wake_beside_callers_that_donate_all_the_time");
    let (_server, client) = start("sleepers");
    warm(&client);
    // On every processor runs a caller whose calls are answered without a pause.
    let callers = cpu::allowed().unwrap().len();
    let slept = Arc::new(AtomicUsize::new(0));
    let sleepers: Vec<_> = (0..2 * callers)
        .map(|_| {
            let slept = slept.clone();
            thread::spawn(move || {
                (0..10).for_each(|_| thread::sleep(Duration::from_millis(1)));
                slept.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (client, slept, all) = (client.clone(), slept.clone(), sleepers.len());
            thread::spawn(move || {
                (0..CALLS).any(|_| {
                    client.null().unwrap();
                    slept.load(Ordering::Relaxed) == all
                })
            })
        })
        .collect();
    for caller in callers {
        assert!(caller.join().unwrap(), "{} of {} have slept", slept.load(Ordering::Relaxed), sleepers.len());
    }
    sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
}

#[test]
fn one_donation_serves_all_calls_that_wait() {
    let _watchdog = Watchdog::new("one_donation_serves_all_calls_that_wait");
    let (_server, client) = start("amortised");
    warm(&client);
    // All threads live on one activation.
    let inside = client.clone();
    let (calls, given) = thread::spawn(move || {
        let before = inside.counters();
        let threads: Vec<_> = (0..16)
            .map(|_| {
                let client = inside.clone();
                thread::spawn(move || (0..200).for_each(|_| client.null().unwrap()))
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        let now = inside.counters();
        (now.calls - before.calls, now.donations_given - before.donations_given)
    })
    .join()
    .unwrap();
    assert_eq!(calls, 3200);
    assert!(given < calls / 2, "{given} donations for {calls} calls");
}

/// A chain of three servers. The last one naps for the given times.
fn chain(of: &str, naps: &[u64], last: impl FnOnce(&mut Command)) -> u64 {
    let first = start(&format!("{of}-a"));
    let second = start(&format!("{of}-b"));
    let third = ServerProcess::start_with(SERVER, &Room::name(&format!("{of}-c")), "probe", last);
    let names = [second.0.name().to_owned(), third.name().to_owned()];
    warm(&first.1);
    for &ms in naps {
        assert_eq!(first.1.chain(&names, ms), Ok(2));
    }
    second.1.donations().unwrap().0 + first.1.donations().unwrap().0
}

#[test]
fn a_processor_goes_along_a_chain_and_back() {
    let _watchdog = Watchdog::new("a_processor_goes_along_a_chain_and_back");
    let given = chain("chain", &[0; 300], without_processors);
    assert!(given > 10, "{given} donations of the servers for 300 calls of one through the other");
}

#[test]
fn a_listener_hears_of_replies_that_come_without_a_processor() {
    let _watchdog = Watchdog::new("a_listener_hears_of_replies_that_come_without_a_processor");
    // The last server naps, or has processors of its own. The others have returned theirs when its
    // reply comes.
    chain("late", &[30; 10], without_processors);
    chain("own", &[0, 1, 30, 0, 1, 30], |_| {});
}

#[test]
fn a_call_does_not_wait_for_what_blocks_behind_it() {
    let _watchdog = Watchdog::new("a_call_does_not_wait_for_what_blocks_behind_it");
    let (_server, client) = start("behind");
    warm(&client);
    let inside = client.clone();
    // The reply to the first call is there before the second call blocks the donated processor
    // until the third comes.
    let done = thread::spawn(move || {
        let quick = {
            let client = inside.clone();
            thread::spawn(move || client.null())
        };
        let blocks = {
            let client = inside.clone();
            thread::spawn(move || client.block(2))
        };
        quick.join().unwrap().unwrap();
        inside.meet(2).unwrap();
        blocks.join().unwrap()
    });
    assert_eq!(done.join().unwrap(), Ok(()));
}

/// Runs the calling test, called `name`, in a process of its own with one activation. Returns
/// whether this is that process.
fn has_one_activation(name: &str) -> bool {
    if std::env::var("UNDERPASS_PROCESSORS").as_deref() == Ok("1") {
        return true;
    }
    let mut own = Command::new(std::env::current_exe().unwrap());
    let output = own.args([name, "--exact", "--nocapture"]).env("UNDERPASS_PROCESSORS", "1").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "the test ran there");
    false
}

/// Two threads of one activation call two servers that sleep. Neither server has a listener where
/// that activation runs, unless it is the same CPU.
#[test]
fn a_call_does_not_wait_for_another_servers() {
    const NAME: &str = "a_call_does_not_wait_for_another_servers";
    let _watchdog = Watchdog::new(NAME);
    if !has_one_activation(NAME) {
        return;
    }
    for cpu in cpu::allowed().unwrap().into_iter().take(2) {
        let on = |of| {
            let server = ServerProcess::start_with(SERVER, &Room::name(of), "probe", |command| {
                command.env("UNDERPASS_TEST_CPU", cpu.to_string());
            });
            let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
            (server, client)
        };
        let ((one, first), (another, second)) = (on("one"), on("another"));
        let asleep = |server: &ServerProcess| state_of(server.pid()).bytes().all(|state| state == b'S');
        until("both to sleep", || (asleep(&one) && asleep(&another)).then_some(()));
        thread::spawn(move || {
            // The forced donation finds no listener, or ends after a while without a reply. Then
            // the sibling runs, and its call finds a processor of its server's own.
            let endless = first.urgent().abandonable(&Abandon::new());
            let sibling = thread::spawn(move || {
                second.null().unwrap();
                first.meet(2).unwrap();
            });
            endless.meet(2).unwrap();
            sibling.join().unwrap();
        })
        .join()
        .unwrap();
    }
}

#[test]
fn a_busy_server_returns_the_processor() {
    let _watchdog = Watchdog::new("a_busy_server_returns_the_processor");
    let (_server, client) = start("busy");
    warm(&client);
    let (inside, computing) = (client.clone(), client.clone());
    thread::spawn(move || {
        let calls: Vec<_> = (0..8)
            .map(|_| {
                let client = computing.clone();
                thread::spawn(move || client.compute(2))
            })
            .collect();
        calls.into_iter().for_each(|c| c.join().unwrap().unwrap());
        inside.null().unwrap();
    })
    .join()
    .unwrap();
    let (_, taken, returned) = client.donations().unwrap();
    assert!(returned > 0 && taken - returned <= cpu::allowed().unwrap().len() as u64, "{taken} - {returned}");
}

#[test]
fn a_server_killed_on_a_donated_processor_leaves_it() {
    let _watchdog = Watchdog::new("a_server_killed_on_a_donated_processor_leaves_it");
    let (mut server, client) = start("killed");
    warm(&client);
    let inside = client.clone();
    let call = thread::spawn(move || inside.compute(3_600_000));
    let kernel = std::thread::spawn(move || client.compute(3_600_000));
    until("the calls to be there", || (underpass_tests::ticks_of(server.pid()) > 20).then_some(()));
    server.kill();
    assert!(matches!(call.join().unwrap(), Err(CallError::PeerDied(_))));
    assert!(matches!(kernel.join().unwrap(), Err(CallError::PeerDied(_))));
}

#[test]
fn a_client_killed_while_its_processor_is_lent_leaves_the_server_to_others() {
    let _watchdog = Watchdog::new("a_client_killed_while_its_processor_is_lent_leaves_the_server_to_others");
    let (server, client) = start("orphan");
    warm(&client);
    for _ in 0..5 {
        let (_, before, _) = client.donations().unwrap();
        let mut other = Command::new(SERVER).args([server.name(), "compute", "20"]).spawn().unwrap();
        until("it to donate", || (client.donations().unwrap().1 > before + 20).then_some(()));
        other.kill().unwrap();
        other.wait().unwrap();
        (0..100).for_each(|_| client.null().unwrap());
    }
    let (_, taken, returned) = client.donations().unwrap();
    // The two are read one after the other, so donations in between may be in the second alone.
    let away = taken.saturating_sub(returned);
    assert!(away <= cpu::allowed().unwrap().len() as u64, "{taken} - {returned}");
}

#[test]
fn both_sides_on_one_cpu_take_turns() {
    let _watchdog = Watchdog::new("both_sides_on_one_cpu_take_turns");
    let only = cpu::allowed().unwrap()[0].to_string();
    let name = Room::name("one-cpu");
    let _server = ServerProcess::start_with(SERVER, &name, "probe", |command| {
        command.env("UNDERPASS_TEST_CPU", &only);
    });
    let mut command = Command::new(SERVER);
    command.args([&name, "loop", "2000", "kernel", "0"]).env("UNDERPASS_TEST_CPU", &only);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Makes calls over each of `urgent`, until they have donated. A sibling of the caller is ready on
/// the same activation all the time, and calls without urgency would donate nothing.
fn donates_beside_a_busy_sibling(urgent: Vec<ProbeClient>) {
    thread::spawn(move || {
        let done = Arc::new(AtomicBool::new(false));
        let told = done.clone();
        let sibling = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        });
        for urgent in urgent {
            // One for each call, or for a few calls where others want the CPU as well.
            let enough = urgent.counters().donations_given + 10;
            until("more than ten donations", || {
                urgent.null().unwrap();
                (urgent.counters().donations_given > enough).then_some(())
            });
        }
        done.store(true, Ordering::Relaxed);
        sibling.join().unwrap();
    })
    .join()
    .unwrap();
}

#[test]
fn an_urgent_call_has_the_processor_of_a_busy_caller() {
    const NAME: &str = "an_urgent_call_has_the_processor_of_a_busy_caller";
    let _watchdog = Watchdog::new(NAME);
    if has_one_activation(NAME) {
        let (_server, client) = start("urgent");
        warm(&client);
        donates_beside_a_busy_sibling(vec![client.urgent()]);
    }
}

#[test]
fn an_urgent_call_that_may_end_early_has_the_processor_of_a_busy_caller() {
    const NAME: &str = "an_urgent_call_that_may_end_early_has_the_processor_of_a_busy_caller";
    let _watchdog = Watchdog::new(NAME);
    if !has_one_activation(NAME) {
        return;
    }
    let (_server, client) = start("urgent-bounded");
    warm(&client);
    let urgent = client.urgent();
    let bounded = vec![urgent.abandonable(&Abandon::new()), urgent.with_deadline(Duration::from_secs(3600))];
    donates_beside_a_busy_sibling(bounded);
    // From now on each call asks whether its thread was cancelled.
    let cancelled = thread::spawn(thread::park);
    cancelled.thread().cancel();
    cancelled.join().unwrap();
    donates_beside_a_busy_sibling(vec![urgent]);
}

#[test]
fn an_urgent_caller_is_freed_while_its_processor_is_lent() {
    let _watchdog = Watchdog::new("an_urgent_caller_is_freed_while_its_processor_is_lent");
    let (server, client) = start("urgent-freed");
    warm(&client);
    let abandon = Abandon::new();
    let urgent = client.urgent().abandonable(&abandon);
    let by_abandon = thread::spawn(move || urgent.compute(3_600_000));
    until("the call to be there", || (underpass_tests::ticks_of(server.pid()) > 5).then_some(()));
    abandon.abandon();
    assert_eq!(by_abandon.join().unwrap(), Err(CallError::Abandoned(Outcome::Unknown)));
}

/// Makes a call on an activation with another ready thread, which ends once the call is posted.
/// Returns how many processors the call has donated. `None` if another activation took the thread.
fn given_beside_a_ready_thread(client: &ProbeClient) -> Option<u64> {
    let (home, posts) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
    let (told, ends) = (home.clone(), posts.clone());
    let sibling = thread::spawn(move || {
        *told.lock().unwrap() = Some(current());
        // The caller does not pause between its note and its post. So this thread sees the note
        // once the caller waits for the reply.
        while !ends.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    });
    let home = until("the sibling to begin", || {
        thread::yield_now();
        *home.lock().unwrap()
    });
    let before = client.counters().donations_given;
    posts.store(true, Ordering::SeqCst);
    client.null().unwrap();
    sibling.join().unwrap();
    (home == current()).then(|| client.counters().donations_given - before)
}

#[test]
fn a_caller_with_ready_threads_rings_and_one_without_donates() {
    const NAME: &str = "a_caller_with_ready_threads_rings_and_one_without_donates";
    let _watchdog = Watchdog::new(NAME);
    if cpu::allowed().unwrap().len() == 1 {
        skip!("with one CPU, a processor of the server's own is the caller's");
    }
    if !has_one_activation(NAME) {
        return;
    }
    let server = ServerProcess::start(SERVER, &Room::name("choice"), "probe");
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    let asleep = move || {
        until("the server to sleep", || {
            state_of(server.pid()).bytes().all(|state| state == b'S').then_some(())
        });
    };
    thread::spawn(move || {
        let given = |client: &ProbeClient| client.counters().donations_given;
        until("calls without other ready threads to donate", || {
            asleep();
            client.null().unwrap();
            (given(&client) > 3).then_some(())
        });
        let woken = client.counters().wakeups_sent;
        until("calls beside ready threads to ring", || {
            asleep();
            let given = given_beside_a_ready_thread(&client);
            assert!(given.is_none_or(|given| given == 0), "a call beside a ready thread");
            (client.counters().wakeups_sent > woken + 10).then_some(())
        });
    })
    .join()
    .unwrap();
}

/// How long eight domains call one another, in seconds. `$UNDERPASS_TEST_LONG` makes it a minute.
fn span() -> Duration {
    Duration::from_secs(if underpass_tests::long() { 60 } else { 3 })
}

#[test]
fn eight_domains_on_two_processors_call_one_another() {
    let _watchdog = Watchdog::new("eight_domains_on_two_processors_call_one_another");
    const DOMAINS: usize = 8;
    let servers: Vec<_> = (0..DOMAINS)
        .map(|n| ServerProcess::start(SERVER, &Room::name(&format!("eight-{n}")), "probe"))
        .collect();
    let names: Vec<_> = servers.iter().map(|server| server.name().to_owned()).collect();
    let end = Instant::now() + span();
    // Each caller begins with another domain, and goes through all of them.
    let callers: Vec<_> = (0..DOMAINS)
        .map(|n| {
            let mut names = names.clone();
            names.rotate_left(n);
            std::thread::spawn(move || {
                let first = ProbeClient::import(&names[0]).unwrap();
                let mut calls = 0u64;
                while Instant::now() < end {
                    assert_eq!(first.chain(&names[1..], 0), Ok(DOMAINS as u32 - 1));
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    let chains: u64 = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
    let own = underpass::counters();
    let all = servers.iter().fold((own.calls, own.spins_paid, own.spins_in_vain), |sum, server| {
        let spins = ProbeClient::import(server.name()).unwrap().spins().unwrap();
        (sum.0 + spins.0, sum.1 + spins.1, sum.2 + spins.2)
    });
    let (calls, paid, in_vain) = all;
    eprintln!("{calls} calls, {paid} spins that paid, {in_vain} in vain");
    assert!(chains > 0 && calls >= chains * DOMAINS as u64, "{chains} chains, {calls} calls");
    // A spin in vain happens at most once for a call on each side, before a sleep. No processor
    // spins repeatedly while calls wait for it.
    assert!(in_vain <= 2 * calls, "{in_vain} spins in vain, {paid} that paid, {calls} calls");
}
