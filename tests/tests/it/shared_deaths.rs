//! Members of regions that die, and what becomes of what they held.

use std::time::Duration;
use underpass::shared::{LockError, Region, RegionError, SyncError};
use underpass::thread;
use underpass_tests::{Commons, MemberProcess, Numbers, Pair, Room, Watchdog, long, repair, until};

const MEMBER: &str = env!("CARGO_BIN_EXE_underpass-test-shared");
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(1);

fn export(of: &str) -> (String, Region<Commons>) {
    let name = Room::name(of);
    Room::directory();
    let region = Region::<Commons>::export(&name, |commons| commons.permits.add_permits(2)).unwrap();
    (name, region)
}

/// How far the pair is counted up.
fn counted(commons: &Region<Commons>) -> u64 {
    repair(commons.pair.lock_for(LONG)).unwrap().get().unwrap().a
}

fn holder(name: &str) -> MemberProcess {
    let mut holder = MemberProcess::start(MEMBER, &[name, "hold"]);
    holder.says("holds");
    holder
}

#[test]
fn the_next_owner_gets_the_data_to_repair() {
    let _watchdog = Watchdog::new("the_next_owner_gets_the_data_to_repair");
    let (name, commons) = export("shared-owner");
    let mut dying = holder(&name);
    let theirs = commons.clone();
    let waits = thread::spawn(move || match theirs.pair.lock() {
        Err(LockError::OwnerDied(mut broken)) => {
            let found = broken.get();
            broken.set(Pair { a: 5, b: 5 });
            drop(broken.repaired());
            found
        }
        other => panic!("{other:?}"),
    });
    dying.kill();
    assert_eq!(waits.join().unwrap(), Ok(Pair { a: 1, b: 0 }));
    assert_eq!(commons.pair.lock().unwrap().get(), Ok(Pair { a: 5, b: 5 }));
}

#[test]
fn the_next_owner_may_be_another_domain() {
    let _watchdog = Watchdog::new("the_next_owner_may_be_another_domain");
    let (name, commons) = export("shared-other-owner");
    let mut dying = holder(&name);
    let mut waits = MemberProcess::start(MEMBER, &[&name, "wait"]);
    waits.says("waits");
    dying.kill();
    waits.says("holds");
    assert_eq!(repair(commons.pair.lock_for(SHORT)).err(), Some(SyncError::TimedOut));
    waits.ends();
    assert_eq!(commons.pair.lock().unwrap().get(), Ok(Pair { a: 1, b: 1 }));
}

#[test]
fn data_that_nobody_repairs_are_given_up() {
    let _watchdog = Watchdog::new("data_that_nobody_repairs_are_given_up");
    let (name, commons) = export("shared-poison");
    let mut dying = holder(&name);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let theirs = commons.clone();
            thread::spawn(move || theirs.pair.lock().err().and_then(|e| e.failure()))
        })
        .collect();
    dying.kill();
    // One of the waiters gets the data, and drops them; the others are told.
    let told: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
    assert_eq!(told.iter().filter(|told| told.is_none()).count(), 1, "{told:?}");
    assert_eq!(told.iter().filter(|told| **told == Some(SyncError::Poisoned)).count(), 2, "{told:?}");
    assert_eq!(commons.pair.lock().err().and_then(|e| e.failure()), Some(SyncError::Poisoned));
}

#[test]
fn permits_readers_and_arrivals_of_the_dead_are_void() {
    let _watchdog = Watchdog::new("permits_readers_and_arrivals_of_the_dead_are_void");
    let (name, commons) = export("shared-void");
    let mut permits = MemberProcess::start(MEMBER, &[&name, "permits", "2"]);
    let mut reader = MemberProcess::start(MEMBER, &[&name, "read"]);
    permits.says("holds");
    reader.says("reads");
    let (gets, writes) = (commons.clone(), commons.clone());
    let gets = thread::spawn(move || gets.permits.acquire().map(drop));
    let writes = std::thread::spawn(move || writes.table.write().unwrap().set([3; 8]));
    permits.kill();
    reader.kill();
    assert_eq!(gets.join().unwrap(), Ok(()));
    writes.join().unwrap();
    assert_eq!(commons.table.read().unwrap().get(), Ok([3; 8]));
    assert_eq!(commons.permits.available(), 2);
}

#[test]
fn a_writer_that_dies_leaves_readers_an_error() {
    let _watchdog = Watchdog::new("a_writer_that_dies_leaves_readers_an_error");
    let (name, commons) = export("shared-writer");
    let mut writer = MemberProcess::start(MEMBER, &[&name, "write"]);
    writer.says("writes");
    let theirs = commons.clone();
    let reads = thread::spawn(move || theirs.table.read().map(drop));
    writer.kill();
    assert_eq!(reads.join().unwrap(), Err(SyncError::Broken));
    match commons.table.write() {
        Err(LockError::OwnerDied(mut broken)) => {
            broken.set([1; 8]);
            drop(broken.repaired());
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(commons.table.read().unwrap().get(), Ok([1; 8]));
}

#[test]
fn the_exporters_death_ends_all_waits() {
    let _watchdog = Watchdog::new("the_exporters_death_ends_all_waits");
    let name = Room::name("shared-exporter");
    let mut exporter = MemberProcess::start(MEMBER, &[&name, "export"]);
    exporter.says("exported");
    let commons = Region::<Commons>::import_within(&name, LONG).unwrap();
    let held = repair(commons.pair.lock()).unwrap();
    let waits = |work: fn(&Region<Commons>) -> SyncError| {
        let commons = commons.clone();
        thread::spawn(move || work(&commons))
    };
    let waiting = [
        waits(|commons| repair(commons.pair.lock()).unwrap_err()),
        waits(|commons| {
            loop {
                let turn = match commons.turn.lock() {
                    Ok(turn) => turn,
                    Err(e) => return e.failure().unwrap(),
                };
                if let Err(e) = commons.changed.wait(turn) {
                    return e.failure().unwrap();
                }
            }
        }),
        waits(|commons| {
            let _all = (commons.permits.acquire(), commons.permits.acquire());
            commons.permits.acquire().unwrap_err()
        }),
        waits(|commons| commons.barrier.wait().unwrap_err()),
    ];
    exporter.kill();
    for waited in waiting {
        assert_eq!(waited.join().unwrap(), SyncError::Ended);
    }
    assert!(commons.is_over());
    drop(held);
    assert_eq!(repair(commons.pair.lock()).err(), Some(SyncError::Ended));
    assert_eq!(commons.table.read().err(), Some(SyncError::Ended));
}

#[test]
fn a_closed_region_has_ended_for_its_members() {
    let _watchdog = Watchdog::new("a_closed_region_has_ended_for_its_members");
    let name = Room::name("shared-closed");
    let mut exporter = MemberProcess::start(MEMBER, &[&name, "export"]);
    exporter.says("exported");
    let commons = Region::<Commons>::import_within(&name, LONG).unwrap();
    exporter.ends();
    until("the end of the region", || commons.is_over().then_some(()));
    assert!(matches!(Region::<Commons>::import(&name), Err(RegionError::Import(_))));
}

#[test]
fn a_revoked_member_holds_nothing_any_more() {
    let _watchdog = Watchdog::new("a_revoked_member_holds_nothing_any_more");
    let (name, commons) = export("shared-revoked");
    let mut holder = holder(&name);
    commons.bindings().unwrap().revoke(|_| true);
    assert_eq!(repair(commons.pair.lock()).unwrap().get(), Ok(Pair { a: 1, b: 1 }));
    holder.go_on();
    holder.is_gone();
    assert!(commons.pair.lock().is_ok(), "the revoked member's release takes nobody's lock away");
}

#[test]
fn a_region_has_a_limit_and_places_are_used_again() {
    let _watchdog = Watchdog::new("a_region_has_a_limit_and_places_are_used_again");
    let (name, commons) = export("shared-places");
    let import = || Region::<Commons>::import(&name);
    // Places come free when the exporter has heard of the ends of bindings.
    let join = |_| until("a free place", || import().ok());
    for _ in 0..2 {
        let mut members: Vec<_> = (0..15).map(join).collect();
        assert!(matches!(import(), Err(RegionError::Full)));
        for member in &members {
            let mut pair = repair(member.pair.lock()).unwrap();
            pair.update(|pair| *pair = Pair { a: pair.a + 1, b: pair.b + 1 }).unwrap();
        }
        members.truncate(7);
        members.extend((0..8).map(join));
        assert!(matches!(import(), Err(RegionError::Full)));
    }
    assert_eq!(repair(commons.pair.lock()).unwrap().get(), Ok(Pair { a: 30, b: 30 }));
}

/// Members die, one after another, at a step that this chooses if the build has steps, else when
/// this test kills them.
#[test]
fn nobody_waits_for_the_dead() {
    let _watchdog =
        Watchdog::within("nobody_waits_for_the_dead", Duration::from_secs(if long() { 7_200 } else { 120 }));
    let rounds = if long() { 10_000 } else { 24 };
    let (name, commons) = export("shared-kills");
    let steps: Vec<_> =
        underpass_os::failpoint::STEPS.iter().copied().filter(|step| step.starts_with("shared-")).collect();
    let numbers = &mut Numbers::of(7);
    let mut survivor = MemberProcess::start(MEMBER, &[&name, "live", "1"]);
    survivor.says("lives");
    let mut at_step = 0;
    for round in 0..rounds {
        let step = format!("{}:{}", numbers.among(&steps), 1 + numbers.below(100));
        let seed = round.to_string();
        let mut doomed = MemberProcess::start_with(MEMBER, &[&name, "live", &seed], |command| {
            command.env("UNDERPASS_FAILPOINT", &step);
        });
        let lived = doomed.line();
        assert!(lived == "lives" || cfg!(underpass_failpoints), "{lived}");
        let before = counted(&commons);
        // It dies at its step, or after some more changes, in the middle of whatever it does then.
        let most = if cfg!(underpass_failpoints) { 20_000 } else { numbers.below(50) as u64 };
        until("its death", || (doomed.has_ended() || counted(&commons) >= before + most).then_some(()));
        at_step += usize::from(doomed.has_ended());
        doomed.kill();
        let next = counted(&commons);
        assert!(next >= before, "nothing that was counted is lost");
        until("the survivor to go on", || (counted(&commons) > next).then_some(()));
        let write = commons.table.write_for(LONG);
        match write {
            Ok(table) => drop(table),
            Err(LockError::OwnerDied(broken)) => drop(broken.repaired()),
            Err(LockError::Failed(why)) => panic!("{step}: {why}"),
        }
    }
    assert_eq!(at_step > 0, cfg!(underpass_failpoints), "{at_step} died at their steps");
}
