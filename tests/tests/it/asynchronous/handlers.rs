//! Handlers that are `async fn`s. Their executor belongs to this process. Callers are in it too,
//! over a channel, and in other processes.

use crate::asynchronous::callers::{SERVER, serve};
use crate::asynchronous::executors::{Executor, on_each};
use crate::asynchronous::start_timers;
use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use underpass::{CallError, Handler, Outcome, Running, Server, Shared};
use underpass_harness::alone;
use underpass_tests::{Files, Jobs, JobsAsync, JobsClient, ProbeClient, Room, Watchdog, until};

/// Counts a handler while it is held.
struct Held(Arc<AtomicU32>);

impl Held {
    fn new(by: &Arc<AtomicU32>) -> Self {
        by.fetch_add(1, Ordering::SeqCst);
        Self(by.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The results of calls.
type Said = Arc<Mutex<Vec<Result<(), CallError>>>>;

/// The implementation of the interface.
struct Office {
    held: Arc<AtomicU32>,
    probes: HashMap<String, ProbeClient>,
    /// Another office, and its results.
    other: Option<(JobsClient, Said)>,
}

impl JobsAsync for Office {
    async fn echo(&self, bytes: &[u8], ms: u64) -> Result<Vec<u8>, CallError> {
        if ms > 0 {
            smol::Timer::after(Duration::from_millis(ms)).await;
        }
        Ok(bytes.to_vec())
    }

    async fn ask(&self, name: &str, a: u8, b: u8) -> Result<u8, CallError> {
        self.probes[name].add_async(a, b).await
    }

    async fn fill(&self, len: u64) -> Result<Vec<u8>, CallError> {
        smol::future::yield_now().await;
        Ok((0..len).map(|i| i as u8).collect())
    }

    async fn panic(&self, message: &str) -> Result<(), CallError> {
        smol::future::yield_now().await;
        panic!("{message}");
    }

    async fn who(&self) -> Result<Vec<u32>, CallError> {
        let who = || underpass::caller().map_or(0, |peer| peer.pid());
        let mut seen = vec![who()];
        for n in 0..10 {
            match n % 5 {
                0 => drop(smol::Timer::after(Duration::from_millis(1)).await),
                _ => smol::future::yield_now().await,
            }
            seen.push(who());
        }
        seen.push(std::thread::spawn(who).join().unwrap());
        Ok(seen)
    }

    async fn hold(&self) -> Result<(), CallError> {
        let _held = Held::new(&self.held);
        while !underpass::is_cancelled() {
            smol::Timer::after(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    async fn stay(&self) -> Result<(), CallError> {
        let _held = Held::new(&self.held);
        std::future::pending().await
    }

    async fn twice(&self, bytes: Shared<'_>, ms: u64) -> Result<(u64, u64), CallError> {
        let sum = || bytes.iter().map(u64::from).sum();
        let first = sum();
        smol::Timer::after(Duration::from_millis(ms)).await;
        Ok((first, sum()))
    }

    async fn have_held(&self) -> Result<(), CallError> {
        let (other, said) = self.other.as_ref().expect("it knows one");
        let told = other.hold_async().await;
        said.lock().unwrap().push(told.clone());
        told
    }
}

/// An office under a name of its own, and the number of its handlers that hold. `spawn` starts
/// them.
fn office(
    of: &str,
    probes: &[&ProbeClient],
    spawn: impl Fn(Handler) + Send + Sync + 'static,
) -> (Running, JobsClient, Arc<AtomicU32>) {
    let held = Arc::new(AtomicU32::new(0));
    let probes = probes.iter().map(|&probe| ("probe".to_owned(), probe.clone())).collect();
    let office = Office { held: held.clone(), probes, other: None };
    let (running, client) = open(of, office, spawn);
    (running, client, held)
}

fn open(of: &str, office: Office, spawn: impl Fn(Handler) + Send + Sync + 'static) -> (Running, JobsClient) {
    let name = Room::name(of);
    let running = Server::new().export(&name, JobsAsync::serve(office, spawn)).start().unwrap();
    (running, JobsClient::import(&name).unwrap())
}

fn name(executor: &Executor, of: &str) -> String {
    format!("{of}-{}", executor.name.replace([' ', ','], ""))
}

#[test]
fn handlers_wait_and_call_out_without_a_thread() {
    let _watchdog = Watchdog::new("handlers_wait_and_call_out_without_a_thread");
    let (_server, probe) = serve("handlers-probe");
    on_each(|executor: Executor| {
        let probe = probe.clone();
        async move {
            let own = executor.clone();
            let (_running, client, _held) =
                office(&name(&executor, "handlers"), &[&probe], move |handler| drop(own.spawn(handler)));
            // Callers of both kinds.
            let threads: Vec<_> = (0..6u8)
                .map(|thread| {
                    let client = client.clone();
                    let calls = move || {
                        for n in 0..60u8 {
                            assert_eq!(client.ask("probe", thread, n), Ok(thread + n));
                            let bytes = vec![n; usize::from(n) * 30];
                            assert_eq!(client.echo(&bytes, u64::from(n % 20 == 0)), Ok(bytes));
                        }
                    };
                    if thread < 4 {
                        Box::new(underpass::thread::spawn(calls)) as Box<dyn Join>
                    } else {
                        Box::new(std::thread::spawn(calls))
                    }
                })
                .collect();
            let tasks: Vec<_> = (0..100u8)
                .map(|task| {
                    let client = client.clone();
                    executor.spawn(async move {
                        for n in 0..20u8 {
                            assert_eq!(client.ask_async("probe", task, n).await, Ok(task + n));
                            assert_eq!(
                                client.echo_async(&[task, n], u64::from(n % 5)).await,
                                Ok(vec![task, n])
                            );
                        }
                        assert_eq!(client.fill_async(80_000).await.unwrap().len(), 80_000);
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.recv().await, Ok(()), "a task panicked under {}", executor.name);
            }
            // The calls of these threads need this executor.
            smol::unblock(|| threads.into_iter().for_each(|thread| thread.join())).await;
        }
    });
}

trait Join: Send {
    fn join(self: Box<Self>);
}

impl Join for underpass::thread::JoinHandle<()> {
    fn join(self: Box<Self>) {
        (*self).join().unwrap();
    }
}

impl Join for std::thread::JoinHandle<()> {
    fn join(self: Box<Self>) {
        (*self).join().unwrap();
    }
}

#[test]
fn a_handler_sees_its_caller_at_every_poll() {
    let _watchdog = Watchdog::new("a_handler_sees_its_caller_at_every_poll");
    let own = std::process::id();
    on_each(|executor: Executor| async move {
        let handlers = executor.clone();
        let (running, client, _held) =
            office(&name(&executor, "who"), &[], move |handler| drop(handlers.spawn(handler)));
        let path = running.paths().next().unwrap().file_name().unwrap().to_owned();
        let others = [(); 3].map(|()| Command::new(SERVER).arg(&path).arg("who").spawn().unwrap());
        // The handlers of all of them take turns.
        let others = smol::unblock(|| others.map(|mut other| other.wait().unwrap().success()));
        let calls = async {
            for _ in 0..20 {
                let seen = client.who_async().await.unwrap();
                assert_eq!((&seen[..11], seen[11]), (&[own; 11][..], 0));
            }
        };
        assert_eq!(smol::future::zip(others, calls).await.0, [true; 3]);
        assert!(underpass::caller().is_none(), "nobody has called this");
    });
}

#[test]
fn a_handler_that_panics_ends_its_call_alone() {
    let _watchdog = Watchdog::new("a_handler_that_panics_ends_its_call_alone");
    on_each(|executor: Executor| async move {
        let own = executor.clone();
        let (_running, client, _held) =
            office(&name(&executor, "panics"), &[], move |handler| drop(own.spawn(handler)));
        assert_eq!(client.panic_async("oh").await, Err(CallError::Panicked("oh".to_owned())));
        assert_eq!(client.echo_async(&[7], 0).await, Ok(vec![7]));
    });
}

#[test]
fn a_handler_that_is_dropped_tells_its_caller() {
    let _watchdog = Watchdog::new("a_handler_that_is_dropped_tells_its_caller");
    let (_running, client, _held) = office("dropped-first", &[], drop::<Handler>);
    assert_eq!(client.echo(&[1], 0), Err(CallError::Dropped(Outcome::NotStarted)));
    let (_running, client, _held) = office("dropped-spawn", &[], |_| panic!("no executor"));
    assert_eq!(client.echo(&[1], 0), Err(CallError::Dropped(Outcome::NotStarted)));

    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let handle = executor.handle().clone();
    let (_running, client, held) = office("dropped-later", &[], move |handler| drop(handle.spawn(handler)));
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let client = client.clone();
            underpass::thread::spawn(move || client.hold())
        })
        .collect();
    until("the handlers to hold", || (held.load(Ordering::SeqCst) == 5).then_some(()));
    executor.shutdown_background();
    for call in calls {
        assert_eq!(call.join().unwrap(), Err(CallError::Dropped(Outcome::Unknown)));
    }
    assert_eq!(client.echo(&[1], 0), Err(CallError::Dropped(Outcome::NotStarted)), "nobody runs it");
}

#[test]
fn a_handler_sees_that_nobody_wants_its_result() {
    let _watchdog = Watchdog::new("a_handler_sees_that_nobody_wants_its_result");
    on_each(|executor: Executor| async move {
        let own = executor.clone();
        let (_running, client, held) =
            office(&name(&executor, "unwanted"), &[], move |handler| drop(own.spawn(handler)));
        // The deadline ends the handler. The handler may see it before its caller does.
        let late = client.with_deadline(Duration::from_millis(30)).hold_async().await;
        assert!(matches!(late, Ok(()) | Err(CallError::Deadline(_))), "{late:?}");
        while held.load(Ordering::SeqCst) > 0 {
            smol::future::yield_now().await;
        }
        // A call with a distant deadline. Its future is dropped.
        let patient = client.with_deadline(Duration::from_secs(3_600));
        let dropped = smol::future::or(async { patient.hold_async().await.is_ok() }, async {
            while held.load(Ordering::SeqCst) == 0 {
                smol::future::yield_now().await;
            }
            false
        });
        assert!(!dropped.await, "it is held until it is dropped");
        while held.load(Ordering::SeqCst) > 0 {
            smol::future::yield_now().await;
        }
        assert_eq!(client.echo_async(&[7], 0).await, Ok(vec![7]));
    });
}

#[test]
fn a_handler_reads_where_the_client_wrote_for_as_long_as_it_runs() {
    let _watchdog = Watchdog::new("a_handler_reads_where_the_client_wrote_for_as_long_as_it_runs");
    on_each(|executor: Executor| async move {
        let own = executor.clone();
        let (_running, client, _held) =
            office(&name(&executor, "shares"), &[], move |handler| drop(own.spawn(handler)));
        // In a cell, in an A-stack, in an overflow buffer and in a file, and then other calls over
        // the same slots.
        for round in 1..=3u8 {
            // What goes through a file takes long to add up without optimization.
            let in_a_file = (round == 1).then_some((64 << 20) + 1);
            for len in [0usize, 1, 40, 300, 5_000, 32_000, 33_000, 1 << 20].into_iter().chain(in_a_file) {
                let bytes = vec![round; len];
                let sum = len as u64 * u64::from(round);
                let call = |ms| {
                    let (client, bytes) = (client.clone(), &bytes);
                    async move { client.twice_async(Shared::from(bytes), ms).await }
                };
                let (one, other) = smol::future::zip(call(1), call(0)).await;
                assert_eq!((one, other), (Ok((sum, sum)), Ok((sum, sum))), "{len}");
            }
        }
        // The caller does not wait any more. The A-stack stays leased, and no other call's bytes
        // come there.
        let bytes = vec![1; 5_000];
        for _ in 0..20 {
            let late =
                client.with_deadline(Duration::from_millis(1)).twice_async(Shared::from(&bytes), 5).await;
            assert!(matches!(late, Err(CallError::Deadline(_)) | Ok((5_000, 5_000))), "{late:?}");
            assert_eq!(client.twice_async(Shared::from(&[2; 5_000]), 0).await, Ok((10_000, 10_000)));
        }
    });
}

#[test]
fn giving_up_reaches_what_a_handler_awaits() {
    let _watchdog = Watchdog::new("giving_up_reaches_what_a_handler_awaits");
    on_each(|executor: Executor| async move {
        let (own, others) = (executor.clone(), executor.clone());
        let (_last, other, held) =
            office(&name(&executor, "awaited"), &[], move |handler| drop(others.spawn(handler)));
        let said = Arc::new(Mutex::new(Vec::new()));
        let office =
            Office { held: Arc::default(), probes: HashMap::new(), other: Some((other, said.clone())) };
        let spawn = move |handler| drop(own.spawn(handler));
        let (_first, client) = open(&name(&executor, "awaits"), office, spawn);
        let held = |so_many: u32| {
            let held = held.clone();
            async move {
                while held.load(Ordering::SeqCst) != so_many {
                    smol::future::yield_now().await;
                }
            }
        };
        // By the holder of an `Abandon`, by a cancelled thread, and by a task that drops its call.
        let abandon = underpass::Abandon::new();
        let (freed, cancelled) = (client.abandonable(&abandon), client.clone());
        let (freed, cancelled) = (
            underpass::thread::spawn(move || freed.have_held()),
            underpass::thread::spawn(move || cancelled.have_held()),
        );
        let dropped = smol::future::or(async { client.have_held_async().await.is_ok() }, async {
            held(3).await;
            false
        });
        assert!(!dropped.await, "it is held until it is dropped");
        held(2).await;
        abandon.abandon();
        held(1).await;
        cancelled.cancel();
        held(0).await;
        let told = smol::unblock(|| [freed.join().unwrap(), cancelled.join().unwrap()]).await;
        assert_eq!(
            told,
            [Err(CallError::Abandoned(Outcome::Unknown)), Err(CallError::Cancelled(Outcome::Unknown))]
        );
        // The handlers were dropped together with the calls that they awaited, unless one was being
        // polled just then.
        let said = said.lock().unwrap().clone();
        assert!(said.iter().all(|told| *told == Err(CallError::Cancelled(Outcome::Unknown))), "{said:?}");
    });
}

#[test]
fn a_client_that_dies_leaves_its_handlers_to_their_executor() {
    alone!();
    start_timers();
    let _watchdog = Watchdog::new("a_client_that_dies_leaves_its_handlers_to_their_executor");
    let executor = Arc::new(smol::Executor::new());
    let tasks = Arc::new(Mutex::new(Vec::new()));
    let (own, started) = (executor.clone(), tasks.clone());
    let (running, client, held) =
        office("orphans", &[], move |handler| started.lock().unwrap().push(own.spawn(handler)));
    let (stop, stopped) = smol::channel::bounded::<()>(1);
    let runs = {
        let executor = executor.clone();
        std::thread::spawn(move || {
            smol::block_on(executor.run(async move { stopped.recv().await.unwrap_or(()) }))
        })
    };
    assert_eq!(client.echo(&[1], 1), Ok(vec![1]));
    let files = Files::own();
    let path = running.paths().next().unwrap().file_name().unwrap().to_owned();
    for _ in 0..5 {
        let mut doomed = Command::new(SERVER).arg(&path).arg("stay").spawn().unwrap();
        until("its call to be held", || (held.load(Ordering::SeqCst) == 1).then_some(()));
        doomed.kill().unwrap();
        doomed.wait().unwrap();
        // Its handler continues, and nobody waits for its end.
        assert_eq!(held.load(Ordering::SeqCst), 1);
        tasks.lock().unwrap().clear();
        until("its handler to be dropped", || (held.load(Ordering::SeqCst) == 0).then_some(()));
        files.until_no_others();
        assert_eq!(client.echo(&[1], 1), Ok(vec![1]));
    }
    drop(stop);
    runs.join().unwrap();
}
