//! Stacks, and the pool that keeps some of them warm.

use std::io;
use std::sync::{Mutex, PoisonError};
use underpass_os::StackMemory;

/// A stack to run on.
#[derive(Debug)]
pub struct Stack {
    memory: StackMemory,
}

impl Stack {
    /// Where the address of its guard, and its length with the guard, lie in a value, for
    /// debuggers.
    pub const PARTS: (usize, usize) = {
        let memory = std::mem::offset_of!(Self, memory);
        (memory + StackMemory::PARTS.0, memory + StackMemory::PARTS.1)
    };

    /// Bytes that can be used.
    pub fn size(&self) -> usize {
        self.memory.usable()
    }

    /// Where the guard begins and where the stack ends.
    pub fn bounds(&self) -> (usize, usize) {
        (self.memory.bottom(), self.memory.top())
    }
}

impl Stack {
    /// Lets the kernel take what lies below `address` when it is short of memory; see
    /// [`StackMemory::lend_below`].
    ///
    /// # Safety
    /// Nothing below `address` is needed any more, and nobody writes there meanwhile.
    #[cfg_attr(any(not(target_arch = "x86_64"), underpass_portable), allow(dead_code))]
    pub(crate) unsafe fn lend_below(&self, address: usize) {
        // SAFETY: as the caller says.
        unsafe { self.memory.lend_below(address) };
    }
}

/// A bounded pool of stacks of one size. The last that was given back is the first that is had
/// again: it is warm.
///
/// # Examples
/// ```
/// let stacks = underpass_context::Stacks::new(64 * 1024, 2);
/// let stack = stacks.take()?;
/// stacks.give_back(stack);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Stacks {
    size: usize,
    most: usize,
    idle: Mutex<Vec<Stack>>,
}

impl Stacks {
    /// Stacks of `size` usable bytes, at most `most` of them kept while nobody uses them.
    pub fn new(size: usize, most: usize) -> Self {
        Self { size, most, idle: Mutex::new(Vec::new()) }
    }

    /// A warm one, or a new one.
    ///
    /// # Errors
    /// `OutOfMemory`: the address space or the number of mappings (`vm.max_map_count`) is used up.
    pub fn take(&self) -> io::Result<Stack> {
        let warm = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match warm {
            Some(stack) => Ok(stack),
            None => Ok(Stack { memory: StackMemory::new(self.size)? }),
        }
    }

    /// Keeps `stack`, or gives it to the kernel if enough are kept or it is of another size.
    pub fn give_back(&self, stack: Stack) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.most && stack.size() == self.size.next_multiple_of(4096) {
            idle.push(stack);
        }
    }
}
