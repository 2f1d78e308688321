//! Very many threads: at once, and one after another.
//!
//! The sizes here suit every run. The environment sets the full sizes, and has the measurements
//! printed: `UNDERPASS_TEST_LOUD=1 UNDERPASS_TEST_BLOCKED=1000000 cargo test -p underpass-threads
//! --test it --release -- --nocapture a_million`, and `UNDERPASS_TEST_LOUD=1
//! UNDERPASS_TEST_SEQUENCE=10000000 cargo test -p underpass-threads --test it --release --
//! --nocapture ten_million`.

use crate::common::{long, setting, test_name, watchdog, with_settings};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use underpass_sync::Barrier;
use underpass_threads::{Builder, park, sleep, spawn, trim, yield_now};

/// The limit for a million blocked threads: bytes for each thread.
const BYTES_A_THREAD: u64 = (8 << 30) / 1_000_000;
/// Bytes of a stack's mapping, with its guard.
const STACK: u64 = 260 << 10;
/// How many contexts the runtime may keep in common, and for each activation.
const KEPT: (u64, u64) = (1024, 64);
/// Upper bound of the bytes of a control block. Blocks stay, in a table that doubles.
const BLOCK: u64 = 512;
/// What a kernel thread may map: its own stack, and one for signals.
const KERNEL_THREAD: u64 = 3 << 20;
/// An allocator's arena for each kernel thread would map more than what is measured.
const ONE_ARENA: &[(&str, &str)] = &[("MALLOC_ARENA_MAX", "1")];

/// The kernel's figures for this process, in bytes, and the number of its mappings.
#[derive(Clone, Copy, Debug)]
struct Usage {
    resident: u64,
    mapped: u64,
    page_tables: u64,
    mappings: u64,
    kernel_threads: u64,
}

impl Usage {
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
        let of = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the kernel says it");
            line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
        };
        let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
        Self {
            resident: of("VmRSS:"),
            mapped: of("VmSize:"),
            page_tables: of("VmPTE:"),
            mappings: maps.lines().count() as u64,
            kernel_threads: std::fs::read_dir("/proc/self/task").expect("/proc is mounted").count() as u64,
        }
    }

    /// The bytes and the mappings that `self` has more than `before`, without those of new kernel
    /// threads.
    fn grown(&self, before: &Self) -> (u64, u64) {
        let threads = self.kernel_threads.saturating_sub(before.kernel_threads);
        (
            self.mapped.saturating_sub(before.mapped + threads * KERNEL_THREAD),
            // A kernel thread that was new before may map the rest only now. Adjacent stacks are
            // one mapping.
            self.mappings.saturating_sub(before.mappings + self.kernel_threads * 6),
        )
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| bytes >> 20;
        write!(
            f,
            "{} MiB resident, {} MiB page tables, {} MiB mapped by {} mappings, {} kernel threads",
            mib(self.resident),
            mib(self.page_tables),
            mib(self.mapped),
            self.mappings,
            self.kernel_threads
        )
    }
}

#[test]
fn a_million_threads_block_at_once_and_give_everything_back() {
    with_settings(&[2], ONE_ARENA, || {
        let count = setting("UNDERPASS_TEST_BLOCKED", if long() { 50_000 } else { 20_000 });
        let before = Usage::now();
        let blocked = Arc::new(AtomicU64::new(0));
        let released = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let (blocked, released) = (blocked.clone(), released.clone());
                spawn(move || {
                    blocked.fetch_add(1, Ordering::Relaxed);
                    while !released.load(Ordering::Acquire) {
                        park();
                    }
                    number
                })
            })
            .collect();
        // Bounded by the watchdog, here and below.
        while blocked.load(Ordering::Relaxed) < count {
            std::thread::yield_now();
        }
        let during = Usage::now();
        let each = during.resident.saturating_sub(before.resident) / count;
        println!("{count} threads blocked: {during}; {each} bytes resident for each");
        assert!(each < BYTES_A_THREAD, "{each} bytes for each thread");
        released.store(true, Ordering::Release);
        threads.iter().for_each(|thread| thread.thread().unpark());
        let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, count * (count - 1) / 2);
        let after = Usage::now();
        println!("all released: {after}");
        let kept = after.grown(&before).0.saturating_sub(2 * count * BLOCK) / STACK;
        let most = KEPT.0 + KEPT.1 * after.kernel_threads;
        assert!(count < 2 * most || kept <= most + 16, "room for {kept} stacks is kept, {most} may be");
    });
}

/// What a run of threads one after another has used.
struct Sequence {
    /// The place of each thread's control block, from its number.
    highest: u64,
}

impl Sequence {
    fn run(&mut self, count: u64) {
        for number in 0..count {
            let thread = spawn(move || number);
            self.highest = self.highest.max(thread.thread().id().as_u64() & u64::from(u32::MAX));
            assert_eq!(thread.join().unwrap(), number);
        }
    }
}

/// Runs a tenth as a warm-up, then the rest, which must need nothing more.
fn leaks_nothing(kind: &str, count: u64) {
    let mut sequence = Sequence { highest: 0 };
    sequence.run(count / 10);
    let (before, blocks) = (Usage::now(), sequence.highest);
    sequence.run(count - count / 10);
    let after = Usage::now();
    println!(
        "{count} threads in sequence, by {kind}: {before}, {blocks} blocks, then {after}, {}",
        sequence.highest
    );
    assert!(after.resident <= before.resident + (2 << 20), "resident grew:\n{before}\n{after}");
    let (bytes, mappings) = after.grown(&before);
    assert!(bytes <= 4 << 20 && mappings <= 4, "mappings grew:\n{before}\n{after}");
    assert!(sequence.highest <= blocks + 64, "control blocks grew from {blocks} to {}", sequence.highest);
}

#[test]
fn ten_million_threads_one_after_another_leak_nothing() {
    with_settings(&[1, 2], ONE_ARENA, || {
        let count = setting("UNDERPASS_TEST_SEQUENCE", 200_000);
        spawn(move || leaks_nothing("a user-level thread", count)).join().unwrap();
        leaks_nothing("a kernel thread", count / 20);
    });
}

#[test]
fn detached_threads_and_names_leak_nothing() {
    with_settings(&[2], ONE_ARENA, || {
        let flood = |rounds: u32| {
            for round in 0..rounds {
                for _ in 0..100 {
                    let builder = Builder::new().name(format!("one of many in round {round}"));
                    drop(builder.spawn(|| vec![0u8; 100]).unwrap());
                }
                // All have ended before the next hundred begin.
                let last: Vec<_> = (0..4).map(|_| spawn(yield_now)).collect();
                last.into_iter().for_each(|thread| thread.join().unwrap());
                yield_now();
            }
            Usage::now()
        };
        spawn(move || {
            let before = flood(50);
            let after = flood(500);
            println!("detached: {before}, then {after}");
            assert!(after.resident <= before.resident + (4 << 20), "resident grew:\n{before}\n{after}");
        })
        .join()
        .unwrap();
    });
}

/// Uses `bytes` of the stack, and more for each frame. Meets the others at the bottom.
fn deep(bytes: usize, meeting: &Barrier) -> u64 {
    let mut page = [0u8; 4096];
    std::hint::black_box(&mut page)[0] = bytes as u8;
    let below = if bytes > page.len() {
        deep(bytes - page.len(), meeting)
    } else {
        meeting.wait();
        0
    };
    below + u64::from(std::hint::black_box(&page)[0] == bytes as u8)
}

/// Bytes of memory that the kernel may take when it is short.
fn lent() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("/proc is mounted");
    let line = rollup.lines().find_map(|line| line.strip_prefix("LazyFree:")).expect("the kernel says it");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn stacks_that_are_kept_are_the_kernel_s_to_take_and_can_be_given_back_at_once() {
    with_settings(&[1], ONE_ARENA, || {
        const THREADS: u64 = 800;
        const DEEP: usize = 64 << 10;
        let before = Usage::now();
        // More than once: stacks that are taken again work again, and are lent again.
        for _ in 0..3 {
            let meeting = Arc::new(Barrier::new(THREADS as usize));
            let begin = |_| {
                let meeting = meeting.clone();
                spawn(move || deep(DEEP, &meeting))
            };
            let threads: Vec<_> = (0..THREADS).map(begin).collect();
            assert!(threads.into_iter().all(|thread| thread.join().unwrap() == DEEP as u64 / 4096));
        }
        let (kept, lent) = (Usage::now(), lent());
        println!("after {THREADS} deep threads: {kept}, {} MiB of it lent", lent >> 20);
        let stacks = kept.resident.saturating_sub(before.resident);
        assert!(stacks > THREADS * DEEP as u64, "all are kept: {before}, then {kept}");
        // The warm ones keep their memory, each keeps the page that it needs, and the kernel counts
        // a page only when it scans it.
        assert!(lent > stacks / 2, "{lent} of {stacks} bytes lent");
        trim();
        // Each activation trims when it next runs its scheduler. The watchdog bounds the wait.
        while Usage::now().resident > before.resident + stacks / 10 {
            spawn(yield_now).join().unwrap();
        }
        println!("trimmed: {}", Usage::now());
    });
}

#[test]
fn stacks_of_unusual_sizes_are_unmapped() {
    with_settings(&[1], ONE_ARENA, || {
        let run = |count: u32| {
            for number in 0..count {
                let stack = [64, 128, 512, 1024, 2048][number as usize % 5] << 10;
                Builder::new().stack_size(stack).spawn(yield_now).unwrap().join().unwrap();
            }
            Usage::now()
        };
        let before = run(60);
        let after = run(600);
        println!("stacks of many sizes: {before}, then {after}");
        let (bytes, _) = after.grown(&before);
        assert!(bytes <= 4 << 20, "mapped grew:\n{before}\n{after}");
    });
}

/// Threads that run where there is room for only a few of their stacks.
fn run_where_there_is_little_room() {
    let _dog = watchdog();
    let threads: Vec<_> = (0..3000u64)
        .map(|number| {
            spawn(move || {
                yield_now();
                sleep(std::time::Duration::from_micros(number % 100));
                number
            })
        })
        .collect();
    assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>(), 2999 * 1500);
}

#[test]
fn without_room_for_more_stacks_threads_wait_for_those_that_end() {
    const INSIDE: &str = "UNDERPASS_TEST_LITTLE_ROOM";
    if std::env::var_os(INSIDE).is_some() {
        return run_where_there_is_little_room();
    }
    // 400 MiB of addresses, of which kernel threads and the allocator take a part: room for at most
    // a thousand stacks.
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 409600 && exec \"$0\" --exact --nocapture --test-threads=1 \"$1\""])
        .arg(std::env::current_exe().expect("a test has a file"))
        .arg(test_name())
        .env(INSIDE, "1")
        .env("UNDERPASS_PROCESSORS", "2")
        // Without it each kernel thread's arena takes 64 MiB of addresses.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
}
