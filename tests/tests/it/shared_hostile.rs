//! A member that writes anything anywhere into a region. The others do not crash, do not read
//! elsewhere, and are not held beyond a deadline.

use std::time::Duration;
use underpass::shared::{LockError, Region};
use underpass::thread;
use underpass_tests::{Commons, MemberProcess, Room, Watchdog, long};

const MEMBER: &str = env!("CARGO_BIN_EXE_underpass-test-shared");
/// So long each operation may wait.
const SHORT: Duration = Duration::from_millis(1);

/// Each operation once, with a deadline. Whatever its result is, it ends.
fn use_all(commons: &Region<Commons>) {
    match commons.pair.lock_for(SHORT) {
        Ok(mut pair) => drop(pair.update(|pair| pair.a = pair.a.wrapping_add(1))),
        Err(LockError::OwnerDied(broken)) => drop(broken.repaired()),
        Err(LockError::Failed(_)) => {}
    }
    let turn = match commons.turn.lock_for(SHORT) {
        Ok(turn) => Some(turn),
        Err(LockError::OwnerDied(broken)) => Some(broken.repaired()),
        Err(LockError::Failed(_)) => None,
    };
    if let Some(turn) = turn {
        drop(commons.changed.wait_for(turn, SHORT));
    }
    commons.changed.notify_one();
    commons.changed.notify_all();
    drop(commons.permits.try_acquire());
    drop(commons.permits.acquire_for(SHORT));
    let _ = commons.permits.available();
    let _ = commons.barrier.wait_for(SHORT);
    drop(commons.table.read_for(SHORT));
    match commons.table.write_for(SHORT) {
        Ok(mut table) => table.set([1; 8]),
        Err(LockError::OwnerDied(broken)) => broken.leave(),
        Err(LockError::Failed(_)) => {}
    }
}

#[test]
fn a_member_that_writes_anything_harms_nobody_but_the_data() {
    let _watchdog = Watchdog::within(
        "a_member_that_writes_anything_harms_nobody_but_the_data",
        Duration::from_secs(if long() { 3_600 } else { 120 }),
    );
    let (rounds, times) = if long() { (200, "1000000") } else { (4, "20000") };
    for round in 0..rounds {
        let name = Room::name(&format!("shared-hostile-{round}"));
        Room::directory();
        let commons = Region::<Commons>::export(&name, |commons| commons.permits.add_permits(2)).unwrap();
        let honest = Region::<Commons>::import(&name).unwrap();
        let seed = round.to_string();
        let mut hostile = MemberProcess::start(MEMBER, &[&name, "spoil", &seed, times]);
        hostile.says("spoils");
        let users: Vec<_> = [commons.clone(), honest.clone()]
            .into_iter()
            .flat_map(|of| [of.clone(), of])
            .map(|of| thread::spawn(move || (0..50).for_each(|_| use_all(&of))))
            .collect();
        users.into_iter().for_each(|user| user.join().unwrap());
        hostile.says("has spoilt");
        hostile.kill();
        // After its death as well: its page says anything.
        use_all(&commons);
        use_all(&honest);
        let other = Region::<Commons>::import(&name).unwrap();
        use_all(&other);
    }
}
