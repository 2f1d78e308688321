//! Loom models of the primitives: every interleaving of small cases. CONTRIBUTING.md says how to
//! run them.
//!
//! Loom reports a lost wake-up as a deadlock. It reports a node that is used after its owner left
//! as a race on its cell. The stand-in for the runtime fails when a thread is woken twice. A
//! deadline passes at any moment.

mod call_turn;
mod service_token;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::time::Duration;
use underpass_sync::{Barrier, Condvar, Mutex, Once, RwLock, Select, Semaphore, SpinLock, mpmc, stand_on};

const SOON: Duration = Duration::from_secs(1);

/// Explores the model with at most `preemptions` preemptions, where all schedules would take too
/// long.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Runs `bodies` at once, the last of them on this thread.
fn together<const N: usize>(bodies: [Box<dyn FnOnce() + Send>; N]) {
    let mut bodies: Vec<_> = bodies.into();
    let last = bodies.pop().unwrap();
    let others: Vec<_> = bodies.into_iter().map(|body| thread::spawn(body)).collect();
    last();
    others.into_iter().for_each(|other| other.join().unwrap());
}

/// A counter under a spin lock. Loom checks that only one thread at a time is in the cell.
type Counter = Arc<(SpinLock, loom::cell::UnsafeCell<u32>)>;

fn count(counter: &Counter) {
    let mut inside = counter.0.enter();
    let times = counter.1.with_mut(|times| unsafe {
        *times += 1;
        *times
    });
    inside.hint(times);
}

/// A body that runs on kernel thread `on` and counts `often` times.
fn counting(counter: &Counter, on: usize, often: usize) -> Box<dyn FnOnce() + Send> {
    let counter = Shared(counter.clone());
    Box::new(move || {
        let counter = counter;
        stand_on(on);
        (0..often).for_each(|_| count(&counter.0));
    })
}

#[test]
fn a_spin_lock_excludes_two() {
    loom::model(|| {
        let counter = Counter::default();
        together([counting(&counter, 0, 1), counting(&counter, 0, 1)]);
        assert_eq!(counter.0.hints(), 2);
    });
}

/// A counter that is biased towards kernel thread 16, on which the caller is now.
fn biased_counter() -> Counter {
    let counter = Counter::default();
    stand_on(16);
    (0..2).for_each(|_| count(&counter));
    counter
}

#[test]
fn a_biased_spin_lock_excludes_two() {
    bounded(4, || {
        let counter = biased_counter();
        together([counting(&counter, 32, 1), counting(&counter, 16, 2)]);
        assert_eq!(counter.0.hints(), 5);
    });
}

#[test]
fn the_bias_of_a_spin_lock_moves_to_another_thread() {
    bounded(3, || {
        let counter = biased_counter();
        // The second thread enters often enough to get the bias, while the first may be about to
        // use its own.
        together([counting(&counter, 32, 3), counting(&counter, 16, 1)]);
        assert_eq!(counter.0.hints(), 6);
    });
}

#[test]
fn a_spin_lock_passes_to_another_by_the_flag_of_a_returned_owner() {
    bounded(4, || {
        let counter = biased_counter();
        // The first thread loses the bias and comes back, which frees its flag for the other one.
        for on in [32, 16, 32, 32] {
            stand_on(on);
            count(&counter);
        }
        together([counting(&counter, 32, 2), counting(&counter, 16, 2)]);
        assert_eq!(counter.0.hints(), 10);
    });
}

/// A mutex that is biased towards kernel thread 16, on which the caller is now.
fn biased_mutex() -> Arc<Mutex<i32>> {
    let mutex = Arc::new(Mutex::new(0));
    stand_on(16);
    (0..2).for_each(|_| *mutex.lock().unwrap() += 1);
    mutex
}

#[test]
fn a_biased_mutex_excludes_two() {
    bounded(4, || {
        let mutex = biased_mutex();
        let other = mutex.clone();
        let other = move || {
            stand_on(32);
            *other.lock().unwrap() += 1;
        };
        let here = mutex.clone();
        let here = move || (0..2).for_each(|_| *here.lock().unwrap() += 1);
        together([Box::new(other), Box::new(here)]);
        assert_eq!(*mutex.lock().unwrap(), 5);
    });
}

#[test]
fn the_bias_of_a_mutex_moves_to_another_thread() {
    bounded(2, || {
        let mutex = biased_mutex();
        let uses = |on, often: i32| {
            let mutex = mutex.clone();
            move || {
                stand_on(on);
                (0..often).for_each(|_| *mutex.lock().unwrap() += 1);
            }
        };
        together([Box::new(uses(32, 3)), Box::new(uses(16, 2))]);
        assert_eq!(*mutex.lock().unwrap(), 7);
    });
}

#[test]
fn a_biased_mutex_wakes_its_waiter() {
    bounded(2, || {
        let mutex = biased_mutex();
        let held = mutex.lock().unwrap();
        let others = [32, 0].map(|on| {
            let mutex = mutex.clone();
            thread::spawn(move || {
                stand_on(on);
                *mutex.lock().unwrap() += 1;
            })
        });
        drop(held);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(*mutex.lock().unwrap(), 4);
    });
}

#[test]
fn a_thread_that_moves_with_a_biased_mutex_releases_it() {
    bounded(3, || {
        let mutex = biased_mutex();
        let mut held = mutex.lock().unwrap();
        stand_on(48);
        let other = mutex.clone();
        let other = thread::spawn(move || {
            stand_on(16);
            (0..2).for_each(|_| *other.lock().unwrap() += 1);
        });
        *held += 1;
        drop(held);
        *mutex.lock().unwrap() += 1;
        other.join().unwrap();
        assert_eq!(*mutex.lock().unwrap(), 6);
    });
}

#[test]
fn a_mutex_excludes_two() {
    bounded(4, || {
        let sum = Arc::new(Mutex::new(0));
        let body = |sum: Arc<Mutex<i32>>| -> Box<dyn FnOnce() + Send> {
            Box::new(move || {
                for _ in 0..2 {
                    *sum.lock().unwrap() += 1;
                }
            })
        };
        together([body(sum.clone()), body(sum.clone())]);
        assert_eq!(*sum.lock().unwrap(), 4);
    });
}

#[test]
fn a_mutex_excludes_three() {
    bounded(2, || {
        let sum = Arc::new(Mutex::new(0));
        let body = |sum: Arc<Mutex<i32>>| -> Box<dyn FnOnce() + Send> {
            Box::new(move || *sum.lock().unwrap() += 1)
        };
        together([body(sum.clone()), body(sum.clone()), body(sum.clone())]);
        assert_eq!(*sum.lock().unwrap(), 3);
    });
}

#[test]
fn a_waiter_that_gives_up_a_mutex_holds_up_nobody() {
    bounded(3, || {
        let sum = Arc::new(Mutex::new(0));
        let (a, b) = (sum.clone(), sum.clone());
        let patient = move || *a.lock().unwrap() += 1;
        let impatient = move || {
            if let Ok(mut sum) = b.try_lock_for(SOON) {
                *sum += 1;
            }
        };
        let c = sum.clone();
        together([Box::new(patient), Box::new(impatient), Box::new(move || *c.lock().unwrap() += 1)]);
        assert!(matches!(*sum.lock().unwrap(), 2 | 3));
    });
}

#[test]
fn a_lock_has_many_readers_or_one_writer() {
    bounded(2, || {
        let value = Arc::new(RwLock::new((0, 0)));
        let (a, b, c) = (value.clone(), value.clone(), value.clone());
        let write = |value: Arc<RwLock<(i32, i32)>>| {
            move || {
                let mut value = value.write().unwrap();
                value.0 += 1;
                value.1 += 1;
            }
        };
        let read = move || {
            let value = c.read().unwrap();
            assert_eq!(value.0, value.1);
        };
        together([Box::new(write(a)), Box::new(read), Box::new(write(b))]);
        assert_eq!(*value.read().unwrap(), (2, 2));
    });
}

#[test]
fn a_writer_that_gives_up_lets_readers_in() {
    bounded(2, || {
        let value = Arc::new(RwLock::new(0));
        let (a, b) = (value.clone(), value.clone());
        let reading = value.read().unwrap();
        let writer = thread::spawn(move || {
            if let Ok(mut value) = a.try_write_for(SOON) {
                *value += 1;
            }
        });
        let reader = thread::spawn(move || {
            assert_eq!(*b.read().unwrap(), 0, "no writer has it while another thread reads");
        });
        // While this thread goes on reading: the reader may have waited behind the writer, and
        // behind no other thread.
        reader.join().unwrap();
        drop(reading);
        writer.join().unwrap();
        assert!(value.try_write().is_ok(), "nobody has it, and nobody is thought to wait");
    });
}

#[test]
fn a_condition_is_not_missed() {
    loom::model(|| {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let other = pair.clone();
        let thread = thread::spawn(move || {
            *other.0.lock().unwrap() = true;
            other.1.notify_one();
        });
        let told = pair.1.wait_while(pair.0.lock().unwrap(), |told| !*told).unwrap();
        assert!(*told);
        drop(told);
        thread.join().unwrap();
    });
}

#[test]
fn one_notification_ends_one_wait_also_beside_a_deadline() {
    bounded(3, || {
        // Two threads wait, one of them with a deadline, and one is notified. If the notification
        // goes to the thread with the deadline, that wait is not late, and the thread notifies the
        // other.
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let (a, b) = (shared.clone(), shared.clone());
        let patient = thread::spawn(move || {
            let mut tokens = a.0.lock().unwrap();
            while *tokens == 0 {
                tokens = a.1.wait(tokens).unwrap();
            }
            *tokens -= 1;
        });
        let impatient = thread::spawn(move || {
            let tokens = b.0.lock().unwrap();
            let (tokens, waited) = b.1.wait_timeout(tokens, SOON).unwrap();
            drop(tokens);
            if !waited.timed_out() {
                b.1.notify_one();
            }
        });
        *shared.0.lock().unwrap() += 1;
        shared.1.notify_one();
        patient.join().unwrap();
        // It may have begun to wait too late for any notification. Then its deadline ends the wait.
        impatient.join().unwrap();
        assert_eq!(*shared.0.lock().unwrap(), 0);
    });
}

#[test]
fn all_are_notified() {
    bounded(2, || {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let pair = pair.clone();
                thread::spawn(move || {
                    drop(pair.1.wait_while(pair.0.lock().unwrap(), |go| !*go).unwrap());
                })
            })
            .collect();
        *pair.0.lock().unwrap() = true;
        pair.1.notify_all();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn a_permit_is_handed_on() {
    bounded(3, || {
        let semaphore = Arc::new(Semaphore::new(1));
        let inside = Arc::new(AtomicUsize::new(0));
        let body = || -> Box<dyn FnOnce() + Send> {
            let (semaphore, inside) = (semaphore.clone(), inside.clone());
            Box::new(move || {
                let _permit = semaphore.acquire().unwrap();
                // Relaxed: the semaphore itself has to synchronize.
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                inside.fetch_sub(1, Ordering::Relaxed);
            })
        };
        together([body(), body(), body()]);
        assert_eq!(semaphore.available(), 1);
    });
}

#[test]
fn a_permit_is_not_lost_on_a_waiter_that_gives_up() {
    bounded(3, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let (a, b) = (semaphore.clone(), semaphore.clone());
        // It wants more permits than there will ever be, and is first in the list.
        let greedy = thread::spawn(move || {
            assert!(a.acquire_many_until(2, std::time::Instant::now() + SOON).is_err());
        });
        let modest = thread::spawn(move || drop(b.acquire().unwrap()));
        semaphore.release(1);
        greedy.join().unwrap();
        modest.join().unwrap();
        assert_eq!(semaphore.available(), 1);
    });
}

#[test]
fn a_barrier_lets_all_pass_again_and_again() {
    bounded(3, || {
        let barrier = Arc::new(Barrier::new(2));
        let leads = Arc::new(AtomicUsize::new(0));
        let body = || -> Box<dyn FnOnce() + Send> {
            let (barrier, leads) = (barrier.clone(), leads.clone());
            Box::new(move || {
                for _ in 0..2 {
                    leads.fetch_add(usize::from(barrier.wait().is_leader()), Ordering::Relaxed);
                }
            })
        };
        together([body(), body()]);
        assert_eq!(leads.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn it_is_done_once() {
    bounded(3, || {
        let shared = Arc::new((Once::new(), loom::cell::UnsafeCell::new(0)));
        let body = || -> Box<dyn FnOnce() + Send> {
            let shared = Shared(shared.clone());
            Box::new(move || {
                let shared = shared;
                shared.0.0.call_once(|| shared.0.1.with_mut(|times| unsafe { *times += 1 }));
                shared.0.1.with(|times| assert_eq!(unsafe { *times }, 1));
            })
        };
        together([body(), body(), body()]);
    });
}

/// Loom checks that it may be shared.
struct Shared<T>(T);
unsafe impl<T> Send for Shared<T> {}

#[test]
fn sender_and_receiver_meet() {
    loom::model(|| {
        let (sender, receiver) = mpmc::bounded(0);
        let thread = thread::spawn(move || {
            sender.send(1).unwrap();
            sender.send(2).unwrap();
        });
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Ok(2)));
        assert_eq!(receiver.recv(), Err(mpmc::RecvError::Disconnected));
        thread.join().unwrap();
    });
}

#[test]
fn a_message_is_received_or_given_back() {
    bounded(3, || {
        let (sender, receiver) = mpmc::bounded(0);
        let thread = thread::spawn(move || match sender.send_timeout(7, SOON) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.into_inner(), 7);
                false
            }
        });
        let received = match receiver.recv_timeout(SOON) {
            Ok(7) => true,
            other => {
                assert!(other.is_err());
                false
            }
        };
        drop(receiver);
        assert_eq!(thread.join().unwrap(), received, "sent and received, or neither");
    });
}

#[test]
fn a_full_channel_makes_room_in_order() {
    bounded(2, || {
        let (sender, receiver) = mpmc::bounded(1);
        let other = sender.clone();
        let one = thread::spawn(move || (1..=2).for_each(|n| sender.send(n).unwrap()));
        let two = thread::spawn(move || other.send(10).unwrap());
        let mut seen: Vec<_> = receiver.iter().collect();
        one.join().unwrap();
        two.join().unwrap();
        seen.retain(|n| *n != 10);
        assert_eq!(seen, [1, 2]);
    });
}

#[test]
fn a_waiter_hears_that_the_other_end_is_gone() {
    bounded(3, || {
        let (sender, receiver) = mpmc::bounded::<u32>(0);
        let others = [receiver.clone(), receiver];
        let waiters = others.map(|receiver| thread::spawn(move || receiver.recv()));
        drop(sender);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Err(mpmc::RecvError::Disconnected));
        }
    });
}

#[test]
fn a_select_takes_one() {
    bounded(2, || {
        let (one, from_one) = mpmc::bounded(0);
        let (two, from_two) = mpmc::bounded(0);
        let one = thread::spawn(move || one.try_send(1).is_ok());
        let two = thread::spawn(move || two.send_timeout(2, SOON).is_ok());
        let got = Select::new()
            .recv(&from_one, |message| message.ok())
            .recv(&from_two, |message| message.ok())
            .timeout(SOON, || None)
            .wait()
            .unwrap();
        drop((from_one, from_two));
        let sent = [one.join().unwrap().then_some(1), two.join().unwrap().then_some(2)];
        assert_eq!(sent.into_iter().flatten().collect::<Vec<i32>>(), got.into_iter().collect::<Vec<_>>());
    });
}

#[test]
fn two_selects_meet() {
    bounded(3, || {
        let (sender, receiver) = mpmc::bounded(0);
        let (back, from_back) = mpmc::bounded::<u32>(0);
        let thread = thread::spawn(move || {
            let select = Select::new().send(&sender, 5, |sent| (sent.unwrap(), None).1);
            select.recv(&from_back, |message| message.ok()).wait().unwrap()
        });
        let select = Select::new().recv(&receiver, |message| message.ok());
        let here = select.send(&back, 6, |sent| (sent.unwrap(), None).1).wait().unwrap();
        let there = thread.join().unwrap();
        assert!(matches!((here, there), (Some(5), None) | (None, Some(6))), "{here:?} {there:?}");
    });
}
