//! Stacks, and the pool that keeps some of them for use again.

use std::io;
use std::sync::{Mutex, PoisonError};
use underpass_os::StackMemory;

/// A stack to run on.
#[derive(Debug)]
pub struct Stack {
    memory: StackMemory,
}

impl Stack {
    /// Offsets in a value of the guard page's address, and of the length with the guard page, for
    /// debuggers.
    pub const PARTS: (usize, usize) = {
        let memory = std::mem::offset_of!(Self, memory);
        (memory + StackMemory::PARTS.0, memory + StackMemory::PARTS.1)
    };

    /// How many bytes are usable.
    pub fn size(&self) -> usize {
        self.memory.usable()
    }

    /// The address where the guard page begins, and the address where the stack ends.
    pub fn bounds(&self) -> (usize, usize) {
        (self.memory.bottom(), self.memory.top())
    }
}

impl Stack {
    /// Lets the kernel take the memory below `address` when the kernel is short of memory; see
    /// [`StackMemory::lend_below`].
    ///
    /// # Safety
    /// Nothing below `address` is needed any more, and no thread writes there meanwhile.
    #[cfg_attr(any(not(target_arch = "x86_64"), underpass_portable), allow(dead_code))]
    pub(crate) unsafe fn lend_below(&self, address: usize) {
        // SAFETY: as the caller says.
        unsafe { self.memory.lend_below(address) };
    }
}

/// A bounded pool of stacks of one size. It hands out first the stack that was given back last,
/// since that is in the cache.
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
    /// A pool of stacks of `size` usable bytes. It keeps at most `most` unused ones.
    pub fn new(size: usize, most: usize) -> Self {
        Self { size, most, idle: Mutex::new(Vec::new()) }
    }

    /// A stack from the pool, or a new one.
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

    /// Keeps `stack`. Unmaps it if enough are kept, or if it is of another size.
    pub fn give_back(&self, stack: Stack) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.most && stack.size() == self.size.next_multiple_of(4096) {
            idle.push(stack);
        }
    }
}
