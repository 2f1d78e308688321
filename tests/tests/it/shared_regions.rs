//! Objects of regions, used by threads of one domain and of several.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use underpass::shared::{LockError, Mutex, Notified, Region, RegionError, RegionExport, SyncError};
use underpass::thread;
use underpass_tests::{Commons, MemberProcess, Pair, Room, Watchdog, cont, repair, stop};

const MEMBER: &str = env!("CARGO_BIN_EXE_underpass-test-shared");
/// A time that passes at once.
const SHORT: Duration = Duration::from_millis(1);

fn export(of: &str) -> (String, Region<Commons>) {
    let name = Room::name(of);
    Room::directory();
    let region = Region::<Commons>::export(&name, |commons| commons.permits.add_permits(2)).unwrap();
    (name, region)
}

fn count_up(commons: &Region<Commons>) {
    let mut pair = repair(commons.pair.lock()).unwrap();
    pair.update(|pair| pair.a += 1).unwrap();
    pair.update(|pair| pair.b += 1).unwrap();
}

/// Runs a future on this kernel thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn threads_of_two_domains_count_together() {
    let _watchdog = Watchdog::new("threads_of_two_domains_count_together");
    let (name, commons) = export("shared-count");
    let others = [
        MemberProcess::start(MEMBER, &[&name, "count", "500", "3"]),
        MemberProcess::start(MEMBER, &[&name, "count", "500", "3"]),
    ];
    let work = || {
        let commons = commons.clone();
        move || (0..500).for_each(|_| count_up(&commons))
    };
    let user: Vec<_> = (0..3).map(|_| thread::spawn(work())).collect();
    let kernel: Vec<_> = (0..2).map(|_| std::thread::spawn(work())).collect();
    let task = {
        let commons = commons.clone();
        std::thread::spawn(move || {
            block_on(async {
                for _ in 0..500 {
                    let mut pair = repair(commons.pair.lock_async().await).unwrap();
                    pair.update(|pair| *pair = Pair { a: pair.a + 1, b: pair.b + 1 }).unwrap();
                }
            });
        })
    };
    user.into_iter().for_each(|thread| thread.join().unwrap());
    kernel.into_iter().for_each(|thread| thread.join().unwrap());
    task.join().unwrap();
    others.into_iter().for_each(MemberProcess::ends);
    let all = (3 + 2 + 1 + 2 * 6) * 500;
    assert_eq!(repair(commons.pair.lock()).unwrap().get(), Ok(Pair { a: all, b: all }));
}

#[test]
fn more_threads_than_waiters_count_together() {
    let _watchdog = Watchdog::new("more_threads_than_waiters_count_together");
    let (_, commons) = export("shared-many");
    let held = repair(commons.pair.lock()).unwrap();
    let threads: Vec<_> = (0..200)
        .map(|_| {
            let commons = commons.clone();
            thread::spawn(move || count_up(&commons))
        })
        .collect();
    drop(held);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(repair(commons.pair.lock()).unwrap().get(), Ok(Pair { a: 200, b: 200 }));
}

#[test]
fn two_domains_take_turns() {
    let _watchdog = Watchdog::new("two_domains_take_turns");
    const TURNS: u64 = 300;
    let (name, commons) = export("shared-turns");
    let other = MemberProcess::start(MEMBER, &[&name, "answer", &TURNS.to_string()]);
    let ask = {
        let commons = commons.clone();
        move || {
            for _ in 0..TURNS {
                let mut turn = commons.turn.lock().unwrap();
                turn.update(|turn| *turn += 1).unwrap();
                commons.changed.notify_all();
                drop(commons.changed.wait_while(turn, |turn| !turn.is_multiple_of(2)).unwrap());
            }
        }
    };
    thread::spawn(ask).join().unwrap();
    other.ends();
    assert_eq!(commons.turn.lock().unwrap().get(), Ok(2 * TURNS));
}

#[test]
fn a_task_waits_for_another_domain() {
    let _watchdog = Watchdog::new("a_task_waits_for_another_domain");
    const TURNS: u64 = 100;
    let (name, commons) = export("shared-task");
    let other = MemberProcess::start(MEMBER, &[&name, "answer", &TURNS.to_string()]);
    block_on(async {
        for _ in 0..TURNS {
            let mut turn = commons.turn.lock_async().await.unwrap();
            turn.update(|turn| *turn += 1).unwrap();
            commons.changed.notify_all();
            while !turn.get().unwrap().is_multiple_of(2) {
                turn = commons.changed.wait_async(turn).await.unwrap();
            }
        }
    });
    other.ends();
}

#[test]
fn permits_are_shared_by_two_domains() {
    let _watchdog = Watchdog::new("permits_are_shared_by_two_domains");
    let (name, commons) = export("shared-permits");
    let mut other = MemberProcess::start(MEMBER, &[&name, "permits", "2"]);
    other.says("holds");
    assert_eq!(commons.permits.try_acquire().map(drop), Err(SyncError::WouldBlock));
    assert_eq!(commons.permits.acquire_for(SHORT).map(drop), Err(SyncError::TimedOut));
    let waits = [commons.clone(), commons.clone()]
        .map(|commons| thread::spawn(move || commons.permits.acquire().map(std::mem::forget)));
    let task = commons.clone();
    commons.permits.add_permits(1);
    let task = std::thread::spawn(move || block_on(task.permits.acquire_async()).map(drop));
    other.go_on();
    waits.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    task.join().unwrap().unwrap();
    other.ends();
    assert_eq!(commons.permits.available(), 1);
}

#[test]
fn two_domains_meet() {
    let _watchdog = Watchdog::new("two_domains_meet");
    let (name, commons) = export("shared-barrier");
    assert_eq!(commons.barrier.wait_for(SHORT), Err(SyncError::TimedOut));
    let other = MemberProcess::start(MEMBER, &[&name, "meet", "300"]);
    (0..300).for_each(|_| assert!(commons.barrier.wait().is_ok()));
    other.ends();
}

#[test]
fn readers_share_and_writers_do_not() {
    let _watchdog = Watchdog::new("readers_share_and_writers_do_not");
    let (name, commons) = export("shared-table");
    let mut reader = MemberProcess::start(MEMBER, &[&name, "read"]);
    reader.says("reads");
    assert_eq!(commons.table.read().unwrap().get(), Ok([0; 8]));
    let late = commons.table.write_for(SHORT).err().and_then(|e| e.failure());
    assert_eq!(late, Some(SyncError::TimedOut));
    let writes = commons.clone();
    let writes = thread::spawn(move || writes.table.write().unwrap().set([7; 8]));
    reader.go_on();
    writes.join().unwrap();
    reader.ends();
    let mut writer = MemberProcess::start(MEMBER, &[&name, "write"]);
    writer.says("writes");
    assert_eq!(commons.table.read_for(SHORT).err(), Some(SyncError::TimedOut));
    let reads = commons.clone();
    let reads = thread::spawn(move || reads.table.read().unwrap().get());
    writer.go_on();
    assert_eq!(reads.join().unwrap(), Ok([7; 8]));
    writer.ends();
}

#[test]
fn tasks_meet_read_and_write() {
    let _watchdog = Watchdog::new("tasks_meet_read_and_write");
    let (name, commons) = export("shared-tasks");
    let mut context = Context::from_waker(Waker::noop());
    // A future that is dropped has not arrived.
    assert!(pin!(commons.barrier.wait_async()).poll(&mut context).is_pending());
    let other = MemberProcess::start(MEMBER, &[&name, "meet", "100"]);
    block_on(async {
        for _ in 0..100 {
            commons.barrier.wait_async().await.unwrap();
        }
    });
    other.ends();
    let mut reader = MemberProcess::start(MEMBER, &[&name, "read"]);
    reader.says("reads");
    // A writer that gives up leaves the lock to readers.
    assert!(pin!(commons.table.write_async()).poll(&mut context).is_pending());
    assert_eq!(block_on(commons.table.read_async()).unwrap().get(), Ok([0; 8]));
    let theirs = commons.clone();
    let writes = std::thread::spawn(move || {
        block_on(async { theirs.table.write_async().await.unwrap().set([9; 8]) });
    });
    reader.go_on();
    writes.join().unwrap();
    assert_eq!(block_on(commons.table.read_async()).unwrap().get(), Ok([9; 8]));
    reader.ends();
}

#[test]
fn a_stopped_owner_delays_nobody_beyond_a_deadline() {
    let _watchdog = Watchdog::new("a_stopped_owner_delays_nobody_beyond_a_deadline");
    let (name, commons) = export("shared-stopped");
    let mut owner = MemberProcess::start(MEMBER, &[&name, "hold"]);
    owner.says("holds");
    stop(owner.pid());
    for lock in [|| SHORT, || Duration::ZERO] {
        assert_eq!(repair(commons.pair.lock_for(lock())).err(), Some(SyncError::TimedOut));
    }
    let theirs = commons.clone();
    let waits = thread::spawn(move || repair(theirs.pair.lock_for(SHORT)).err());
    assert_eq!(waits.join().unwrap(), Some(SyncError::TimedOut));
    assert_eq!(repair(commons.pair.try_lock()).err(), Some(SyncError::WouldBlock));
    cont(owner.pid());
    owner.go_on();
    count_up(&commons);
    owner.ends();
}

#[test]
fn a_stopped_waiter_delays_nobody_beyond_a_deadline() {
    let _watchdog = Watchdog::new("a_stopped_waiter_delays_nobody_beyond_a_deadline");
    let (name, commons) = export("shared-stopped-waiter");
    for _ in 0..20 {
        let held = repair(commons.pair.lock()).unwrap();
        let mut waiter = MemberProcess::start(MEMBER, &[&name, "wait"]);
        waiter.says("waits");
        stop(waiter.pid());
        drop(held);
        // The lock is free, or the stopped process has it.
        let locked = repair(commons.pair.lock_for(SHORT)).map(drop);
        assert!(matches!(locked, Ok(()) | Err(SyncError::TimedOut)), "{locked:?}");
        cont(waiter.pid());
        waiter.says("holds");
        waiter.ends();
    }
}

#[test]
fn another_thread_runs_on_the_processor_of_one_that_waits() {
    let _watchdog = Watchdog::new("another_thread_runs_on_the_processor_of_one_that_waits");
    let name = Room::name("shared-alone");
    let mut alone = MemberProcess::start_with(MEMBER, &[&name, "alone"], |command| {
        command.env("UNDERPASS_PROCESSORS", "1");
    });
    alone.says("both ran");
    alone.ends();
}

#[test]
fn two_domains_on_one_cpu_take_turns() {
    let _watchdog = Watchdog::new("two_domains_on_one_cpu_take_turns");
    let name = Room::name("shared-one-cpu");
    let cpu = underpass_os::cpu::allowed().unwrap()[0].to_string();
    let on_it = |arguments: &[&str]| {
        MemberProcess::start_with(MEMBER, arguments, |command| {
            command.env("UNDERPASS_TEST_CPU", &cpu);
        })
    };
    let mut exporter = on_it(&[&name, "export"]);
    exporter.says("exported");
    let members = [on_it(&[&name, "count", "300", "4"]), on_it(&[&name, "count", "300", "4"])];
    let meet = [on_it(&[&name, "meet", "100"]), on_it(&[&name, "meet", "100"])];
    members.into_iter().chain(meet).for_each(MemberProcess::ends);
    let commons = Region::<Commons>::import(&name).unwrap();
    assert_eq!(repair(commons.pair.lock()).unwrap().get(), Ok(Pair { a: 4_800, b: 4_800 }));
    drop(commons);
    exporter.ends();
}

#[test]
fn waits_end_at_their_deadlines() {
    let _watchdog = Watchdog::new("waits_end_at_their_deadlines");
    let (_, commons) = export("shared-deadlines");
    let turn = commons.turn.lock().unwrap();
    let (turn, ended) = commons.changed.wait_for(turn, SHORT).unwrap();
    assert_eq!(ended, Notified::Late);
    let theirs = commons.clone();
    let holds = thread::spawn(move || theirs.turn.lock_for(SHORT).err().and_then(|e| e.failure()));
    assert_eq!(holds.join().unwrap(), Some(SyncError::TimedOut));
    drop(turn);
    // A future that is dropped gives up, and its wake-up goes to the next.
    let held = commons.turn.lock().unwrap();
    let mut first = Box::pin(commons.turn.lock_async());
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    let theirs = commons.clone();
    let next = thread::spawn(move || theirs.turn.lock().unwrap().set(1));
    drop(held);
    drop(first);
    next.join().unwrap();
}

#[test]
fn a_cancelled_thread_waits_no_more() {
    let _watchdog = Watchdog::new("a_cancelled_thread_waits_no_more");
    let (_, commons) = export("shared-cancelled");
    let theirs = commons.clone();
    let waits = thread::spawn(move || {
        let permits = [theirs.permits.acquire().unwrap(), theirs.permits.acquire().unwrap()];
        let ended = theirs.permits.acquire().map(drop);
        drop(permits);
        ended
    });
    waits.cancel();
    assert_eq!(waits.join().unwrap(), Err(SyncError::Cancelled));
    assert_eq!(commons.permits.available(), 2);
}

#[test]
fn only_who_is_authorized_imports() {
    let _watchdog = Watchdog::new("only_who_is_authorized_imports");
    let name = Room::name("shared-denied");
    Room::directory();
    let region = RegionExport::new()
        .authorize(|_| underpass::Grant::deny("nobody may"))
        .start::<Mutex<u64>>(&name, |hits| hits.lock().unwrap().set(5))
        .unwrap();
    assert_eq!(region.lock().unwrap().get(), Ok(5));
    let mut refused = MemberProcess::start(MEMBER, &[&name, "count", "1", "1"]);
    assert_eq!(refused.line(), "");
    refused.is_gone();
    assert_eq!(region.bindings().unwrap().list().len(), 0);
    // The same domain is not asked. Its type must be the same.
    assert!(matches!(Region::<Mutex<u32>>::import(&name), Err(RegionError::OtherType)));
    let again = Region::<Mutex<u64>>::import(&name).unwrap();
    again.lock().unwrap().set(6);
    assert_eq!(region.lock().unwrap().get(), Ok(6));
}

#[test]
fn bytes_that_are_no_value_are_an_error() {
    let _watchdog = Watchdog::new("bytes_that_are_no_value_are_an_error");
    let name = Room::name("shared-invalid");
    Room::directory();
    #[derive(Clone, Copy, Debug, PartialEq, underpass::Shareable)]
    #[repr(u8)]
    enum Side {
        Buy = 3,
        Sell = 4,
    }
    let region = Region::<Mutex<[Side; 2]>>::export(&name, |_| ()).unwrap();
    let mut side = region.lock().unwrap();
    assert_eq!(side.get(), Err(SyncError::Invalid));
    side.set([Side::Buy, Side::Sell]);
    assert_eq!(side.get(), Ok([Side::Buy, Side::Sell]));
}

#[test]
fn a_panic_leaves_the_data_to_be_repaired() {
    let _watchdog = Watchdog::new("a_panic_leaves_the_data_to_be_repaired");
    let (name, commons) = export("shared-panic");
    let mut other = MemberProcess::start(MEMBER, &[&name, "panic"]);
    other.says("holds");
    other.says("has panicked");
    match commons.pair.lock() {
        Err(LockError::OwnerDied(broken)) => {
            assert_eq!(broken.get(), Ok(Pair { a: 1, b: 0 }));
            broken.leave();
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(repair(commons.pair.lock()).unwrap().get(), Ok(Pair { a: 1, b: 1 }));
    assert!(commons.pair.lock().is_ok(), "it was repaired");
    other.ends();
}
