//! Control blocks that stand for no thread: each activation keeps a few, and the rest are shared.

use crate::block::control::Control;
use crate::block::registry;
use crate::block::thread_id::is_used_up;
use crate::lists::linked::LinkedStack;
use crate::sched::no_preempt::critical;
use crate::sched::scheduler;
use std::sync::{Mutex, PoisonError};
use underpass_seam::atomic::Ordering;

/// How many blocks go to or from an activation at a time.
const BATCH: usize = 64;

static UNUSED: Mutex<Vec<&'static Control>> = Mutex::new(Vec::new());

/// Takes a block for a new thread.
#[inline]
pub(crate) fn take(flags: u32) -> &'static Control {
    let own = scheduler::with(|own| own.unused().pop()).flatten();
    let control = own.unwrap_or_else(take_from_all);
    control.renew(flags);
    control
}

#[cold]
fn take_from_all() -> &'static Control {
    // Schedulers take this lock, so its holder must not be preempted.
    let _held = critical();
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    if unused.is_empty() {
        registry::make(BATCH as u32, &mut unused);
    }
    let first = unused.pop().expect("some were made just now");
    scheduler::with(|own| {
        let some = unused.len().min(BATCH / 2);
        let from = unused.len() - some;
        unused.drain(from..).for_each(|control| own.unused().push(control));
    });
    first
}

/// Nobody has a handle of `control` any more: its block is free for another thread.
#[inline]
pub(crate) fn give_back(control: &'static Control) {
    // Relaxed: the next owner takes the block from a list that synchronizes.
    control.holders.store(0, Ordering::Relaxed);
    if is_used_up(control.id()) {
        return;
    }
    let kept = scheduler::with(|own| {
        own.unused().push(control);
        own.unused().len() > 2 * BATCH
    });
    if kept != Some(false) {
        give_to_all(kept.is_none().then_some(control));
    }
}

#[cold]
fn give_to_all(one: Option<&'static Control>) {
    let _held = critical();
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    unused.extend(one);
    if one.is_none() {
        scheduler::with(|own| unused.extend(std::iter::from_fn(|| own.unused().pop()).take(BATCH)));
    }
}

/// The blocks that one activation keeps for its next threads.
pub(crate) type UnusedBlocks = LinkedStack<Control>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::registry::find;
    use crate::block::thread_id::PLACE_BITS;

    #[test]
    fn a_number_finds_its_block_until_it_is_used_again() {
        let control = take(0);
        let number = control.id();
        assert!(find(number).is_some_and(|found| std::ptr::eq(found, control)));
        control.renew(0);
        assert!(find(number).is_none());
        assert!(find(0).is_none() && find(u64::MAX).is_none());
        give_back(control);
    }

    #[test]
    fn a_block_whose_numbers_are_used_up_rests_for_ever() {
        let control = Box::leak(Box::new(Control::unused(7)));
        control.set_number(u64::from(u32::MAX - 1) << PLACE_BITS | 7);
        control.renew(0);
        assert_eq!(control.id() >> PLACE_BITS, u64::from(u32::MAX));
        give_back(control);
        let taken = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!taken.iter().any(|other| std::ptr::eq(*other, control)));
    }
}
