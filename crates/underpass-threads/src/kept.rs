//! Idle carriers that all activations share. Their number is bounded, and the memory of most is the kernel's to take when it is short.

use underpass_context::Context;

/// The most.
const MOST: usize = 1024;
/// Those on top, which are taken first, keep their memory.
const WARM: usize = 64;

/// Last come, first taken: those at the bottom may lie there for long after a burst of threads, and have lent their stacks' memory to the kernel.
/// Each is lent once, when it is [`WARM`] places below the top, so a pool that breathes by fewer makes no system calls.
pub(crate) struct Kept {
    #[allow(clippy::vec_box, reason = "what runs on a context knows its address")]
    idle: Vec<Box<Context>>,
    /// So many at the bottom are lent.
    lent: usize,
}

impl Kept {
    pub(crate) const fn new() -> Self {
        Self { idle: Vec::new(), lent: 0 }
    }

    /// Keeps one that is paused with nothing to do.
    ///
    /// # Errors
    /// The context, if enough are kept.
    pub(crate) fn push(&mut self, context: Box<Context>) -> Result<(), Box<Context>> {
        if self.idle.len() == MOST {
            return Err(context);
        }
        self.idle.push(context);
        if self.idle.len() > self.lent + WARM {
            // SAFETY: whoever keeps it here has paused it, and it is entered only when it was taken out.
            unsafe { self.idle[self.lent].lend() };
            self.lent += 1;
        }
        Ok(())
    }

    /// The one that came last.
    pub(crate) fn pop(&mut self) -> Option<Box<Context>> {
        let last = self.idle.pop();
        self.lent = self.lent.min(self.idle.len());
        last
    }

    /// All of them.
    #[allow(clippy::vec_box, reason = "as above")]
    pub(crate) fn take_all(&mut self) -> Vec<Box<Context>> {
        self.lent = 0;
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
    fn so_many_are_kept_and_those_at_the_bottom_are_lent_once() {
        let mut kept = Kept::new();
        let refused = (0..MOST + 5).filter(|_| kept.push(context()).is_err()).count();
        assert_eq!((refused, kept.lent), (5, MOST - WARM));
        for _ in 0..WARM + 10 {
            assert!(kept.pop().is_some());
        }
        assert_eq!(kept.lent, MOST - WARM - 10);
        // Breathing is free.
        for _ in 0..3 {
            (0..WARM).for_each(|_| assert!(kept.push(context()).is_ok()));
            assert_eq!(kept.lent, MOST - WARM - 10);
            (0..WARM).for_each(|_| assert!(kept.pop().is_some()));
        }
        assert_eq!(kept.take_all().len(), MOST - WARM - 10);
        assert!(kept.pop().is_none() && kept.lent == 0);
    }
}
