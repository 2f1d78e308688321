//! Memory for an execution stack, with a guard below it.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

/// `MADV_GUARD_INSTALL`, Linux 6.13: guard pages without a mapping of their own.
const MADV_GUARD_INSTALL: i32 = 102;
const PAGE: usize = 4096;

/// Bytes of the guard below each stack.
pub const GUARD: usize = PAGE;

/// `MADV_FREE`, Linux 4.5: the kernel may take the pages when it is short of memory, unless they are written to before.
const MADV_FREE: i32 = 8;

/// An anonymous mapping whose lowest page can't be touched.
#[derive(Debug)]
pub struct StackMemory {
    low: NonNull<c_void>,
    len: usize,
}

// SAFETY: it is plain memory that this value alone owns; nothing in it is tied to a kernel thread.
unsafe impl Send for StackMemory {}

impl StackMemory {
    /// Where its lowest address and its length lie in a value, for debuggers.
    pub const PARTS: (usize, usize) = (std::mem::offset_of!(Self, low), std::mem::offset_of!(Self, len));

    /// Maps at least `usable` bytes of stack over one guard page. Pages are taken when they are first touched.
    ///
    /// # Errors
    /// `OutOfMemory` when the address space or the number of mappings (`vm.max_map_count`) is used up.
    pub fn new(usable: usize) -> io::Result<Self> {
        let len = usable.max(PAGE).next_multiple_of(PAGE) + PAGE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing of ours.
        let low =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        let low = NonNull::new(low).ok_or(io::ErrorKind::OutOfMemory)?;
        let stack = Self { low, len };
        stack.guard()?;
        Ok(stack)
    }

    fn guard(&self) -> io::Result<()> {
        // SAFETY: the page lies in our own mapping, and nothing has been stored there.
        if unsafe { libc::madvise(self.low.as_ptr(), PAGE, MADV_GUARD_INSTALL) } == 0 {
            return Ok(());
        }
        // SAFETY: as above; the page becomes inaccessible, which is what a guard is for.
        Ok(unsafe { mprotect(self.low.as_ptr(), PAGE, MprotectFlags::empty()) }?)
    }

    /// The highest address; stacks grow down from here.
    pub fn top(&self) -> usize {
        self.low.as_ptr() as usize + self.len
    }

    /// The lowest address, guard included.
    pub fn bottom(&self) -> usize {
        self.low.as_ptr() as usize
    }

    /// Lets the kernel take the pages that lie wholly below `address` when it is short of memory. Those that are written to before are
    /// kept. A kernel that doesn't know this lets all stay as it is.
    ///
    /// # Safety
    /// Nothing below `address` is needed any more, and nobody writes there meanwhile.
    pub unsafe fn lend_below(&self, address: usize) {
        let (low, high) = (self.bottom() + PAGE, address.min(self.top()) & !(PAGE - 1));
        if low < high {
            // SAFETY: the pages lie in our own mapping, above the guard, and the caller needs nothing of what is there.
            unsafe { libc::madvise(low as *mut c_void, high - low, MADV_FREE) };
        }
    }

    /// Bytes above the guard.
    pub fn usable(&self) -> usize {
        self.len - PAGE
    }
}

impl Drop for StackMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the owner of a stack drops it only when nothing runs on it.
        let unmapped = unsafe { munmap(self.low.as_ptr(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
