//! What synchronous ports cost: kernel entries, idle ports, one CPU.

use super::process;
use super::{Name, Note};
use underpass::port::sync::SyncPortSender;
use underpass_tests::{Watchdog, cont, state_of, stop, switches_of, ticks_of, until};

/// Raven, section 3.1: with ten threads on each side there is nearly always a message beside
/// others.
#[test]
fn ten_threads_a_side_signal_less_than_every_second_message() {
    let _watchdog = Watchdog::new("ten_threads_a_side_signal_less_than_every_second_message");
    const EACH: u64 = 1_000;
    for cpus in [[0, 0], [0, 1]] {
        if cpus[1] >= std::thread::available_parallelism().map_or(1, Into::into) {
            continue;
        }
        // On a busy machine a domain may lose its processor again and again, and its peer sleeps
        // each time. So the best of several tries counts.
        until("a try without disturbance", || {
            let name = Name::new(&format!("ten-{}", cpus[1]));
            let mut owner = process::owner(&name.0, 20, Some(cpus[0]));
            let mut sender = process::sender(&name.0, Some(cpus[1]));
            owner.begin(&format!("serve 10 {EACH}"));
            assert_eq!(owner.hear(), "serves");
            sender.begin(&format!("flood 10 {EACH}"));
            let signals = process::signals(&mut sender) + process::signals(&mut owner);
            (2 * signals <= 10 * EACH).then_some(())
        });
    }
}

#[test]
fn a_burst_is_not_signalled_message_by_message() {
    let _watchdog = Watchdog::new("a_burst_is_not_signalled_message_by_message");
    const BURST: u64 = 30;
    let name = Name::new("burst-signals");
    let mut owner = process::owner(&name.0, BURST as usize, None);
    let sender = SyncPortSender::<Note, u64>::connect(&name.0).unwrap();
    // The owner takes nothing before all of the burst is there.
    stop(owner.pid());
    let before = sender.counters();
    let sent = || sender.counters().since(&before);
    let pending: Vec<_> = (0..BURST).map(|number| sender.begin((number, vec![])).unwrap()).collect();
    until("the burst", || (sent().calls == BURST).then_some(()));
    // One signal, and what is repeated as long as the owner does not run.
    let signals = sent().wakeups_sent;
    assert!(signals < BURST / 2, "{signals} signals");
    cont(owner.pid());
    assert_eq!(owner.ask(&format!("park {BURST}")), "parked");
    assert_eq!(owner.ask("give"), "given");
    for (number, pending) in (0..).zip(pending) {
        assert_eq!(pending.wait(), Ok(2 * number));
    }
}

/// A state that changes if the process does anything.
fn state(pid: u32) -> (String, (u64, u64), u64) {
    (state_of(pid), switches_of(pid), ticks_of(pid))
}

#[test]
fn idle_ports_use_no_cpu() {
    let _watchdog = Watchdog::new("idle_ports_use_no_cpu");
    let name = Name::new("idle");
    let mut owner = process::owner(&name.0, 64, None);
    let mut sender = process::sender(&name.0, None);
    sender.begin("begin 0 20");
    assert_eq!(owner.ask("park 20"), "parked");
    sender.hear();
    owner.begin("park 21");
    sender.begin("wait");
    for pid in [owner.pid(), sender.pid()] {
        // The domain may wake a few more times before it rests.
        until("a process that stays asleep", || {
            let asleep = until("all kernel threads to sleep", || {
                let (before, now) = (state(pid), state(pid));
                (before == now && now.0.bytes().all(|state| state == b'S')).then_some(now)
            });
            (0..1_000).all(|_| state(pid) == asleep).then_some(())
        });
    }
}

/// The worst case: each message finds a receiver that is blocked, and each reply a sender.
#[test]
fn a_message_and_its_reply_are_two_signals_at_most() {
    let _watchdog = Watchdog::new("a_message_and_its_reply_are_two_signals_at_most");
    const MESSAGES: u64 = 500;
    // If others use the CPU, too, a domain also wakes processors of its own, and these count. So
    // the best of several tries counts.
    until("a try without disturbance", || {
        let name = Name::new("one-cpu");
        let mut owner = process::owner(&name.0, 8, Some(0));
        let mut sender = process::sender(&name.0, Some(0));
        owner.begin(&format!("serve 1 {MESSAGES}"));
        assert_eq!(owner.hear(), "serves");
        sender.begin(&format!("flood 1 {MESSAGES}"));
        let signals = process::signals(&mut sender) + process::signals(&mut owner);
        (signals <= 2 * MESSAGES).then_some(())
    });
}
