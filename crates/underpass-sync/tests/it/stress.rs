//! Deadlines that race with notifications, channel ends that go away while others wait, and
//! selects: nothing is lost or delivered twice.

use crate::crew::{Chance, Member, crew, member, watchdog};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use underpass_sync::mpmc::{self, RecvTimeoutError, SendTimeoutError};
use underpass_sync::{Condvar, Mutex, Once, RwLock, Select, Semaphore, TryLockError};

const SEEDS: u64 = 8;

#[test]
fn a_mutex_has_one_holder_while_waiters_give_up() {
    let _watchdog = watchdog("a_mutex_has_one_holder_while_waiters_give_up");
    for seed in 0..SEEDS {
        let shared = Arc::new((Mutex::new(0_u64), AtomicU64::new(0)));
        let of_all = shared.clone();
        let got = crew(seed, 9, move |_, mut chance| {
            let (sum, inside) = &*shared;
            let mut got = 0;
            for _ in 0..400 {
                let locked = match chance.below(3) {
                    0 => sum.try_lock(),
                    1 => sum.try_lock_for(chance.moment()),
                    _ => Ok(sum.lock().unwrap()),
                };
                let Ok(mut sum) = locked else { continue };
                // Relaxed: the mutex itself has to synchronize.
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                chance.dawdle();
                *sum += 1;
                got += 1;
                inside.fetch_sub(1, Ordering::Relaxed);
            }
            got
        });
        assert_eq!(*of_all.0.lock().unwrap(), got.into_iter().sum::<u64>(), "seed {seed}");
    }
}

#[test]
fn readers_and_writers_exclude_each_other_while_waiters_give_up() {
    let _watchdog = watchdog("readers_and_writers_exclude_each_other_while_waiters_give_up");
    for seed in 0..SEEDS {
        let shared = Arc::new((RwLock::new(0_u64), AtomicU64::new(0)));
        let of_all = shared.clone();
        let wrote = crew(seed, 9, move |_, mut chance| {
            const WRITER: u64 = 1 << 32;
            let (value, inside) = &*shared;
            let mut wrote = 0;
            for _ in 0..400 {
                if chance.below(3) == 0 {
                    let locked = match chance.below(3) {
                        0 => value.try_write(),
                        1 => value.try_write_for(chance.moment()),
                        _ => Ok(value.write().unwrap()),
                    };
                    let Ok(mut value) = locked else { continue };
                    assert_eq!(inside.fetch_add(WRITER, Ordering::Relaxed), 0);
                    chance.dawdle();
                    *value += 1;
                    wrote += 1;
                    inside.fetch_sub(WRITER, Ordering::Relaxed);
                } else {
                    let locked = match chance.below(3) {
                        0 => value.try_read(),
                        1 => value.try_read_for(chance.moment()),
                        _ => Ok(value.read().unwrap()),
                    };
                    let Ok(_value) = locked else { continue };
                    assert!(inside.fetch_add(1, Ordering::Relaxed) < WRITER);
                    chance.dawdle();
                    inside.fetch_sub(1, Ordering::Relaxed);
                }
            }
            wrote
        });
        let mut value = of_all.0.try_write().expect("no thread has it, and none seems to wait");
        assert_eq!(*value, wrote.into_iter().sum::<u64>(), "seed {seed}");
        *value = 0;
    }
}

#[test]
fn tokens_under_a_condition_are_taken_once() {
    let _watchdog = watchdog("tokens_under_a_condition_are_taken_once");
    const EACH: u64 = 300;
    for seed in 0..SEEDS {
        let shared = Arc::new((Mutex::new(0_u64), Condvar::new()));
        let of_all = shared.clone();
        crew(seed, 8, move |number, mut chance| {
            let (tokens, changed) = &*shared;
            for _ in 0..EACH {
                if number % 2 == 0 {
                    *tokens.lock().unwrap() += 1;
                    match chance.below(4) {
                        0 => changed.notify_all(),
                        _ => changed.notify_one(),
                    }
                    chance.dawdle();
                    continue;
                }
                let mut held = tokens.lock().unwrap();
                while *held == 0 {
                    held = match chance.below(2) {
                        0 => changed.wait(held).unwrap(),
                        _ => changed.wait_timeout(held, chance.moment()).unwrap().0,
                    };
                }
                *held -= 1;
            }
        });
        assert_eq!(*of_all.0.lock().unwrap(), 0, "seed {seed}");
    }
}

#[test]
fn each_permit_is_had_by_one() {
    let _watchdog = watchdog("each_permit_is_had_by_one");
    const PERMITS: usize = 3;
    for seed in 0..SEEDS {
        let shared = Arc::new((Semaphore::new(PERMITS), AtomicU64::new(0)));
        let of_all = shared.clone();
        crew(seed, 9, move |_, mut chance| {
            let (semaphore, inside) = &*shared;
            for _ in 0..400 {
                let many = chance.below(PERMITS as u64) as usize + 1;
                let permit = match chance.below(3) {
                    0 => semaphore.try_acquire_many(many),
                    1 => semaphore.acquire_many_until(many, std::time::Instant::now() + chance.moment()).ok(),
                    _ => Some(semaphore.acquire_many(many).unwrap()),
                };
                let Some(permit) = permit else { continue };
                let before = inside.fetch_add(many as u64, Ordering::Relaxed);
                assert!(before + many as u64 <= PERMITS as u64);
                chance.dawdle();
                inside.fetch_sub(many as u64, Ordering::Relaxed);
                drop(permit);
            }
        });
        assert_eq!(of_all.0.available(), PERMITS, "seed {seed}");
    }
}

/// Sends and receives with deadlines over a channel with `bound`. Returns what was sent and what
/// was received.
fn trade(seed: u64, bound: Option<usize>) -> (Vec<u64>, Vec<u64>) {
    let (sender, receiver) = bound.map_or_else(mpmc::unbounded, mpmc::bounded);
    let receivers: Vec<_> = (0..3)
        .map(|number| {
            let receiver = receiver.clone();
            member(seed, number, move |_, mut chance| {
                let mut received = Vec::new();
                loop {
                    let got = match chance.below(3) {
                        0 => receiver.recv_timeout(chance.moment()),
                        1 => receiver.try_recv().map_err(|error| match error {
                            mpmc::TryRecvError::Empty => RecvTimeoutError::Timeout,
                            mpmc::TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                        }),
                        _ => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    };
                    match got {
                        Ok(message) => received.push(message),
                        Err(RecvTimeoutError::Disconnected) => return received,
                        Err(_) => underpass_threads::yield_now(),
                    }
                }
            })
        })
        .collect();
    drop(receiver);
    let senders: Vec<_> = (3..9)
        .map(|number| {
            let sender = sender.clone();
            member(seed, number, move |number, mut chance| {
                let mut sent = Vec::new();
                for n in 0..300 {
                    let message = number << 32 | n;
                    let done = match chance.below(3) {
                        0 => sender.send_timeout(message, chance.moment()),
                        1 => sender
                            .try_send(message)
                            .map_err(|error| SendTimeoutError::Timeout(error.into_inner())),
                        _ => sender
                            .send(message)
                            .map_err(|error| SendTimeoutError::Disconnected(error.into_inner())),
                    };
                    match done {
                        Ok(()) => sent.push(message),
                        Err(error) => assert_eq!(error.into_inner(), message),
                    }
                    chance.dawdle();
                }
                sent
            })
        })
        .collect();
    drop(sender);
    let gather = |members: Vec<Member<Vec<u64>>>| {
        let mut all: Vec<_> = members.into_iter().flat_map(Member::join).collect();
        all.sort_unstable();
        all
    };
    (gather(senders), gather(receivers))
}

#[test]
fn what_is_sent_is_received_once() {
    let _watchdog = watchdog("what_is_sent_is_received_once");
    for seed in 0..SEEDS {
        for bound in [None, Some(0), Some(1), Some(5)] {
            let (sent, received) = trade(seed, bound);
            assert!(sent.len() >= 6 * 50, "threads that wait for ever do send");
            assert_eq!(sent, received, "seed {seed}, bound {bound:?}");
        }
    }
}

#[test]
fn a_blocked_thread_hears_that_the_others_are_gone() {
    let _watchdog = watchdog("a_blocked_thread_hears_that_the_others_are_gone");
    for seed in 0..SEEDS * 4 {
        let bound = (seed % 3) as usize;
        // Receivers that wait for more messages than there are.
        let (sender, receiver) = mpmc::bounded::<u64>(bound);
        let members: Vec<_> = (0..6)
            .map(|number| {
                let receiver = receiver.clone();
                member(seed, number, move |_, _| receiver.iter().count() as u64)
            })
            .collect();
        drop(receiver);
        (0..10).for_each(|n| sender.send(n).unwrap());
        drop(sender);
        assert_eq!(members.into_iter().map(Member::join).sum::<u64>(), 10);

        // Senders of more messages than are received: each gets its unsent message back, and every
        // message is dropped once.
        let (sender, receiver) = mpmc::bounded(bound);
        let counted = Arc::new(());
        let members: Vec<_> = (0..6)
            .map(|number| {
                let (sender, counted) = (sender.clone(), counted.clone());
                member(seed, number, move |_, _| {
                    let mut sent = 0;
                    while sender.send(counted.clone()).is_ok() {
                        sent += 1;
                    }
                    sent
                })
            })
            .collect();
        drop(sender);
        let taken = (0..10).filter(|_| receiver.recv().is_ok()).count() as u64;
        drop(receiver);
        let sent = members.into_iter().map(Member::join).sum::<u64>();
        assert!((taken..=taken + bound as u64).contains(&sent), "{sent} sent, {taken} taken of {bound}");
        assert_eq!(Arc::strong_count(&counted), 1, "every message is dropped");
    }
}

#[test]
fn selects_lose_nothing() {
    let _watchdog = watchdog("selects_lose_nothing");
    for seed in 0..SEEDS {
        let channels: Vec<_> = [0, 0, 1, 3].into_iter().map(mpmc::bounded::<u64>).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = channels.into_iter().unzip();
        let (senders, receivers) = (Arc::new(senders), Arc::new(receivers));
        let readers: Vec<_> = (0..4)
            .map(|number| {
                let receivers = receivers.clone();
                member(seed, number, move |_, mut chance| {
                    let (mut received, mut gone) = (Vec::new(), false);
                    while !gone {
                        let (a, b) =
                            (&receivers[chance.below(4) as usize], &receivers[chance.below(4) as usize]);
                        let select = Select::new().recv(a, |message| message.map_err(|_| true));
                        let select = select.recv(b, |message| message.map_err(|_| true));
                        match select.timeout(chance.moment(), || Err(false)).wait().unwrap() {
                            Ok(message) => received.push(message),
                            Err(end) => gone = end,
                        }
                    }
                    // One channel may be gone before another is empty.
                    for receiver in &*receivers {
                        received.extend(receiver.iter());
                    }
                    received
                })
            })
            .collect();
        drop(receivers);
        let writers: Vec<_> = (4..9)
            .map(|number| {
                let senders = senders.clone();
                member(seed, number, move |number, mut chance| {
                    let mut sent = Vec::new();
                    for n in 0..200 {
                        let message = number << 32 | n;
                        let (a, b) = (&senders[chance.below(4) as usize], &senders[chance.below(4) as usize]);
                        let select = Select::new().send(a, message, |sent| sent.unwrap());
                        let select = select.send(b, message | 1 << 20, |sent| sent.unwrap());
                        // The received messages tell which of the two cases was executed.
                        if chance.below(2) == 0 {
                            select.wait().unwrap();
                            sent.push(message);
                        } else if select.timeout(chance.moment(), || ()).wait().is_ok() {
                            sent.push(message | 1 << 40);
                        }
                    }
                    sent
                })
            })
            .collect();
        drop(senders);
        let sure: Vec<u64> =
            writers.into_iter().flat_map(Member::join).filter(|m| m & 1 << 40 == 0).collect();
        let mut received: Vec<u64> =
            readers.into_iter().flat_map(Member::join).map(|m| m & !(1 << 20)).collect();
        let all = received.len();
        received.sort_unstable();
        received.dedup();
        assert_eq!(received.len(), all, "nothing twice; seed {seed}");
        assert!(
            sure.iter().all(|message| received.binary_search(message).is_ok()),
            "nothing lost; seed {seed}"
        );
    }
}

#[test]
fn a_panic_poisons_and_is_reported() {
    let _watchdog = watchdog("a_panic_poisons_and_is_reported");
    let mutex = Arc::new(Mutex::new(1));
    let lock = Arc::new(RwLock::new(1));
    let (a, b) = (mutex.clone(), lock.clone());
    let thread = underpass_threads::spawn(move || {
        let (_mutex, _lock) = (a.lock().unwrap(), b.write().unwrap());
        panic!("on purpose");
    });
    assert!(thread.join().is_err());
    assert!(mutex.is_poisoned() && lock.is_poisoned());
    assert_eq!(*mutex.lock().unwrap_err().into_inner(), 1);
    assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(_))));
    assert!(lock.read().is_err() && lock.write().is_err());
    mutex.clear_poison();
    lock.clear_poison();
    assert!(mutex.lock().is_ok() && lock.read().is_ok());

    let reading = catch_unwind(AssertUnwindSafe(|| {
        let _reading = lock.read().unwrap();
        panic!("on purpose");
    }));
    assert!(reading.is_err() && !lock.is_poisoned(), "a reader breaks nothing");

    let once = Once::new();
    assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("on purpose")))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| ()))).is_err());
    once.call_once_force(|state| assert!(state.is_poisoned()));
    assert!(once.is_completed());
}

#[test]
fn a_contended_mutex_is_had_by_all() {
    let _watchdog = watchdog("a_contended_mutex_is_had_by_all");
    // Each thread goes on until every thread has had the lock often enough. If one were passed over
    // for ever, this would not end.
    let turns = Arc::new(Mutex::new([0_u64; 4]));
    let mut chance = Chance(1);
    let seed = chance.next();
    crew(seed, 4, move |number, _| {
        loop {
            let mut turns = turns.lock().unwrap();
            turns[number as usize] += 1;
            if turns.iter().all(|&turns| turns >= 1000) {
                return;
            }
        }
    });
}
