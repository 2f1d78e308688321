//! Operations within one process: the cheapest ones that a call can be compared with.

use crate::BenchError;
use crate::measure::contest::Subject;
use std::hint::black_box;
use underpass_os::clock::now_ns;

/// An operation in this process, repeated between two readings of the clock.
pub struct InProcess<F> {
    name: &'static str,
    /// Operations in one sample, so that the clock does not cost more than what it times.
    group: u64,
    body: F,
}

impl<F: FnMut(u64)> InProcess<F> {
    /// `body` gets the number of the operation.
    ///
    /// A sample for the percentiles is the mean of `group` operations.
    pub fn new(name: &'static str, group: u64, body: F) -> Self {
        Self { name, group: group.max(1), body }
    }

    fn some(&mut self, operations: u64) -> u64 {
        let start = now_ns();
        (0..operations).for_each(&mut self.body);
        now_ns() - start
    }
}

impl<F: FnMut(u64)> Subject for InProcess<F> {
    fn name(&self) -> &str {
        self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        self.some(operations / 8 + 1);
        Ok(self.some(operations))
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        self.some(operations / 8 + 1);
        samples.extend(
            (0..operations.div_ceil(self.group)).map(|_| self.some(self.group) as f64 / self.group as f64),
        );
        Ok(())
    }
}

/// A procedure call that the compiler may not remove.
pub fn call() -> impl Subject {
    #[inline(never)]
    fn null(argument: u64) -> u64 {
        black_box(argument)
    }
    InProcess::new("call", 1_000, |n| {
        black_box(null(black_box(n)));
    })
}

/// A minimal system call: `getppid`.
pub fn system_call() -> impl Subject {
    InProcess::new("syscall", 1, |_| {
        black_box(std::os::unix::process::parent_id());
    })
}
