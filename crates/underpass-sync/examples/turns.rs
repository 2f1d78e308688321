//! What the primitives cost where nobody waits in the kernel: ns an operation, on one activation,
//! with `std`'s lock beside, and the two locked instructions that a lock needs at least.
//!
//! `cargo run --release -p underpass-sync --example turns [case] [rounds] [count]`; for a look, not
//! for the record: that is `underpass-bench threads`.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use underpass_sync::{Condvar, Mutex, RwLock, Semaphore, mpmc};
use underpass_threads::spawn;

/// Its name, and what gives the ns an operation for so many of them.
type Case = (&'static str, fn(u64) -> f64);

fn ns(count: u64, body: impl FnOnce(u64)) -> f64 {
    let begun = Instant::now();
    body(count);
    begun.elapsed().as_nanos() as f64 / count as f64
}

fn std_lock(count: u64) -> f64 {
    let mutex = std::sync::Mutex::new(0_u64);
    ns(count, |count| (0..count).for_each(|_| *black_box(&mutex).lock().unwrap() += 1))
}

fn lock(count: u64) -> f64 {
    let mutex = Mutex::new(0_u64);
    ns(count, |count| (0..count).for_each(|_| *black_box(&mutex).lock().unwrap() += 1))
}

/// A lock of a compare-and-exchange and a swap, without waiters, holder or poison.
fn two_locked(count: u64) -> f64 {
    let lock = (AtomicBool::new(false), AtomicU64::new(0));
    ns(count, |count| {
        for _ in 0..count {
            let (word, value) = black_box(&lock);
            while word.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {}
            // Relaxed: the lock orders it.
            value.store(value.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            assert!(word.swap(false, Ordering::Release), "it was locked");
        }
    })
}

fn read(count: u64) -> f64 {
    let lock = RwLock::new(0_u64);
    ns(count, |count| (0..count).for_each(|_| drop(black_box(&lock).read().unwrap())))
}

fn semaphore(count: u64) -> f64 {
    let semaphore = Semaphore::new(1);
    ns(count, |count| (0..count).for_each(|_| drop(black_box(&semaphore).acquire().unwrap())))
}

/// As the case of the same name in `underpass-bench threads`: two waits and two notifications a
/// cycle.
fn ping_pong(count: u64) -> f64 {
    let table = Arc::new((Mutex::new(false), Condvar::new()));
    let theirs = Arc::clone(&table);
    let other = spawn(move || {
        let mut turn = theirs.0.lock().unwrap();
        for _ in 0..count {
            while !*turn {
                turn = theirs.1.wait(turn).unwrap();
            }
            *turn = false;
            theirs.1.notify_one();
        }
    });
    let taken = ns(count, |count| {
        let mut turn = table.0.lock().unwrap();
        for _ in 0..count {
            *turn = true;
            table.1.notify_one();
            while *turn {
                turn = table.1.wait(turn).unwrap();
            }
        }
    });
    other.join().unwrap();
    taken
}

/// A message there and one back.
fn messages(count: u64) -> f64 {
    let ((to, from_here), (back, from_there)) = (mpmc::bounded(1), mpmc::bounded(1));
    let other = spawn(move || from_here.iter().for_each(|n: u64| back.send(n).unwrap()));
    let taken = ns(count, |count| {
        for n in 0..count {
            to.send(n).unwrap();
            assert_eq!(from_there.recv(), Ok(n));
        }
    });
    drop(to);
    other.join().unwrap();
    taken
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next().filter(|case| case != "all");
    let rounds: u32 = arguments.next().map_or(5, |rounds| rounds.parse().expect("a number of rounds"));
    let count: u64 =
        arguments.next().map_or(1_000_000, |count| count.parse().expect("a number of operations"));
    let cases: [Case; 7] = [
        ("two-locked", two_locked),
        ("std-lock", std_lock),
        ("lock", lock),
        ("read", read),
        ("semaphore", semaphore),
        ("ping-pong", ping_pong),
        ("messages", messages),
    ];
    for _ in 0..rounds {
        for (name, case) in
            cases.into_iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name))
        {
            print!("{name} {:.1}  ", spawn(move || case(count)).join().unwrap());
        }
        println!();
    }
}
