//! Loom models of an object's versions: every interleaving of small cases. CONTRIBUTING.md says how
//! to run them. Without `--cfg underpass_loom` this file is empty.
//!
//! In a model the memory holds two versions, and a version's words follow from its number.
#![cfg(underpass_loom)]

use loom::thread;
use underpass_homed::model::{ModelCopy, ModelObject};

/// A copy is one version, as it was published.
fn is_whole(copy: ModelCopy) {
    let ModelCopy { version, published_ns, words } = copy;
    assert_eq!((published_ns, words), (version * 100, [version * 10; 2]));
}

#[test]
fn a_copy_is_a_whole_version() {
    loom::model(|| {
        let object = ModelObject::new();
        let home = object.clone();
        // The last of them is written where the first one was.
        let publishes = thread::spawn(move || (2..=3).for_each(|version| home.publish(version)));
        if let Some(copy) = object.copy() {
            is_whole(copy);
        }
        publishes.join().unwrap();
        assert_eq!(object.copy().map(|copy| copy.version), Some(3));
    });
}

#[test]
fn a_copy_succeeds_unless_the_slot_is_written_again() {
    loom::model(|| {
        let object = ModelObject::new();
        let home = object.clone();
        let publishes = thread::spawn(move || home.publish(2));
        is_whole(object.copy().expect("one further version overwrites nothing"));
        publishes.join().unwrap();
    });
}

#[test]
fn versions_never_go_back() {
    loom::model(|| {
        let object = ModelObject::new();
        let home = object.clone();
        let publishes = thread::spawn(move || (2..=3).for_each(|version| home.publish(version)));
        let copies = [object.copy(), object.copy()].map(|copy| copy.map(|copy| copy.version));
        if let [Some(first), Some(second)] = copies {
            assert!(first <= second, "{first} came before {second}");
        }
        publishes.join().unwrap();
    });
}

#[test]
fn whoever_sees_the_end_gets_the_last_version() {
    loom::model(|| {
        let object = ModelObject::new();
        let home = object.clone();
        let publishes = thread::spawn(move || {
            home.publish(2);
            home.end();
        });
        let over = object.has_ended();
        let copy = object.copy().expect("one further version overwrites nothing");
        assert!(!over || copy.version == 2);
        publishes.join().unwrap();
    });
}
