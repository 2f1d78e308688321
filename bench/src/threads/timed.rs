//! Functions that time themselves, as measured subjects.

use crate::BenchError;
use crate::measure::contest::Subject;

/// Performs that many operations, and returns the ns that they took.
pub(crate) type Operation = fn(u64) -> u64;

/// Operations of a thread of one kind.
pub(crate) struct Timed {
    name: &'static str,
    operation: Operation,
    on: On,
    group: u64,
}

#[derive(Clone, Copy)]
enum On {
    User,
    Kernel,
}

impl Timed {
    /// By a user-level thread. A sample is the mean of `group` operations. If `group` is 0, there
    /// are no samples.
    pub(crate) fn ours(operation: Operation, group: u64) -> Self {
        Self { name: "ours", operation, on: On::User, group }
    }

    /// By the calling kernel thread.
    pub(crate) fn kernel(name: &'static str, operation: Operation) -> Self {
        Self { name, operation, on: On::Kernel, group: 0 }
    }

    /// Does `work` on a thread of the right kind.
    fn there<T: Send + 'static>(
        &self,
        work: impl FnOnce(Operation) -> T + Send + 'static,
    ) -> Result<T, BenchError> {
        let operation = self.operation;
        match self.on {
            On::Kernel => Ok(work(operation)),
            On::User => {
                let thread = underpass::thread::spawn(move || work(operation));
                thread.join().map_err(|_| "a measured thread panicked".into())
            }
        }
    }
}

impl Subject for Timed {
    fn name(&self) -> &str {
        self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        self.there(move |operation| {
            operation(operations / 8 + 1);
            operation(operations)
        })
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        let group = self.group;
        if group == 0 {
            return Ok(());
        }
        samples.extend(self.there(move |operation| {
            operation(operations / 8 + 1);
            let groups = 0..operations.div_ceil(group);
            groups.map(|_| operation(group) as f64 / group as f64).collect::<Vec<_>>()
        })?);
        Ok(())
    }
}
