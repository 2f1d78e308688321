//! Hostile senders.

use crate::sync::interface::{NO_NUMBER, PortRefusal, RefusalMark, SEND, SKIP, descriptor};
use crate::sync::options::SyncPortOptions;
use crate::sync::receiver::SyncPortReceiver;
use crate::sync::sender::SyncPortSender;
use crate::sync::sender_end::Elsewhere;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use underpass_os::Directory;
use underpass_rpc::{CallError, Outcome, Running, Server, Stub};
use underpass_threads::{JoinHandle, spawn};
use underpass_wire::Encode;

/// The messages: a number, and bytes.
type Sent = (u64, Vec<u8>);

/// A port of this process, and the directory's name for it.
fn own(options: SyncPortOptions) -> (SyncPortReceiver<Sent, u64>, Running, String) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    Directory::from_environment().ensure().unwrap();
    let name = format!("sync-port-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let (service, receiver) = options.open();
    let running = Server::new().export(&*name, service).start().unwrap();
    (receiver, running, name)
}

/// A sender that follows no rule.
struct Liar(Arc<Stub<Elsewhere>>);

impl Liar {
    /// Over a connection of its own.
    fn connect(name: &str) -> Self {
        let stub = Stub::import_apart(name, descriptor::<Sent, u64>(), Duration::from_secs(60)).unwrap();
        Self(Arc::new(stub))
    }

    fn sends<A: Encode + Send + 'static>(&self, arguments: A) -> JoinHandle<Result<u64, PortRefusal>> {
        let stub = self.0.clone();
        spawn(move || stub.call::<A, u64, RefusalMark>(SEND, &arguments))
    }

    fn skips(&self, number: u64) {
        self.0.call::<u64, (), RefusalMark>(SKIP, &number).unwrap();
    }
}

fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        underpass_threads::yield_now();
    }
}

/// An honest sender of the same port is served.
fn serves(receiver: &SyncPortReceiver<Sent, u64>, name: &str) {
    let sender = SyncPortSender::<Sent, u64>::connect(name).unwrap();
    for number in 0..3 {
        let pending = sender.begin((number, vec![])).unwrap();
        let (message, reply) = receiver.recv().unwrap().take();
        reply.give(message.0 + 1);
        assert_eq!(pending.wait(), Ok(number + 1));
    }
}

#[test]
fn numbers_that_are_used_or_too_far_ahead_are_refused() {
    let (receiver, _running, name) = own(SyncPortOptions::new().messages(4));
    let liar = Liar::connect(&name);
    let first = liar.sends((0u64, 7u64, Vec::<u8>::new()));
    let (_, reply) = receiver.recv().unwrap().take();
    for number in [0, 5, 1 << 40, NO_NUMBER - 1] {
        let refused = liar.sends((number, 7u64, Vec::<u8>::new())).join().unwrap();
        assert_eq!(refused, Err(PortRefusal::NotReceived), "{number}");
        liar.skips(number);
    }
    liar.skips(2);
    assert_eq!(liar.sends((2u64, 7u64, Vec::<u8>::new())).join().unwrap(), Err(PortRefusal::NotReceived));
    reply.give(1);
    assert_eq!(first.join().unwrap(), Ok(1));
    serves(&receiver, &name);
}

#[test]
fn a_sender_that_leaves_a_gap_and_dies_leaves_nothing_behind() {
    let (receiver, running, name) = own(SyncPortOptions::new().messages(40));
    for _ in 0..10 {
        let liar = Liar::connect(&name);
        // Number 0 never comes.
        let early: Vec<_> = (1..30u64).map(|number| liar.sends((number, 7u64, Vec::<u8>::new()))).collect();
        until(|| liar.0.counters().calls >= 29);
        let bindings = running.bindings();
        let last = bindings.list().last().unwrap().id();
        assert_eq!(bindings.revoke(|binding| binding.id() == last), 1);
        for early in early {
            let error = early.join().unwrap().unwrap_err();
            // A reply over a revoked binding is discarded, as if the receiver had dropped it.
            let revoked = matches!(error, PortRefusal::Call(CallError::Revoked(_) | CallError::Dropped(_)));
            assert!(revoked || error == PortRefusal::NotReceived, "{error:?}");
        }
        drop(liar);
        // A message without a reply would keep its binding.
        until(|| bindings.list().is_empty());
        assert_eq!(receiver.queued(), 0);
    }
    serves(&receiver, &name);
    drop(running);
    let ended = receiver.recv();
    assert!(ended.is_err(), "all bindings have ended");
}

#[test]
fn an_early_message_whose_sender_gives_up_is_dropped() {
    let (receiver, _running, name) = own(SyncPortOptions::new().messages(40));
    let liar = Liar::connect(&name);
    let brief = liar.0.with_deadline(Duration::from_millis(20));
    let late = brief.call::<_, u64, RefusalMark>(SEND, &(1u64, 7u64, Vec::<u8>::new())).unwrap_err();
    // The owner sees the deadline, too, and may be first.
    let deadline = matches!(late, PortRefusal::Call(CallError::Deadline(_)));
    assert!(deadline || late == PortRefusal::NotReceived, "{late:?}");
    // Once it is dropped, it holds nothing back.
    let next = liar.sends((2u64, 9u64, Vec::<u8>::new()));
    liar.skips(0);
    liar.skips(1);
    let (message, reply) = receiver.recv().unwrap().take();
    // If its drop is not done yet, it comes, and nobody wants it.
    let reply = match message.0 {
        7 => receiver.recv().unwrap().take().1,
        _ => reply,
    };
    reply.give(3);
    assert_eq!(next.join().unwrap(), Ok(3));
}

#[test]
fn what_is_no_message_or_too_long_is_refused() {
    let (receiver, _running, name) = own(SyncPortOptions::new().longest(30));
    let liar = Liar::connect(&name);
    let nonsense = liar.sends(3u8).join().unwrap().unwrap_err();
    assert!(matches!(nonsense, PortRefusal::Call(CallError::Decode(Outcome::NotStarted, _))), "{nonsense:?}");
    let more = liar.sends((0u64, 7u64, Vec::<u8>::new(), 5u8)).join().unwrap().unwrap_err();
    assert!(matches!(more, PortRefusal::Call(CallError::Decode(Outcome::NotStarted, _))), "{more:?}");
    for length in [22, 1_000, 1 << 20] {
        // Each uses its number up.
        let long = liar.sends((0u64, 7u64, vec![0u8; length])).join().unwrap();
        assert_eq!(long, Err(PortRefusal::TooLong));
    }
    let unknown = liar.0.call::<(), u64, RefusalMark>(99, &()).unwrap_err();
    assert!(matches!(unknown, PortRefusal::Call(CallError::Unsupported(_))), "{unknown:?}");
    let next = liar.sends((1u64, 7u64, vec![0u8; 21]));
    receiver.recv().unwrap().reply(1);
    assert_eq!(next.join().unwrap(), Ok(1));
    serves(&receiver, &name);
}
