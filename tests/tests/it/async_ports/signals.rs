//! Task signals: kinds, credits, counts, ways, deaths.

use super::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use underpass::port::signal::{SignalHandlers, SignalSender, Signals, Way};
use underpass::port::{
    ConnectError, LaneEnded, OpenRefused, PortOptions, PortSendError, PortSender, WhyEnded,
};
use underpass::sync::Semaphore;
use underpass::{Running, Server};
use underpass_tests::{Room, Watchdog, cont, stop, until};

/// Signals of this process, exported under a name of their own.
fn receive(of: &str, handlers: SignalHandlers) -> (Signals, Running, String) {
    Room::directory();
    let name = Room::name(of);
    let (service, signals) = handlers.start();
    let running = Server::new().export(&*name, service).start().unwrap();
    (signals, running, name)
}

/// Handlers that note their data, and that wait as long as the gate is shut.
#[derive(Clone, Default)]
struct Notes {
    data: Arc<Mutex<Vec<u64>>>,
    shut: Arc<AtomicBool>,
    inside: Arc<AtomicBool>,
}

impl Notes {
    fn handlers(&self) -> SignalHandlers {
        let (note, gate) = (self.clone(), self.clone());
        SignalHandlers::new().on(1, move |signal| note.data.lock().unwrap().push(signal.datum)).on(
            2,
            move |_| {
                gate.inside.store(true, Ordering::Relaxed);
                while gate.shut.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            },
        )
    }

    /// Has a handler wait at the gate.
    fn shut(&self, sender: &SignalSender) {
        self.shut.store(true, Ordering::Relaxed);
        sender.signal(2, 0).unwrap();
        until("a handler at the gate", || self.inside.load(Ordering::Relaxed).then_some(()));
    }

    fn open(&self) {
        self.shut.store(false, Ordering::Relaxed);
    }

    fn until(&self, count: usize) -> Vec<u64> {
        until("the signals", || {
            let data = self.data.lock().unwrap();
            (data.len() >= count).then(|| data.clone())
        })
    }
}

#[test]
fn signals_come_in_order_and_none_is_lost() {
    let _watchdog = Watchdog::new("signals_come_in_order_and_none_is_lost");
    let notes = Notes::default();
    let (signals, _running, name) = receive("signals-order", notes.handlers().credits(16));
    let mut sender = process::signaller(&name, None);
    assert_eq!(sender.ask("signal 5000"), "signalled 5000");
    assert_eq!(notes.until(5000), (0..5000).collect::<Vec<_>>());
    until("all handlers", || (signals.handled() == 5000).then_some(()));
    assert_eq!((signals.panicked(), signals.unhandled()), (0, 0));
}

#[test]
fn a_sender_without_a_credit_is_told_so_at_once() {
    let _watchdog = Watchdog::new("a_sender_without_a_credit_is_told_so_at_once");
    let notes = Notes::default();
    let (_signals, _running, name) = receive("signals-credits", notes.handlers().credits(8));
    let sender = SignalSender::connect(&name).unwrap();
    notes.shut(&sender);
    (0..8).for_each(|datum| assert_eq!(sender.signal(1, datum), Ok(Way::Silent)));
    assert_eq!(sender.signal(1, 8), Err(PortSendError::Full));
    notes.open();
    assert_eq!(notes.until(8), (0..8).collect::<Vec<_>>());
    until("a credit", || sender.signal(1, 8).ok());
    assert_eq!(notes.until(9).len(), 9);
}

#[test]
fn a_count_is_never_full() {
    let _watchdog = Watchdog::new("a_count_is_never_full");
    let notes = Notes::default();
    let sums = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let (first, last) = (sums.clone(), sums.clone());
    let handlers = notes
        .handlers()
        .on_count(0, move |_, more| {
            first[0].fetch_add(more, Ordering::Relaxed);
        })
        .on_count(63, move |_, more| {
            last[1].fetch_add(more, Ordering::Relaxed);
        });
    let (signals, _running, name) = receive("signals-count", handlers);
    let sender = SignalSender::connect(&name).unwrap();
    notes.shut(&sender);
    for _ in 0..100_000 {
        assert_eq!((sender.count(0, 1), sender.count(63, 3)), (Ok(Way::Silent), Ok(Way::Silent)));
    }
    notes.open();
    until("the counts", || {
        let sums = sums.each_ref().map(|sum| sum.load(Ordering::Relaxed));
        (sums == [100_000, 300_000]).then_some(())
    });
    until("the handlers", || (signals.handled() == 3).then_some(()));
    // One after the other from another process, and together.
    let mut child = process::signaller(&name, None);
    child.ask("count 3000");
    until("the counts", || (sums[0].load(Ordering::Relaxed) == 103_000).then_some(()));
    let none = std::thread::spawn(move || sender.count(64, 1)).join();
    assert!(none.is_err(), "there is no such kind");
}

#[test]
fn a_signal_goes_one_of_three_ways() {
    let _watchdog = Watchdog::new("a_signal_goes_one_of_three_ways");
    let notes = Notes::default();
    let (_signals, _running, name) = receive("signals-ways", notes.handlers());
    let sender = SignalSender::connect(&name).unwrap();
    // Nobody has signalled yet, so the receiver waits.
    notes.shut.store(true, Ordering::Relaxed);
    let cpus = underpass_os::cpu::allowed().unwrap().len();
    let waited = if cpus == 1 { Way::Given } else { Way::Woken };
    assert_eq!(sender.signal(2, 0), Ok(waited));
    until("a handler at the gate", || notes.inside.load(Ordering::Relaxed).then_some(()));
    // It runs, and looks again by itself.
    (0..10).for_each(|datum| assert_eq!(sender.signal(1, datum), Ok(Way::Silent)));
    notes.open();
    assert_eq!(notes.until(10).len(), 10);
    let ways = sender.ways();
    assert_eq!((ways.silent, ways.woken + ways.given), (10, 1));

    // Both on one CPU: the sender gives it to the receiver.
    let name = Room::name("signals-given");
    let mut receiver = process::signals(&name, 16, Some(0));
    let mut child = process::signaller(&name, Some(0));
    child.ask("signal 1");
    assert_eq!(receiver.ask("data 1"), "data 0");
    assert_eq!(child.ask("ways"), "Ways { silent: 0, woken: 0, given: 1 }");
    let _ = std::fs::remove_file(Room::directory().join(&name));
}

#[test]
fn a_handler_is_not_preempted() {
    let _watchdog = Watchdog::new("a_handler_is_not_preempted");
    Room::directory();
    let name = Room::name("signals-preempt");
    // On one CPU it has one activation.
    let mut receiver = process::signals(&name, 16, Some(0));
    let mut sender = process::signaller(&name, None);
    assert_eq!(receiver.ask("turns"), "turns");
    sender.ask("compute");
    assert_eq!(receiver.ask("computed"), "nobody ran");
    let _ = std::fs::remove_file(Room::directory().join(&name));
}

#[test]
fn a_handler_that_panics_harms_no_other() {
    let _watchdog = Watchdog::new("a_handler_that_panics_harms_no_other");
    let notes = Notes::default();
    let handlers = notes.handlers().on(7, |signal| panic!("a handler panics on purpose: {}", signal.datum));
    let (signals, _running, name) = receive("signals-panic", handlers);
    let sender = SignalSender::connect(&name).unwrap();
    for datum in 0..3 {
        sender.signal(7, datum).unwrap();
        sender.signal(8, datum).unwrap();
        sender.signal(1, datum).unwrap();
    }
    assert_eq!(notes.until(3), [0, 1, 2]);
    until("all", || {
        ((signals.handled(), signals.panicked(), signals.unhandled()) == (6, 3, 3)).then_some(())
    });
}

/// Notes the ends of senders.
fn ends(handlers: SignalHandlers) -> (SignalHandlers, Arc<Mutex<Vec<LaneEnded>>>) {
    let ends = Arc::<Mutex<Vec<LaneEnded>>>::default();
    let noted = ends.clone();
    (handlers.on_end(move |ended| noted.lock().unwrap().push(ended)), ends)
}

#[test]
fn what_a_dead_sender_has_signalled_is_handled() {
    let _watchdog = Watchdog::new("what_a_dead_sender_has_signalled_is_handled");
    let notes = Notes::default();
    let sum = Arc::new(AtomicU64::new(0));
    let adds = sum.clone();
    let (handlers, ends) = ends(notes.handlers());
    let handlers = handlers.on_count(0, move |_, more| {
        adds.fetch_add(more, Ordering::Relaxed);
    });
    let (_signals, _running, name) = receive("signals-dead", handlers);
    let (mut bad, mut good) = (process::signaller(&name, None), process::signaller(&name, None));
    bad.ask("signal 100");
    bad.ask("count 100");
    bad.kill();
    let ended = until("the end", || ends.lock().unwrap().first().copied());
    assert_eq!((ended.why, ended.messages), (WhyEnded::PeerDied, 100));
    assert_eq!((notes.until(100).len(), sum.load(Ordering::Relaxed)), (100, 100), "the end comes last");
    // One that is stopped holds nobody up.
    let mut stopped = process::signaller(&name, None);
    stop(stopped.pid());
    good.ask("signal 100");
    assert_eq!(notes.until(200).len(), 200);
    cont(stopped.pid());
    stopped.ask("signal 1");
    assert_eq!(notes.until(201).len(), 201);
}

#[test]
fn the_right_to_signal_can_be_revoked() {
    let _watchdog = Watchdog::new("the_right_to_signal_can_be_revoked");
    let notes = Notes::default();
    let (handlers, ends) = ends(notes.handlers());
    let (signals, running, name) = receive("signals-revoked", handlers);
    let (mut bad, mut good) = (process::signaller(&name, None), process::signaller(&name, None));
    bad.ask("signal 3");
    assert_eq!(running.bindings().revoke(|binding| binding.peer().pid() == bad.pid()), 1);
    assert_eq!(bad.ask("ended"), "Revoked");
    until("the end", || (ends.lock().unwrap().first()?.why == WhyEnded::Revoked).then_some(()));
    good.ask("signal 1");
    assert_eq!(notes.until(4).len(), 4);
    // And all at once.
    drop(signals);
    assert_eq!(good.ask("ended"), "Finished");
}

#[test]
fn semaphores_coordinate_threads_of_several_domains() {
    let _watchdog = Watchdog::new("semaphores_coordinate_threads_of_several_domains");
    let jobs = Arc::new(Semaphore::new(0));
    let (_signals, _running, name) = receive("signals-semaphore", SignalHandlers::new().releases(0, &jobs));
    let mut senders: Vec<_> = (0..3).map(|_| process::signaller(&name, None)).collect();
    let workers: Vec<_> = (0..10)
        .map(|_| {
            let jobs = jobs.clone();
            underpass::thread::spawn(move || (0..60).for_each(|_| jobs.acquire().unwrap().forget()))
        })
        .collect();
    senders.iter_mut().for_each(|sender| sender.begin("count 200"));
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    senders.iter_mut().for_each(|sender| assert_eq!(sender.hear(), "counted"));
    assert_eq!(jobs.available(), 0);
    // A sender that counts too far harms nobody.
    let sender = SignalSender::connect(&name).unwrap();
    sender.count(0, u64::MAX).unwrap();
    until("permits", || (jobs.available() > 0).then_some(()));
    sender.count(0, u64::MAX).unwrap();
    jobs.acquire().unwrap().forget();
}

#[test]
fn signals_and_ports_are_not_mistaken_for_one_another() {
    let _watchdog = Watchdog::new("signals_and_ports_are_not_mistaken_for_one_another");
    let (_signals, _running, name) = receive("signals-type", SignalHandlers::new());
    let refused = PortSender::<(u64, u64)>::connect(&name);
    assert!(matches!(refused, Err(ConnectError::Refused(OpenRefused::AnotherType))), "{refused:?}");
    let name = Room::name("no-signals");
    let (service, _receiver) = PortOptions::new().open::<(u64, u64)>().unwrap();
    let _other = Server::new().export(&*name, service).start().unwrap();
    let refused = SignalSender::connect(&name);
    assert!(matches!(refused, Err(ConnectError::Refused(OpenRefused::AnotherType))), "{refused:?}");
}
