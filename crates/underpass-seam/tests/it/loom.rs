//! Loom models of the cells that protocols share: every interleaving of small cases.
//! CONTRIBUTING.md says how to run them.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use underpass_seam::{Gate, StaticSlot, TryLock, WriterCounter, WriterPlaces};

/// What one thread writes for another. Loom reports every access that is not ordered.
struct Cargo(UnsafeCell<u32>);

impl Cargo {
    /// A new one for each run of a model. It is never freed.
    fn new() -> &'static Self {
        Box::leak(Box::new(Self(UnsafeCell::new(0))))
    }

    fn load(&self, value: u32) {
        // SAFETY: loom checks that no other thread accesses it now.
        self.0.with_mut(|cargo| unsafe { *cargo = value });
    }

    fn unload(&self) -> u32 {
        // SAFETY: loom checks that no thread writes it now.
        self.0.with(|cargo| unsafe { *cargo })
    }
}

// SAFETY: loom checks every access.
unsafe impl Sync for Cargo {}
// SAFETY: as above.
unsafe impl Send for Cargo {}

// Fails if `try_lock` loads and stores instead of exchanging. Fails without its acquire, and
// without the release in the guard's drop.
#[test]
fn a_holder_of_the_lock_sees_what_the_last_one_did() {
    loom::model(|| {
        let lock = Arc::new(TryLock::new(0u32));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let lock = lock.clone();
                thread::spawn(move || lock.try_lock().map(|mut held| *held += 1).is_some())
            })
            .collect();
        let mine = lock.try_lock().map(|mut held| *held += 1).is_some();
        let had: u32 = others.into_iter().map(|other| u32::from(other.join().unwrap())).sum();
        assert!(had + u32::from(mine) > 0, "the first thread that asks has the lock");
        assert_eq!(*lock.try_lock().unwrap(), had + u32::from(mine));
    });
}

// Fails without the release of `set` or the acquire of `get`.
#[test]
fn a_slot_brings_along_what_was_done_before() {
    loom::model(|| {
        let slot = Arc::new(StaticSlot::new());
        let other = slot.clone();
        let setter = thread::spawn(move || {
            let cargo = Cargo::new();
            cargo.load(7);
            other.set(cargo);
        });
        let got: Option<&'static Cargo> = slot.get();
        assert!(got.is_none_or(|cargo| cargo.unload() == 7));
        setter.join().unwrap();
    });
}

// Fails if `swap` or `exchange` is relaxed on either side. Fails if `exchange` accepts another
// value than the expected one.
#[test]
fn swap_and_exchange_take_each_reference_once() {
    loom::model(|| {
        let slot = Arc::new(StaticSlot::new());
        let first = Cargo::new();
        first.load(1);
        slot.set(first);
        let other = slot.clone();
        let swapper = thread::spawn(move || {
            let second = Cargo::new();
            second.load(2);
            other.swap(Some(second)).map_or(0, Cargo::unload)
        });
        let third = Cargo::new();
        third.load(4);
        let mine = match slot.exchange(Some(first), third) {
            Ok(()) => first.unload(),
            Err(found) => found.expect("never empty").unload() << 4,
        };
        let theirs = swapper.join().unwrap();
        let left = slot.get().expect("never empty").unload();
        // Either thread came first. `third` is there only if `first` was found.
        assert!(matches!((mine, theirs, left), (1, 4, 2) | (0x20, 1, 2)), "{mine:#x} {theirs} {left}");
    });
}

// Fails if `open` or `withdraw` loads and stores instead of exchanging: the waiter is told twice,
// or never.
#[test]
fn a_waiter_is_told_or_has_withdrawn() {
    loom::model(|| {
        let gate = Arc::new(Gate::new());
        let me = Cargo::new();
        // Before it waits, the waiter writes what the opening thread reads.
        me.load(3);
        assert!(gate.register(me));
        let other = gate.clone();
        let opener = thread::spawn(move || other.open().map(Cargo::unload));
        let withdrawn = gate.withdraw(me);
        let told = opener.join().unwrap();
        assert_eq!(told.is_some(), !withdrawn);
        assert!(told.is_none_or(|cargo| cargo == 3) && gate.is_open());
    });
}

// Fails without the acquire of `is_open`, of `pass`, or of a failed `register`. Fails without the
// release of `open`.
#[test]
fn a_thread_that_finds_the_gate_open_sees_what_came_before() {
    for way in 0..3 {
        loom::model(move || {
            let gate = Arc::new(Gate::new());
            let (me, cargo) = (Cargo::new(), Cargo::new());
            let other = gate.clone();
            let opener = thread::spawn(move || {
                cargo.load(5);
                other.open().is_some()
            });
            let open = match way {
                0 => !gate.register(me),
                1 => gate.is_open(),
                _ => gate.pass(),
            };
            assert!(!open || cargo.unload() == 5);
            assert_eq!(opener.join().unwrap(), way == 0 && !open, "the waiter is told");
            assert_eq!(gate.is_open(), way != 2 || !open);
        });
    }
}

// Fails if `open` counts: two openings are one to a thread that passes afterwards, and exactly one
// of them tells the waiter.
#[test]
fn of_two_threads_that_open_the_gate_one_tells_the_waiter() {
    loom::model(|| {
        let gate = Arc::new(Gate::new());
        let me = Cargo::new();
        me.load(9);
        assert!(gate.register(me));
        let openers: Vec<_> = (0..2)
            .map(|_| {
                let gate = gate.clone();
                thread::spawn(move || gate.open().map_or(0, Cargo::unload))
            })
            .collect();
        let told: u32 = openers.into_iter().map(|opener| opener.join().unwrap()).sum();
        assert_eq!(told, 9);
        assert!(gate.pass() && !gate.pass());
    });
}

/// The places of writers, with a counter at each of the first two.
struct Counted {
    places: WriterPlaces,
    counters: [WriterCounter; 2],
}

impl Counted {
    fn count(&self) {
        let place = self.places.claim().expect("a place is free");
        self.counters[place].add(1, false);
        self.places.give_back(place);
    }

    fn sum(&self) -> u64 {
        self.counters.iter().map(WriterCounter::get).sum()
    }
}

// Fails if `give_back` or `claim` is relaxed: the next writer then adds to a number that is too
// old. Fails if `claim` loads and stores instead of exchanging.
#[test]
fn no_count_of_one_writer_after_another_is_lost() {
    loom::model(|| {
        let counted = Arc::new(Counted { places: WriterPlaces::new(), counters: Default::default() });
        let other = counted.clone();
        let other = thread::spawn(move || {
            other.count();
            other.count();
        });
        counted.count();
        let seen = counted.sum();
        assert!((1..=3).contains(&seen), "{seen}");
        assert!(counted.sum() >= seen, "numbers never fall");
        other.join().unwrap();
        assert_eq!(counted.sum(), 3);
    });
}
