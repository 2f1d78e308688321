//! What a dump reports of threads in each state. It can be taken at any time.

use crate::common::{long, watchdog, with_processors};
use crate::held::Lock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use underpass_harness::alone;
use underpass_threads::{Builder, Dump, State, ThreadReport, blocking, dump, park, spawn, yield_now};

/// Takes dumps until the thread of that name is in the expected state.
#[track_caller]
fn until(name: &str, is: impl Fn(&ThreadReport) -> bool) -> (Dump, ThreadReport) {
    loop {
        let dump = dump();
        if let Some(found) =
            dump.threads.iter().find(|thread| thread.name.as_deref() == Some(name) && is(thread))
        {
            let found = found.clone();
            return (dump, found);
        }
    }
}

#[inline(never)]
fn waits_right_here() {
    park();
    std::hint::black_box(());
}

#[test]
fn a_blocked_thread_is_named_with_what_it_waits_for_and_where_it_is() {
    alone!();
    let _watchdog = watchdog();
    let thread = Builder::new().name("parked").stack_size(16 * 1024).spawn(waits_right_here).unwrap();
    let unparks = thread.thread().clone();
    let joiner = Builder::new().name("joiner").spawn(move || thread.join().unwrap()).unwrap();
    let (dump, parked) = until("parked", |thread| thread.state == State::Blocked);
    assert_eq!(parked.awaited.unwrap().kind, "unpark");
    assert!(parked.activation.is_some() && parked.kernel.is_none());
    let trace = parked.trace.to_string();
    assert!(trace.lines().nth(1).unwrap().contains("handle.rs:"), "it begins where it parks: {trace}");
    assert!(trace.contains("waits_right_here") && trace.contains("dump.rs:"), "{trace}");
    assert!(!trace.contains("underpass-context") && !trace.contains("carry"), "{trace}");
    assert!(dump.to_string().contains("'parked'"));
    let (dump, waits) = until("joiner", |thread| thread.state == State::Blocked);
    assert_eq!(waits.holder_name.as_deref(), Some("parked"));
    let line = waits.to_string();
    assert!(line.contains("waits for the end of thread 'parked' ("), "{line}");
    assert!(dump.deadlocks.is_empty());
    unparks.unpark();
    joiner.join().unwrap();
}

#[test]
fn threads_in_all_other_states_are_told_apart() {
    alone!();
    let _watchdog = watchdog();
    let go_on = Arc::new(AtomicBool::new(true));
    let computes = {
        let go_on = go_on.clone();
        let body = move || while go_on.load(Ordering::Relaxed) {};
        Builder::new().name("computes").dedicated().spawn(body).unwrap()
    };
    // The first dump may have come just before it began.
    let unresponsive = loop {
        let (dump, thread) = until("computes", |thread| thread.state == State::Running);
        if dump.unresponsive.contains(&thread.activation.unwrap()) && !thread.trace.is_empty() {
            let trace = thread.trace.to_string();
            assert!(trace.contains("tests/it/dump.rs:"), "{trace}");
            break dump;
        }
    };
    assert!(unresponsive.to_string().contains("does not answer"));
    go_on.store(false, Ordering::Relaxed);
    computes.join().unwrap();

    let (end, ended) = mpsc::channel::<()>();
    let body = move || blocking(move || ended.recv().unwrap_err());
    let calls = Builder::new().name("calls").dedicated().spawn(body).unwrap();
    until("calls", |thread| {
        thread.state == State::InCall
            || thread.awaited.is_some_and(|awaited| awaited.kind == "a blocking call")
    });
    drop(end);
    calls.join().unwrap();

    let over = Builder::new().name("over").spawn(|| ()).unwrap();
    until("over", |thread| thread.state == State::Ended);
    over.join().unwrap();

    let joined = spawn(park);
    let unparks = joined.thread().clone();
    let kernel =
        std::thread::Builder::new().name("kernel".into()).spawn(move || joined.join().unwrap()).unwrap();
    let (_, waits) = until("kernel", |thread| thread.state == State::Blocked);
    assert!(waits.kernel.is_some() && waits.activation.is_none());
    assert_eq!(waits.awaited.unwrap().holder, Some(unparks.id().as_u64()));
    unparks.unpark();
    kernel.join().unwrap();
}

#[test]
fn the_thread_that_dumps_is_running() {
    alone!();
    let _watchdog = watchdog();
    let body = || {
        let dump = dump();
        dump.threads.into_iter().find(|thread| thread.name.as_deref() == Some("dumper")).unwrap()
    };
    let of_user = Builder::new().name("dumper").spawn(body).unwrap().join().unwrap();
    let of_kernel = std::thread::Builder::new().name("dumper".into()).spawn(body).unwrap().join().unwrap();
    for thread in [&of_user, &of_kernel] {
        assert_eq!((thread.state, thread.awaited), (State::Running, None));
        let trace = thread.trace.to_string();
        assert!(trace.contains("tests/it/dump.rs:"), "{trace}");
    }
    assert!(of_user.kernel.is_none() && of_kernel.kernel.is_some());
}

#[test]
fn a_lock_s_holder_is_named() {
    alone!();
    let _watchdog = watchdog();
    let lock = Arc::new(Lock::default());
    let (inside, outside) = (lock.clone(), lock.clone());
    let holder = Builder::new().name("holder").spawn(move || {
        inside.lock();
        park();
        inside.unlock();
    });
    let holder = holder.unwrap();
    until("holder", |thread| thread.state == State::Blocked);
    let waiter = Builder::new().name("lock waiter").spawn(move || {
        outside.lock();
        outside.unlock();
    });
    let (_, waits) = until("lock waiter", |thread| thread.state == State::Blocked);
    let line = waits.to_string();
    let at = format!("waits for a test's lock at {:#x} held by 'holder' (", Arc::as_ptr(&lock).addr());
    assert!(line.contains(&at), "{line}");
    holder.thread().unpark();
    holder.join().unwrap();
    waiter.unwrap().join().unwrap();
}

#[test]
fn dumps_are_taken_while_threads_come_and_go() {
    alone!();
    let _watchdog = watchdog();
    let over = Arc::new(AtomicBool::new(false));
    let ran = Arc::new(AtomicU32::new(0));
    let makers: Vec<_> = (0..4)
        .map(|maker| {
            let (over, ran) = (over.clone(), ran.clone());
            spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let threads: Vec<_> = (0..20u32)
                        .map(|i| {
                            let ran = ran.clone();
                            let body = move || {
                                if (i + maker) % 3 == 0 {
                                    yield_now();
                                }
                                ran.fetch_add(1, Ordering::Relaxed);
                            };
                            let builder = Builder::new().name(format!("brief {i}"));
                            // SAFETY: it holds nothing that belongs to a kernel thread across its
                            // yield.
                            let builder = if i % 4 == 0 { unsafe { builder.migrating() } } else { builder };
                            builder.spawn(body).unwrap()
                        })
                        .collect();
                    let detached = threads.len() / 2;
                    for (place, thread) in threads.into_iter().enumerate() {
                        if place >= detached {
                            thread.join().unwrap();
                        }
                    }
                }
            })
        })
        .collect();
    let dumpers: Vec<_> =
        (0..2).map(|_| spawn(|| (0..50).map(|_| dump().threads.len()).max().unwrap())).collect();
    for _ in 0..50 {
        let dump = dump();
        assert!(dump.deadlocks.is_empty(), "{dump}");
        for thread in &dump.threads {
            assert!(thread.name.as_deref().is_none_or(|name| !name.is_empty()));
        }
    }
    assert!(dumpers.into_iter().all(|dumper| dumper.join().unwrap() > 4));
    over.store(true, Ordering::Relaxed);
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    assert!(ran.load(Ordering::Relaxed) > 0);
}

#[test]
fn dumps_are_taken_while_threads_compute_allocate_and_unwind() {
    // By itself: it leaves other tests no processor.
    with_processors(&[4], hogs);
}

fn hogs() {
    let over = Arc::new(AtomicBool::new(false));
    let hog = |name: &str, work: fn()| {
        let over = over.clone();
        let body = move || {
            while !over.load(Ordering::Relaxed) {
                work();
                // A thread that is interrupted in the unwinder mostly has no trace. Here it has.
                (0..100).for_each(|_| std::hint::spin_loop());
            }
        };
        Builder::new().name(name).dedicated().spawn(body).unwrap()
    };
    let hogs = [
        hog("allocating hog", || {
            let many: Vec<Vec<u64>> = (0..100).map(|i| vec![i; i as usize]).collect();
            std::hint::black_box(many);
        }),
        hog("unwinding hog", || {
            let unwound = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(7)));
            assert!(unwound.is_err());
        }),
        hog("looking hog", || {
            drop(std::hint::black_box(std::backtrace::Backtrace::force_capture()));
        }),
    ];
    // Activations on which a thread computes longer than a dump waits don't answer, and are
    // interrupted wherever they are.
    let names = ["allocating hog", "unwinding hog", "looking hog"];
    let (least, mut dumps, mut seen) = (if long() { 300 } else { 30 }, 0, [0; 3]);
    while dumps < least || seen.iter().any(|&times| times < 3) {
        let dump = dump();
        dumps += u32::from(dump.threads.iter().all(|thread| thread.state != State::Unstarted));
        for (name, seen) in names.iter().zip(&mut seen) {
            let thread = dump.threads.iter().find(|thread| thread.name.as_deref() == Some(name)).unwrap();
            *seen += u32::from(thread.trace.to_string().contains("tests/it/dump.rs:"));
        }
    }
    over.store(true, Ordering::Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
}
