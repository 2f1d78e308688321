//! The words of a hybrid lock and a semaphore, and whatever a domain could write there. As long as
//! nobody has lied, one has the lock, the home comes first, and a death is told to the next owner.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use underpass_homed::fuzz::{FuzzLock, FuzzLook};

#[derive(Debug, Arbitrary)]
enum Step {
    /// The home, or one of three remotes, looks once.
    Look {
        who: u8,
    },
    /// The owner releases the lock.
    Release {
        broken: bool,
        poisoned: u8,
    },
    /// A thread of the home urgently needs the lock, or gives up.
    Urge,
    Calm,
    /// A remote dies.
    Die {
        who: u8,
    },
    /// A permit is taken, or given back.
    Take {
        who: u8,
    },
    GiveBack {
        which: u8,
    },
    /// Somebody writes a word.
    Word {
        which: u16,
        value: u64,
    },
}

#[derive(Default)]
struct Known {
    owner: Option<u32>,
    broken: bool,
    poisoned: bool,
    urgent: u16,
    permits: Vec<(usize, u32)>,
    lied: bool,
}

fn look(lock: &FuzzLock, known: &mut Known, me: u32) {
    let is_home = me == FuzzLock::HOME;
    // A thread of the home that needs the lock is among the urgent ones.
    let urgent = is_home && known.urgent > 0;
    let found = lock.look(me, urgent);
    let free = known.owner.is_none() && (is_home || known.urgent == 0);
    let expected = match (known.poisoned, free) {
        (true, _) => FuzzLook::Poisoned,
        (false, true) => FuzzLook::Got { broken: known.broken },
        (false, false) => FuzzLook::Busy,
    };
    assert!(known.lied || found == expected, "{found:?} in place of {expected:?}");
    if matches!(found, FuzzLook::Got { .. }) {
        known.owner = Some(me);
        known.urgent -= u16::from(urgent);
    }
}

fn does(lock: &FuzzLock, known: &mut Known, step: &Step) {
    match *step {
        Step::Look { who } => look(lock, known, FuzzLock::HOME + u32::from(who % 4)),
        Step::Release { broken, poisoned } => {
            let Some(me) = known.owner.take() else { return };
            let poisons = poisoned == 0;
            lock.release(me, broken, poisons);
            known.broken = broken && !poisons;
            known.poisoned |= poisons;
        }
        Step::Urge => {
            let counted = lock.urge();
            assert!(known.lied || counted);
            known.urgent += u16::from(counted);
        }
        Step::Calm if known.urgent > 0 => {
            lock.calm();
            known.urgent -= 1;
        }
        Step::Calm => {}
        Step::Die { who } => {
            let dead = FuzzLock::HOME + 1 + u32::from(who % 3);
            lock.bury(dead);
            if known.owner == Some(dead) {
                (known.owner, known.broken) = (None, true);
            }
            known.permits.retain(|&(_, holder)| holder != dead);
        }
        Step::Take { who } => {
            let me = FuzzLock::HOME + u32::from(who % 4);
            if let Some(permit) = lock.take_permit(me) {
                assert!(permit < FuzzLock::PERMITS);
                assert!(known.lied || known.permits.iter().all(|&(taken, _)| taken != permit));
                known.permits.push((permit, me));
            } else {
                assert!(known.lied || known.permits.len() == FuzzLock::PERMITS);
            }
        }
        Step::GiveBack { which } => {
            let count = known.permits.len();
            if count > 0 {
                let (permit, me) = known.permits.swap_remove(usize::from(which) % count);
                lock.give_permit_back(permit, me);
            }
        }
        Step::Word { which, value } => {
            known.lied = true;
            lock.lie(which, value);
        }
    }
    let free = lock.free_permits();
    assert!(free <= FuzzLock::PERMITS);
    assert!(known.lied || free == FuzzLock::PERMITS - known.permits.len());
}

fuzz_target!(|steps: Vec<Step>| {
    let (lock, mut known) = (FuzzLock::new(), Known::default());
    steps.iter().for_each(|step| does(&lock, &mut known, step));
});
