//! Clients that lie about late answers.

use crate::hostile::clients::{Scene, call};
use crate::hostile::end::{BAD_ARGUMENTS, DONE, procedure};
use underpass_channel::layout::COLLECT;
use underpass_channel::{Cell, Tag};
use underpass_tests::Watchdog;

/// The request of a call that collects late answers.
fn collect(slot: u16) -> Cell {
    Cell { bounded: true, ..Cell::request(slot, COLLECT, Tag::NONE) }
}

#[test]
fn a_client_that_collects_twice_at_once_loses_its_binding() {
    let _watchdog = Watchdog::new("a_client_that_collects_twice_at_once_loses_its_binding");
    let scene = Scene::new("collects");
    for second in [2, 3] {
        scene.closes(|end| {
            end.post(&collect(2));
            end.post(&collect(second));
        });
    }
}

#[test]
fn a_client_may_collect_nothing_and_give_up_what_is_not_late() {
    let _watchdog = Watchdog::new("a_client_may_collect_nothing_and_give_up_what_is_not_late");
    let scene = Scene::new("collects-nothing");
    let end = scene.import();
    end.post(&collect(1));
    for number in [0, 1, u64::MAX] {
        let mut said = [0; 16];
        said[0] = 12;
        said[8..].copy_from_slice(&number.to_le_bytes());
        end.say(&said, &[]);
        assert_eq!(call(&end, 0, procedure("add"), &[1, 2]), DONE, "the binding goes on");
    }
    // The slot that collects is not a call that can be given up.
    end.channel.cancel_word(1).cancel();
    let mut said = [0; 16];
    (said[0], said[8]) = (11, 1 << 1);
    end.say(&said, &[]);
    assert_eq!(call(&end, 0, procedure("add"), &[1, 2]), DONE, "the binding goes on");
    // Without bounds it is a procedure with interfaces, and there are none.
    assert_eq!(call(&end, 0, COLLECT, &[]), BAD_ARGUMENTS);
    drop(end);
    scene.is_unharmed();
}
