//! Calls of tasks that are dropped before their end.

use crate::asynchronous::callers::serve;
use crate::asynchronous::executors::{Executor, on_each};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use underpass_tests::{Probe, ProbeClient, Watchdog, fds_of};

/// Pseudo-random numbers, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Polls `call` that many times, and then drops it.
async fn drop_after<T>(call: impl Future<Output = T>, mut polls: u64) -> Option<T> {
    let mut call = pin!(call);
    std::future::poll_fn(|cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match call.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await
}

/// Makes as many concurrent calls as there are slots. Each has a slot of its own, so no slot is
/// lost. `met` calls have met before.
async fn all_slots_are_there(client: &ProbeClient, executor: &Executor, met: &AtomicU32) {
    let met = met.fetch_add(64, Ordering::SeqCst) + 64;
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let client = client.clone();
            executor.spawn(async move { client.meet_async(met).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.recv().await, Ok(Ok(())));
    }
}

#[test]
fn calls_dropped_anywhere_leave_nothing_and_reach_nobody() {
    let _watchdog = Watchdog::new("calls_dropped_anywhere_leave_nothing_and_reach_nobody");
    let (_server, client) = serve("async-dropped");
    // Any number of calls may be dropped at once.
    client.quarantine(64);
    let met = AtomicU32::new(0);
    on_each(|executor: Executor| {
        let (client, met) = (client.clone(), &met);
        async move {
            client.fill_async(200_000).await.unwrap();
            // Kernel threads that contend for a channel get other channels, which stay. Each has a
            // socket.
            let files = || fds_of(std::process::id()) - client.counters().channels_beside as usize;
            let before = files();
            let tasks: Vec<_> = (0..20u64)
                .map(|task| {
                    let client = client.clone();
                    executor.spawn(async move {
                        let mut dice = Dice(task);
                        for n in 0..100u32 {
                            let polls = dice.below(6);
                            match dice.below(8) {
                                0 => drop(drop_after(client.nap_async(dice.below(3)), polls).await),
                                // Results out of band that nobody reads.
                                1 => drop(drop_after(client.fill_async(100_000), polls).await),
                                2 => drop(drop_after(client.echo_async(&[1; 90_000]), polls).await),
                                3 => drop(
                                    smol::future::or(async { client.nap_async(2).await.ok() }, async {
                                        smol::Timer::after(Duration::from_micros(200)).await;
                                        None
                                    })
                                    .await,
                                ),
                                _ => drop(drop_after(client.add_async(1, 2), polls).await),
                            }
                            let bytes =
                                [task.to_le_bytes().to_vec(), n.to_le_bytes().repeat(1 + n as usize % 3000)]
                                    .concat();
                            assert_eq!(client.echo_async(&bytes).await, Ok(bytes));
                            if n % 20 == 0 {
                                let len = 50_000 + u64::from(n);
                                assert_eq!(client.fill_async(len).await.unwrap().len() as u64, len);
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.recv().await, Ok(()), "a task panicked under {}", executor.name);
            }
            all_slots_are_there(&client, &executor, met).await;
            while files() > before + 1 {
                smol::Timer::after(Duration::from_millis(1)).await;
            }
        }
    });
}

#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_dropped_call_keeps_no_waker() {
    let _watchdog = Watchdog::new("a_dropped_call_keeps_no_waker");
    let (_server, client) = serve("async-waker");
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    for polls in 0..12 {
        let mut call = Box::pin(client.nap_async(50));
        for _ in 0..polls {
            let _ = call.as_mut().poll(&mut Context::from_waker(&waker));
        }
        drop(call);
        assert_eq!(Arc::strong_count(&count), 2, "its own and the one in this test, after {polls} polls");
    }
    assert_eq!(client.add(1, 2), Ok(3));
}

#[test]
fn places_in_the_queue_that_are_dropped_go_to_the_next() {
    let _watchdog = Watchdog::new("places_in_the_queue_that_are_dropped_go_to_the_next");
    let (_server, client) = serve("async-places");
    client.quarantine(64);
    let met = AtomicU32::new(0);
    on_each(|executor: Executor| {
        let (client, met) = (client.clone(), &met);
        async move {
            for round in 0..10u64 {
                let mut dice = Dice(round);
                let tasks: Vec<_> = (0..150)
                    .map(|task| {
                        let (client, polls, ms) = (client.clone(), dice.below(20), dice.below(3));
                        executor.spawn(async move {
                            match task % 3 {
                                0 => client.nap_async(ms).await.unwrap(),
                                _ => drop(drop_after(client.nap_async(ms), polls).await),
                            }
                        })
                    })
                    .collect();
                for task in tasks {
                    assert_eq!(task.recv().await, Ok(()), "a task panicked under {}", executor.name);
                }
            }
            all_slots_are_there(&client, &executor, met).await;
        }
    });
}
