//! The operations of a thread package. The code is the same for our threads and for kernel threads.
//! Each function returns the ns of `count` operations.
//!
//! The peers do the same (`peers/README.md`). Setting threads up is not timed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Children of `fork` that have run.
///
/// Relaxed, here and below: only the number is waited for.
static CHILDREN: AtomicU64 = AtomicU64::new(0);

/// Counts a child that no other child can interrupt.
fn count_plainly() {
    CHILDREN.store(CHILDREN.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Counts a child that the kernel may interrupt for another.
fn count_locked() {
    CHILDREN.fetch_add(1, Ordering::Relaxed);
}

macro_rules! package {
    ($(#[$about:meta])* $name:ident, $threads:path, $locks:path, $count:path, $batch:literal) => {
        $(#[$about])*
        pub(crate) mod $name {
            use super::CHILDREN;
            use std::hint::black_box;
            use std::sync::Arc;
            use std::sync::atomic::Ordering;
            use underpass_os::clock::now_ns;
            use $threads as thread;
            use $locks as sync;

            /// Children that are started before the spawner yields until all of them have run.
            const BATCH: u64 = $batch;

            pub(crate) fn fork(count: u64) -> u64 {
                let mut started = CHILDREN.load(Ordering::Relaxed);
                let begun = now_ns();
                let last = started + count;
                while started < last {
                    let batch = BATCH.min(last - started);
                    for _ in 0..batch {
                        drop(thread::spawn(|| $count()));
                    }
                    started += batch;
                    while CHILDREN.load(Ordering::Relaxed) < started {
                        thread::yield_now();
                    }
                }
                now_ns() - begun
            }

            pub(crate) fn fork_join(count: u64) -> u64 {
                let mut sum = 0;
                let begun = now_ns();
                for _ in 0..count {
                    let child = thread::spawn(|| black_box(1));
                    sum += child.join().expect("it only counts");
                }
                let taken = now_ns() - begun;
                assert_eq!(sum, count, "each child has a result");
                taken
            }

            pub(crate) fn lock(count: u64) -> u64 {
                let mutex = sync::Mutex::new(0_u64);
                let begun = now_ns();
                for _ in 0..count {
                    *black_box(&mutex).lock().expect("nobody panics") += 1;
                }
                let taken = now_ns() - begun;
                assert_eq!(mutex.into_inner().expect("nobody panics"), count);
                taken
            }

            /// The mutex is released only in `wait`.
            pub(crate) fn ping_pong(count: u64) -> u64 {
                let table = Arc::new((sync::Mutex::new(false), sync::Condvar::new()));
                let theirs = Arc::clone(&table);
                let other = thread::spawn(move || {
                    let mut turn = theirs.0.lock().expect("nobody panics");
                    for _ in 0..=count {
                        while !*turn {
                            turn = theirs.1.wait(turn).expect("nobody panics");
                        }
                        *turn = false;
                        theirs.1.notify_one();
                    }
                });
                let mut turn = table.0.lock().expect("nobody panics");
                let mut begun = 0;
                for cycle in 0..=count {
                    if cycle == 1 {
                        // By now the other thread has started.
                        begun = now_ns();
                    }
                    *turn = true;
                    table.1.notify_one();
                    while *turn {
                        turn = table.1.wait(turn).expect("nobody panics");
                    }
                }
                let taken = now_ns() - begun;
                drop(turn);
                other.join().expect("it only waits");
                taken
            }

            pub(crate) fn park(count: u64) -> u64 {
                let me = thread::current();
                let other = thread::spawn(move || {
                    for _ in 0..=count {
                        thread::park();
                        me.unpark();
                    }
                });
                let them = other.thread().clone();
                let cycle = || {
                    them.unpark();
                    thread::park();
                };
                cycle();
                let begun = now_ns();
                (0..count).for_each(|_| cycle());
                let taken = now_ns() - begun;
                other.join().expect("it only waits");
                taken
            }
        }
    };
}

package!(
    /// User-level threads, on one activation.
    ours, underpass::thread, underpass::sync, super::count_plainly, 1000
);
package!(
    /// Kernel threads, on one CPU. There are fewer children at once, because each is a task of the
    /// kernel.
    kernel, std::thread, std::sync, super::count_locked, 100
);
