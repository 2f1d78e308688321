//! Pinned processes never use more than what their domain holds, in whatever order threads run.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use underpass_node::pinned::{PinStep, PinnedWord};

/// One round of the surveyor: `width` is what the processes are pinned to.
fn survey(word: &PinnedWord, width: &AtomicU32) {
    match word.next_step() {
        PinStep::Nothing => {}
        PinStep::Widen(to) => width.store(to, Ordering::SeqCst),
        PinStep::Narrow(to) => {
            width.store(to, Ordering::SeqCst);
            word.narrowed(to);
        }
    }
}

/// A domain that was granted `granted`, and the surveyor, which makes `rounds` rounds.
fn pinned(granted: u32, rounds: u32) -> (Arc<PinnedWord>, Arc<AtomicU32>, thread::JoinHandle<()>) {
    let (word, width) = (Arc::new(PinnedWord::new()), Arc::new(AtomicU32::new(0)));
    (0..granted).for_each(|_| word.grant());
    let surveyor = {
        let (word, width) = (word.clone(), width.clone());
        thread::spawn(move || (0..rounds).for_each(|_| survey(&word, &width)))
    };
    (word, width, surveyor)
}

#[test]
fn processes_use_no_more_than_their_domain_holds() {
    loom::model(|| {
        let (word, width, surveyor) = pinned(2, 2);
        assert!(word.ask());
        let holds = word.holds();
        // Nobody grants anything from now on.
        assert!(width.load(Ordering::SeqCst) <= holds, "a processor that was given back is in use");
        surveyor.join().unwrap();
        assert!(width.load(Ordering::SeqCst) <= holds);
    });
}

#[test]
fn a_grant_that_is_taken_back_is_never_used() {
    loom::model(|| {
        let (word, width, surveyor) = pinned(1, 1);
        assert!(word.keep(0));
        let is_given_back = word.holds() == 0;
        surveyor.join().unwrap();
        assert!(!is_given_back || width.load(Ordering::SeqCst) == 0);
        // The next round ends it in any case.
        survey(&word, &width);
        assert_eq!((width.load(Ordering::SeqCst), word.holds()), (0, 0));
        assert!(!word.ask(), "there is nothing left");
    });
}

#[test]
fn a_grant_during_a_narrowing_is_carried_out_by_the_next_round() {
    loom::model(|| {
        let (word, width) = (Arc::new(PinnedWord::new()), Arc::new(AtomicU32::new(0)));
        word.grant();
        survey(&word, &width);
        assert!(word.ask());
        let surveyor = {
            let (word, width) = (word.clone(), width.clone());
            thread::spawn(move || survey(&word, &width))
        };
        word.grant();
        assert_eq!(word.holds(), 1, "a grant counts at once");
        surveyor.join().unwrap();
        survey(&word, &width);
        assert_eq!((width.load(Ordering::SeqCst), word.holds(), word.target()), (1, 1, 1));
    });
}
