//! Compares our own switch with `corosensei`: the same random program gives the same trace on both.

use crate::{Pause, Resume, Stacks, portable};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

const STACK: usize = 64 * 1024;

fn random(seed: &Cell<u64>) -> u64 {
    let mut x = seed.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    seed.set(x);
    x
}

/// A random program for one kind of context. Its contexts leave, pass, compute in registers and in
/// floating point, and catch panics.
macro_rules! program {
    ($name:ident, $Base:ty, $Context:ty) => {
        fn $name(seed: u64, contexts: usize, steps: usize) -> Vec<u64> {
            type All = Rc<RefCell<Vec<Rc<OnceCell<Box<$Context>>>>>>;
            let base: &'static $Base = Box::leak(Box::default());
            let trace: Rc<RefCell<Vec<u64>>> = Rc::default();
            let seed = Rc::new(Cell::new(seed));
            let all: All = Rc::new(RefCell::new((0..contexts).map(|_| Rc::default()).collect()));
            let running = Rc::new(Cell::new(0usize));
            let done = Rc::new(RefCell::new(vec![false; contexts]));
            for number in 0..contexts {
                let (trace, seed, others, running, done) =
                    (trace.clone(), seed.clone(), all.clone(), running.clone(), done.clone());
                let body = move || {
                    let own = others.borrow()[number].clone();
                    let own: &$Context = own.get().unwrap();
                    let (mut sum, mut real) = (number as u64, 0.5 + number as f64);
                    let many: [u64; 12] = std::array::from_fn(|i| random(&seed) ^ i as u64);
                    for step in 0..steps {
                        let what = random(&seed);
                        let other = (random(&seed) as usize) % contexts;
                        // SAFETY: this is that context, on its own base. It passes only to paused
                        // contexts.
                        let resumed = unsafe {
                            if what % 3 == 0 && other != number && !done.borrow()[other] {
                                running.set(other);
                                let other = others.borrow()[other].clone();
                                let other: *const $Context = &**other.get().unwrap();
                                own.pass(&*other)
                            } else {
                                own.leave(base, if what % 2 == 0 { Pause::Yield } else { Pause::Block })
                            }
                        };
                        sum = sum.rotate_left(5) ^ many[step % 12] ^ resumed as u64;
                        real = real * 1.25 + sum as u32 as f64;
                        if what % 17 == 0 {
                            let panic =
                                std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(what)));
                            sum ^= *panic.unwrap_err().downcast::<u64>().unwrap();
                        }
                        trace.borrow_mut().extend([number as u64, sum, real.to_bits()]);
                    }
                    done.borrow_mut()[number] = true;
                    base
                };
                let context = <$Context>::new(Stacks::new(STACK, 0).take().unwrap(), body);
                assert!(all.borrow()[number].set(context).is_ok());
            }
            while let Some(next) = (0..contexts).find(|&i| !done.borrow()[i]) {
                let count = contexts as u64;
                let next = (0..count)
                    .map(|i| ((random(&seed) + i) % count) as usize)
                    .find(|&i| !done.borrow()[i])
                    .unwrap_or(next);
                running.set(next);
                let context = all.borrow()[next].clone();
                // SAFETY: no context runs now, and this one has not ended.
                let why = unsafe {
                    base.enter(
                        context.get().unwrap(),
                        if next % 2 == 0 { Resume::GoOn } else { Resume::Report },
                    )
                };
                trace.borrow_mut().extend([why as u64, running.get() as u64]);
            }
            Rc::try_unwrap(trace).map(RefCell::into_inner).unwrap_or_else(|trace| trace.borrow().clone())
        }
    };
}

program!(of_the_oracle, portable::Base, portable::Context);
program!(of_ours, crate::Base, crate::Context);

#[test]
fn our_switch_does_what_corosensei_does() {
    for seed in 1..40 {
        let (ours, oracle) = (of_ours(seed, 7, 60), of_the_oracle(seed, 7, 60));
        assert!(ours.len() > 7 * 60, "it did something");
        assert_eq!(ours, oracle, "seed {seed}");
    }
}

/// Pauses `context` `depth` frames deep.
#[cfg(not(underpass_portable))]
#[inline(never)]
fn deep(depth: u32, context: &crate::Context, base: &'static crate::Base) -> u32 {
    if depth == 0 {
        // SAFETY: this is that context, entered from this base.
        unsafe { context.leave(base, Pause::Block) };
        return 0;
    }
    std::hint::black_box(deep(depth - 1, context, base) + 1)
}

#[cfg(not(underpass_portable))]
#[test]
fn the_frames_of_a_paused_context_can_be_seen_and_end_with_it() {
    let base: &'static crate::Base = Box::leak(Box::default());
    let own: Rc<OnceCell<Box<crate::Context>>> = Rc::default();
    let inside = own.clone();
    let body = move || {
        assert_eq!(deep(20, inside.get().unwrap(), base), 20);
        base
    };
    let context = own.get_or_init(|| crate::Context::new(Stacks::new(STACK, 0).take().unwrap(), body));
    // SAFETY: no other thread enters it.
    assert_eq!(unsafe { base.enter(context, Resume::GoOn) }, Pause::Block);
    let mut frames = [0; 100];
    // SAFETY: it is paused.
    let found = unsafe { context.trace(&mut frames) };
    assert!(crate::Context::switches_at(frames[0]) && !crate::Context::switches_at(frames[found / 2]));
    let in_deep = |ip: usize| (deep as *const () as usize..deep as *const () as usize + 512).contains(&ip);
    let first = frames[..found].iter().position(|&ip| in_deep(ip)).unwrap();
    let (before, rest) = (&frames[..first], &frames[first..found]);
    assert!(before.len() <= 2, "it begins where the context paused: {before:x?}");
    assert_eq!(rest.iter().filter(|&&ip| in_deep(ip)).count(), 21);
    assert!(rest.len() < 21 + 25, "it ends where the context began: {rest:x?}");
    let mut few = [0; 3];
    // SAFETY: as above.
    assert_eq!(unsafe { context.trace(&mut few) }, 3);
    assert_eq!(few, frames[..3]);
    // SAFETY: it goes on from where it was, with all its registers.
    assert_eq!(unsafe { base.enter(context, Resume::GoOn) }, Pause::Ended);
}
