//! Loom models of a row that is removed while calls begin and end: steps T, E and M of `README.md`,
//! *Rows*, over the real rows and uses. The lock of an end and that of the connection are modelled.

use super::bounded;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::collections::HashSet;
use underpass_channel::{NoRow, RowUse, Rows, Tag};

/// What a row stands for. It must live while a call uses it.
struct Value {
    lives: AtomicBool,
}

/// What the lock of an end guards.
#[derive(Default)]
struct End {
    slot: RowUse,
    /// A row is closed that a call uses.
    row_waits: bool,
}

struct Connection {
    rows: Rows<Arc<Value>>,
    ends: [Mutex<End>; 2],
    closing: Mutex<HashSet<Tag>>,
    removed: AtomicU32,
}

impl Connection {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            rows: Rows::default(),
            ends: [Mutex::new(End::default()), Mutex::new(End::default())],
            closing: Mutex::new(HashSet::new()),
            removed: AtomicU32::new(0),
        })
    }

    fn open(&self) -> (Tag, Arc<Value>) {
        let value = Arc::new(Value { lives: AtomicBool::new(true) });
        let tag = self.rows.open(value.clone()).unwrap_or_else(|_| panic!("there is room"));
        (tag, value)
    }

    /// One call over `end`. Returns whether the row took it.
    fn call(&self, end: usize, tag: Tag) -> bool {
        let inside = self.ends[end].lock().unwrap();
        // SAFETY: the lock is held, the slot has no call, and `sweep` looks at the use.
        let value = match unsafe { inside.slot.begin(&self.rows, tag, 0) } {
            Ok(value) => value,
            Err(NoRow::Drains) => panic!("nobody drains it"),
            Err(NoRow::Closed | NoRow::Revoked) => return false,
        };
        drop(inside);
        assert!(value.lives.load(Ordering::Relaxed), "a value that a call uses was taken out");
        let inside = self.ends[end].lock().unwrap();
        inside.slot.end();
        let row_waits = inside.row_waits;
        drop(inside);
        if row_waits {
            self.sweep();
        }
        true
    }

    fn close(&self, tag: Tag) -> bool {
        self.close_as(tag, false)
    }

    fn close_as(&self, tag: Tag, revoked: bool) -> bool {
        let mut closing = self.closing.lock().unwrap();
        if !self.rows.close(tag, revoked) {
            return false;
        }
        closing.insert(tag);
        drop(closing);
        self.sweep();
        true
    }

    fn sweep(&self) {
        let mut closing = self.closing.lock().unwrap();
        let mut used = HashSet::new();
        for end in &self.ends {
            let mut inside = end.lock().unwrap();
            let uses = inside.slot.uses().filter(|tag| closing.contains(tag));
            inside.row_waits = uses.is_some();
            used.extend(uses);
        }
        let unused: Vec<_> = closing.difference(&used).copied().collect();
        for tag in unused {
            closing.remove(&tag);
            // SAFETY: it is closed, all ends were looked at, and it leaves `closing` once.
            let value = unsafe { self.rows.remove(tag) }.expect("its value, once");
            value.lives.store(false, Ordering::Relaxed);
            self.removed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_row_is_removed_once_and_under_no_call() {
    bounded(3, || {
        let connection = Connection::new();
        let (tag, value) = connection.open();
        let callers: Vec<_> = (0..2)
            .map(|end| {
                let connection = connection.clone();
                thread::spawn(move || connection.call(end, tag))
            })
            .collect();
        assert!(connection.close(tag));
        for caller in callers {
            // Either may have come too late.
            let _took = caller.join().unwrap();
        }
        assert_eq!(connection.removed.load(Ordering::Relaxed), 1, "whoever comes last removes it");
        assert!(!value.lives.load(Ordering::Relaxed));
        assert!(!connection.call(0, tag), "it takes no more calls");
    });
}

#[test]
fn two_that_close_a_row_remove_it_once() {
    loom::model(|| {
        let connection = Connection::new();
        let (tag, _value) = connection.open();
        let others = [0, 1].map(|which| {
            let connection = connection.clone();
            thread::spawn(move || if which == 0 { connection.close(tag) } else { connection.call(0, tag) })
        });
        let ours = connection.close(tag);
        let [theirs, _called] = others.map(|other| other.join().unwrap());
        assert_ne!(ours, theirs, "one of them closes it");
        assert_eq!(connection.removed.load(Ordering::Relaxed), 1);
    });
}

/// The holder of a value releases it, its giver revokes it, and a call of the holder's is under way
/// over another channel.
#[test]
fn a_release_and_a_revocation_end_a_value_once_under_a_call() {
    bounded(3, || {
        let connection = Connection::new();
        let (tag, value) = connection.open();
        let caller = {
            let connection = connection.clone();
            thread::spawn(move || connection.call(1, tag))
        };
        let giver = {
            let connection = connection.clone();
            thread::spawn(move || connection.close_as(tag, true))
        };
        let released = connection.close_as(tag, false);
        let _took = caller.join().unwrap();
        assert_ne!(released, giver.join().unwrap(), "one of them ends it");
        assert_eq!(connection.removed.load(Ordering::Relaxed), 1);
        assert!(!value.lives.load(Ordering::Relaxed) && !connection.call(0, tag));
    });
}

#[test]
fn a_row_that_is_used_again_is_another_row() {
    loom::model(|| {
        let connection = Connection::new();
        let (stale, _) = connection.open();
        let caller = {
            let connection = connection.clone();
            thread::spawn(move || connection.call(0, stale))
        };
        assert!(connection.close(stale));
        let (next, value) = connection.open();
        assert_ne!(stale, next);
        assert!(connection.call(1, next));
        caller.join().unwrap();
        assert!(!connection.call(0, stale) && value.lives.load(Ordering::Relaxed));
    });
}
