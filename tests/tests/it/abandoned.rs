//! Servers whose handlers do not return. Their callers are freed, and a server that holds too many
//! calls loses the binding.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use underpass::{Abandon, CallError, Outcome, Policy, thread};
use underpass_tests::{Watchdog, Worker, WorkerClient, Works, cont, stop, until};

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// A handler that sees that nobody waits may reply before the caller has left.
fn is_freed(told: &Result<(), CallError>) {
    assert!(matches!(told, Ok(()) | Err(CallError::Abandoned(Outcome::Unknown))), "{told:?}");
}

#[test]
fn a_captured_caller_is_freed() {
    let _watchdog = Watchdog::new("a_captured_caller_is_freed");
    let works = Works::new(SERVER, "captured");
    let (client, abandon) = (works.client(), Abandon::new());
    let free = client.abandonable(&abandon);
    let call = |id| {
        let free = free.clone();
        move || free.stay(id)
    };
    let (user, kernel) = (thread::spawn(call(1)), std::thread::spawn(call(2)));
    let asks = free.clone();
    let asks = thread::spawn(move || asks.persist(3));
    (1..=3).for_each(|id| works.until_executed(id));
    assert_eq!(client.ended(), Ok(0), "it holds them");
    abandon.abandon();
    for told in [user.join().unwrap(), kernel.join().unwrap()] {
        assert_eq!(told, Err(CallError::Abandoned(Outcome::Unknown)));
    }
    is_freed(&asks.join().unwrap());
    until("the handler to see it", || (client.ended() == Ok(1)).then_some(()));
    assert_eq!(free.note(4), Err(CallError::Abandoned(Outcome::NotStarted)));
    assert_eq!(client.note(5), Ok(5), "the binding goes on");
}

#[test]
fn the_slot_of_an_abandoned_call_comes_back() {
    let _watchdog = Watchdog::new("the_slot_of_an_abandoned_call_comes_back");
    let works = Works::new(SERVER, "slots");
    let client = works.client();
    // More calls than there are slots, but never more than a few at once.
    for id in 0..100 {
        let abandon = Abandon::new();
        let free = client.abandonable(&abandon);
        let caller = thread::spawn(move || free.persist(id));
        works.until_executed(id);
        abandon.abandon();
        is_freed(&caller.join().unwrap());
        until("the handler to see it", || (client.ended() == Ok(id + 1)).then_some(()));
    }
}

#[test]
fn callers_of_a_stopped_server_are_freed_wherever_they_wait() {
    let _watchdog = Watchdog::new("callers_of_a_stopped_server_are_freed_wherever_they_wait");
    let works = Works::new(SERVER, "stopped");
    let (client, abandon) = (works.client(), Abandon::new());
    client.note(0).unwrap();
    client.quarantine(64);
    stop(works.server.pid());
    // 64 calls have a slot, the others wait for one.
    let free = client.abandonable(&abandon);
    let callers: Vec<_> = (1..=100)
        .map(|id| {
            let free = free.clone();
            thread::spawn(move || free.note(id))
        })
        .collect();
    until("all slots to be leased", || (client.counters().calls == 65).then_some(()));
    abandon.abandon();
    for caller in callers {
        assert_eq!(caller.join().unwrap(), Err(CallError::Abandoned(Outcome::NotStarted)));
    }
    cont(works.server.pid());
    assert_eq!(client.note(101), Ok(101));
    assert_eq!(works.log.executed().into_keys().collect::<Vec<_>>(), [0, 101]);
}

#[test]
fn a_server_that_holds_too_many_loses_the_binding() {
    let _watchdog = Watchdog::new("a_server_that_holds_too_many_loses_the_binding");
    let works = Works::new(SERVER, "too-many");
    let client = works.client();
    client.quarantine(4);
    let other = {
        let client = client.clone();
        thread::spawn(move || client.stay(1))
    };
    works.until_executed(1);
    let hold = |id, client: &WorkerClient| {
        let abandon = Abandon::new();
        let free = client.abandonable(&abandon);
        let caller = thread::spawn(move || free.stay(id));
        works.until_executed(id);
        abandon.abandon();
        assert_eq!(caller.join().unwrap(), Err(CallError::Abandoned(Outcome::Unknown)));
    };
    (2..=5).for_each(|id| hold(id, &client));
    assert_eq!(client.note(6), Ok(6), "as many as it may");
    hold(7, &client);
    assert_eq!(other.join().unwrap(), Err(CallError::Captured(Outcome::Unknown)));
    assert_eq!(client.note(8), Err(CallError::Captured(Outcome::NotStarted)));
    // Another binding has slots of its own.
    assert_eq!(works.client().note(9), Ok(9));
}

#[test]
fn abandoning_races_with_replies() {
    let _watchdog = Watchdog::new("abandoning_races_with_replies");
    let works = Works::new(SERVER, "races");
    let client = works.client();
    // A server that gets no processor meanwhile does not count as holding its callers.
    client.quarantine(64);
    let (mut done, mut freed) = (0, 0);
    for id in 0..300 {
        let abandon = Abandon::new();
        let free = client.abandonable(&abandon);
        let caller = thread::spawn(move || free.note(id));
        (0..id % 50).for_each(|_| std::hint::spin_loop());
        abandon.abandon();
        match caller.join().unwrap() {
            Ok(told) => done += u64::from(told == id),
            Err(CallError::Abandoned(_)) => freed += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(done + freed, 300);
    // All slots are free: that many concurrent calls are served.
    let callers: Vec<_> = (1000..1064)
        .map(|id| {
            let client = client.with_deadline(Duration::from_secs(3600));
            thread::spawn(move || client.note(id))
        })
        .collect();
    assert!(callers.into_iter().all(|caller| caller.join().unwrap().is_ok()));
}

/// What an executor does with a task during `wake`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// It polls it.
    Polls,
    /// It abandons the call once more, and then polls it.
    Abandons,
    /// It drops the task's future.
    Drops,
    /// It forgets the task. The waker was the last reference to the task, so its future is dropped.
    Forgets,
}

type Told = Result<u64, CallError>;

struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = Told> + Send>>>>,
    does: Does,
    abandon: Abandon,
    waits: AtomicBool,
    told: mpsc::Sender<Told>,
}

impl Task {
    fn poll(self: &Arc<Self>) {
        // The task may be woken while it is polled.
        let Ok(mut future) = self.future.try_lock() else { return };
        let waker = Waker::from(self.clone());
        let polled = future.as_mut().map(|future| future.as_mut().poll(&mut Context::from_waker(&waker)));
        if let Some(Poll::Ready(told)) = polled {
            *future = None;
            self.told.send(told).unwrap();
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.waits.load(Ordering::SeqCst) {
            return;
        }
        match self.does {
            Does::Polls => self.poll(),
            Does::Abandons => {
                self.abandon.abandon();
                self.poll();
            }
            Does::Drops => drop(self.future.lock().unwrap().take()),
            Does::Forgets => {}
        }
    }
}

/// Abandons a task that waits in a call over `client`. Its executor acts while it is woken.
fn abandon_a_task(client: &WorkerClient, does: Does) {
    let (abandon, (told, tells)) = (Abandon::new(), mpsc::channel());
    let free = client.abandonable(&abandon);
    let held = Arc::new(());
    let is_held = Arc::downgrade(&held);
    let future = async move {
        let told = free.note_async(1).await;
        drop(held);
        told
    };
    let future = Mutex::new(Some(Box::pin(future) as _));
    let task = Task { future, does, abandon: abandon.clone(), waits: AtomicBool::new(false), told };
    let task = Arc::new(task);
    // At first the future asks to be polled again at once, for 50 µs.
    (0..1_000).for_each(|_| task.poll());
    assert!(is_held.upgrade().is_some(), "it waits");
    task.waits.store(true, Ordering::SeqCst);
    drop(task);
    abandon.abandon();
    assert!(is_held.upgrade().is_none(), "its future is gone: {does:?}");
    let told = tells.try_recv().ok();
    match does {
        Does::Polls | Does::Abandons => {
            assert!(matches!(told, Some(Err(CallError::Abandoned(_)))), "{told:?}")
        }
        Does::Drops | Does::Forgets => assert_eq!(told, None),
    }
}

#[test]
fn a_task_freed_while_it_waits_for_its_reply_may_be_polled_dropped_or_forgotten() {
    let _watchdog =
        Watchdog::new("a_task_freed_while_it_waits_for_its_reply_may_be_polled_dropped_or_forgotten");
    let works = Works::new(SERVER, "eager-reply");
    let client = works.client();
    stop(works.server.pid());
    for does in [Does::Polls, Does::Abandons, Does::Drops, Does::Forgets] {
        abandon_a_task(&client, does);
    }
    cont(works.server.pid());
    assert_eq!(client.note(2), Ok(2));
}

#[test]
fn a_task_freed_while_it_queues_for_a_slot_may_be_polled_or_dropped() {
    let _watchdog = Watchdog::new("a_task_freed_while_it_queues_for_a_slot_may_be_polled_or_dropped");
    let works = Works::new(SERVER, "eager-turn");
    let client = works.client();
    stop(works.server.pid());
    let mut callers: Vec<_> = (0..64)
        .map(|id| {
            let client = client.clone();
            Box::pin(async move { client.note_async(id).await })
        })
        .collect();
    for caller in &mut callers {
        assert!(caller.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    for does in [Does::Polls, Does::Abandons, Does::Drops, Does::Forgets] {
        abandon_a_task(&client, does);
        assert_eq!(client.counters().calls, 64, "it had no slot");
    }
    cont(works.server.pid());
    assert_eq!(smol::block_on(callers.remove(7)), Ok(7));
}

#[test]
fn a_task_freed_between_two_servers_may_be_polled_or_dropped() {
    let _watchdog = Watchdog::new("a_task_freed_between_two_servers_may_be_polled_or_dropped");
    let mut works = Works::new(SERVER, "eager-between");
    let policy = Policy::new().patience(Duration::from_secs(3600));
    let client = WorkerClient::import_resilient(works.server.name(), policy).unwrap();
    works.server.kill();
    let late = client.with_deadline(Duration::from_millis(300)).note(0);
    assert_eq!(late, Err(CallError::Deadline(Outcome::NotStarted)));
    // A timer also holds the task, so the task survives if its executor forgets it.
    for does in [Does::Polls, Does::Abandons, Does::Drops] {
        abandon_a_task(&client, does);
    }
    works.start(SERVER);
    assert_eq!(client.note(2), Ok(2));
}
