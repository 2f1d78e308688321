//! Idle thread runners that all activations share. Their number is bounded. The kernel may take the
//! memory of most of them when it is short. Those that lie unused for long are given back.

use underpass_context::Context;
use underpass_os::clock::now_ns;

/// The most runners in the pool.
const MOST: usize = 1024;
/// The runners on top, which are taken first, keep their memory.
const WARM: usize = 64;
/// Runners that were not needed for this long, in ns, are given back.
const REST: u64 = 1_000_000_000;
/// At most this many are given back at once, since others wait for the lock.
const BATCH: usize = 64;

/// A stack of runners. Those at the bottom may lie there for long after a burst of threads, and
/// have lent the memory of their stacks to the kernel. Each is lent once, when it is [`WARM`]
/// places below the top. So if the number goes up and down by fewer than that, it costs no system
/// calls.
pub(crate) struct RunnerPool {
    #[allow(clippy::vec_box, reason = "what runs on a context knows its address")]
    idle: Vec<Box<Context>>,
    /// How many runners at the bottom are lent.
    lent: usize,
    /// The smallest number of runners since the last look for unused ones.
    fewest: usize,
    /// When to look next. 0 while there are few.
    due: u64,
}

impl RunnerPool {
    pub(crate) const fn new() -> Self {
        Self { idle: Vec::new(), lent: 0, fewest: 0, due: 0 }
    }

    /// Keeps a runner that is paused with nothing to do.
    ///
    /// # Errors
    /// The context, if enough are kept.
    pub(crate) fn push(&mut self, context: Box<Context>) -> Result<(), Box<Context>> {
        if self.idle.len() == MOST {
            return Err(context);
        }
        self.idle.push(context);
        if self.idle.len() > self.lent + WARM {
            // SAFETY: a runner is paused before it is put here, and is entered only after it was
            // taken out.
            unsafe { self.idle[self.lent].lend() };
            self.lent += 1;
        }
        if self.due == 0 {
            self.look_again(now_ns);
        }
        Ok(())
    }

    /// The runner that came last, if `of_use` accepts it.
    pub(crate) fn pop_if(&mut self, of_use: impl Fn(&Context) -> bool) -> Option<Box<Context>> {
        let last = self.idle.pop_if(|context| of_use(context));
        self.lent = self.lent.min(self.idle.len());
        self.fewest = self.fewest.min(self.idle.len());
        last
    }

    /// When to ask for the [`unused`](Self::unused) ones. 0 if there won't be any.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// If it is time, up to [`BATCH`] of the runners that nobody has needed since the last look. If
    /// it returns none, look again when it is [`due`](Self::due).
    #[allow(clippy::vec_box, reason = "as above")]
    pub(crate) fn unused(&mut self, now: u64) -> Vec<Box<Context>> {
        if self.due == 0 || now < self.due {
            return Vec::new();
        }
        let some = self.fewest.saturating_sub(WARM).min(BATCH);
        if some == 0 {
            self.look_again(|| now);
        }
        self.fewest = self.fewest.saturating_sub(some);
        self.lent = self.lent.saturating_sub(some);
        self.idle.drain(..some).collect()
    }

    fn look_again(&mut self, now: impl FnOnce() -> u64) {
        self.fewest = self.idle.len();
        self.due = if self.fewest > WARM { now() + REST } else { 0 };
    }

    /// Takes all runners.
    #[allow(clippy::vec_box, reason = "as above")]
    pub(crate) fn take_all(&mut self) -> Vec<Box<Context>> {
        (self.lent, self.fewest, self.due) = (0, 0, 0);
        std::mem::take(&mut self.idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass_context::{Base, Stacks};

    fn context() -> Box<Context> {
        let stack = Stacks::new(16 * 1024, 0).take().expect("there is memory");
        Context::new(stack, || -> &'static Base { unreachable!("it is never entered") })
    }

    #[test]
    fn the_pool_is_bounded_and_lends_the_bottom_once() {
        let mut kept = RunnerPool::new();
        let refused = (0..MOST + 5).filter(|_| kept.push(context()).is_err()).count();
        assert_eq!((refused, kept.lent), (5, MOST - WARM));
        for _ in 0..WARM + 10 {
            assert!(kept.pop_if(|_| true).is_some());
        }
        assert_eq!(kept.lent, MOST - WARM - 10);
        // Going up and down by few changes nothing.
        for _ in 0..3 {
            (0..WARM).for_each(|_| assert!(kept.push(context()).is_ok()));
            assert_eq!(kept.lent, MOST - WARM - 10);
            (0..WARM).for_each(|_| assert!(kept.pop_if(|_| true).is_some()));
        }
        assert_eq!(kept.take_all().len(), MOST - WARM - 10);
        assert!(kept.pop_if(|_| true).is_none() && kept.lent == 0);
    }

    #[test]
    fn those_that_nobody_needed_for_a_while_are_given_back() {
        let mut kept = RunnerPool::new();
        (0..WARM).for_each(|_| assert!(kept.push(context()).is_ok()));
        assert_eq!(kept.due(), 0, "these are kept");
        (0..300).for_each(|_| assert!(kept.push(context()).is_ok()));
        let first = kept.due();
        assert!(first > 0 && kept.unused(first - 1).is_empty());
        // When the count began there was one runner too many.
        assert_eq!((kept.unused(first).len(), kept.unused(first).len()), (1, 0));
        let second = kept.due();
        assert!(second > first);
        // A hundred are in use at the same time.
        let used: Vec<_> = (0..100).map(|_| kept.pop_if(|_| true).unwrap()).collect();
        used.into_iter().for_each(|context| assert!(kept.push(context).is_ok()));
        let given = [(); 5].map(|()| kept.unused(second).len());
        assert_eq!(given, [BATCH, BATCH, BATCH, 299 - 100 - 3 * BATCH, 0]);
        assert_eq!(kept.lent, 100);
        let third = kept.due();
        assert_eq!([(); 3].map(|()| kept.unused(third).len()), [BATCH, 100 - BATCH, 0]);
        assert_eq!((kept.idle.len(), kept.lent, kept.due()), (WARM, 0, 0));
    }
}
