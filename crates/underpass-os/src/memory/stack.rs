//! Memory for an execution stack, with a guard page below it.

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};
use rustix::process::{Resource, getrlimit};
use std::ffi::c_void;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

/// `MADV_GUARD_INSTALL`, Linux 6.13: guard pages without a mapping of their own.
const MADV_GUARD_INSTALL: i32 = 102;
const PAGE: usize = 4096;

/// Bytes of the guard below each stack.
pub const GUARD: usize = PAGE;

/// `MADV_FREE`, Linux 4.5: when memory is short the kernel may take the pages, unless they are
/// written to before.
const MADV_FREE: i32 = 8;

/// An anonymous mapping whose lowest page can't be touched.
#[derive(Debug)]
pub struct StackMemory {
    low: NonNull<c_void>,
    len: usize,
}

// SAFETY: it is plain memory that this value alone owns. Nothing in it is tied to a kernel thread.
unsafe impl Send for StackMemory {}

impl StackMemory {
    /// The offsets of its lowest address and of its length in a value, for debuggers.
    pub const PARTS: (usize, usize) = (std::mem::offset_of!(Self, low), std::mem::offset_of!(Self, len));

    /// Maps at least `usable` bytes of stack above one guard page. A page takes memory when it is
    /// first touched.
    ///
    /// # Errors
    /// `OutOfMemory` when the address space or the number of mappings (`vm.max_map_count`) is used
    /// up.
    pub fn new(usable: usize) -> io::Result<Self> {
        let len = usable.max(PAGE).next_multiple_of(PAGE) + PAGE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing
        // of ours.
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
        // SAFETY: as above. The page becomes inaccessible, as a guard must be.
        Ok(unsafe { mprotect(self.low.as_ptr(), PAGE, MprotectFlags::empty()) }?)
    }

    /// The highest address. Stacks grow down from here.
    pub fn top(&self) -> usize {
        self.low.as_ptr() as usize + self.len
    }

    /// The lowest address, guard included.
    pub fn bottom(&self) -> usize {
        self.low.as_ptr() as usize
    }

    /// Lets the kernel take the pages that lie wholly below `address` when memory is short. Pages
    /// that are written to before are kept. A kernel without this feature keeps them all.
    ///
    /// # Safety
    /// Nothing below `address` is needed any more, and no thread writes there meanwhile.
    pub unsafe fn lend_below(&self, address: usize) {
        let (low, high) = (self.bottom() + PAGE, address.min(self.top()) & !(PAGE - 1));
        if low < high {
            // SAFETY: the pages lie in our own mapping, above the guard, and the caller needs
            // nothing of their contents.
            unsafe { libc::madvise(low as *mut c_void, high - low, MADV_FREE) };
        }
    }

    /// Bytes above the guard.
    pub fn usable(&self) -> usize {
        self.len - PAGE
    }
}

/// Gives the pages of a stack back to the kernel, except the uppermost `kept` bytes, if the stack
/// was ever used below those.
///
/// To find out, it reads the page below the kept bytes, so a stack of which less was used costs no
/// system call. A use that leaves only zeros in that page is not noticed. The lowest page that it
/// gives back is the one above the guard.
///
/// # Safety
/// `low` is the beginning of the guard of a [`StackMemory`], and `high` is the end of that memory.
/// Nothing below `high - kept` is needed any more, and no thread reads or writes there meanwhile.
pub unsafe fn give_back_deep((low, high): (usize, usize), kept: usize) {
    let (lowest, below) = (low + GUARD, high.saturating_sub(kept) & !(PAGE - 1));
    if below < lowest + PAGE {
        return;
    }
    let page = ptr::with_exposed_provenance::<u64>(below - PAGE);
    // SAFETY: the page lies in the mapping and above its guard, is aligned, and no thread writes it
    // meanwhile.
    let words = unsafe { std::slice::from_raw_parts(page, PAGE / size_of::<u64>()) };
    if words.iter().fold(0, |any, word| any | word) == 0 {
        return;
    }
    let pages = ptr::with_exposed_provenance_mut(lowest);
    // SAFETY: the pages lie in the mapping, and the caller needs nothing of their contents.
    let given = unsafe { madvise(pages, below - lowest, Advice::LinuxDontNeed) };
    debug_assert!(given.is_ok());
}

/// The bounds of the stack of the calling kernel thread: its beginning above the guard, and its
/// end. `None` if the system does not say.
///
/// For the first kernel thread of a process this reads `/proc/self/maps`.
///
/// # Examples
/// ```
/// let here = 0u8;
/// let (low, high) = underpass_os::kernel_stack().unwrap();
/// assert!((low..high).contains(&(&raw const here).addr()));
/// ```
pub fn kernel_stack() -> Option<(usize, usize)> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: it has no preconditions.
    let own = unsafe { libc::pthread_self() };
    // SAFETY: the thread lives, and the attributes are a whole struct that is initialized here.
    if unsafe { libc::pthread_getattr_np(own, attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut low, mut size) = (ptr::null_mut(), 0);
    // SAFETY: they were initialized just now.
    let told = unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut size) };
    // SAFETY: they are used no more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    (told == 0).then(|| (low.addr(), low.addr() + size))
}

/// Bytes of address space or of private memory that this process may have: the smaller of its
/// limits (`ulimit -v`, `ulimit -d`). `None` if neither is set.
pub fn most_private() -> Option<u64> {
    [Resource::As, Resource::Data].into_iter().filter_map(|of| getrlimit(of).current).min()
}

/// Whether the kernel reserves memory for a whole mapping when it is made (`vm.overcommit_memory`
/// is 2). `false` if the system does not say.
pub fn promises_memory() -> bool {
    fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.trim() == "2")
}

impl Drop for StackMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the owner of a stack drops it only when nothing runs on
        // it.
        let unmapped = unsafe { munmap(self.low.as_ptr(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the page at `address` is in memory.
    fn resident(address: usize) -> bool {
        let mut page = 0u8;
        let place = ptr::with_exposed_provenance_mut(address & !(PAGE - 1));
        // SAFETY: there is a byte for the one page, which lies in a mapping of the caller's.
        assert_eq!(unsafe { libc::mincore(place, PAGE, &mut page) }, 0);
        page & 1 != 0
    }

    fn write(address: usize) {
        // SAFETY: the address lies in a mapping of the caller's, above its guard.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(7) };
    }

    #[test]
    fn pages_below_the_kept_part_are_given_back_if_used() {
        const KEPT: usize = 4 * PAGE;
        let stack = StackMemory::new(16 * PAGE).unwrap();
        let (low, high) = (stack.bottom(), stack.top());
        let deep = [low + PAGE, high - KEPT - PAGE, high - KEPT - 1];
        let kept = [high - KEPT, high - 1];
        deep.iter().chain(&kept).for_each(|&address| write(address));
        // SAFETY: nothing runs on it.
        unsafe { give_back_deep((low, high), KEPT) };
        assert!(!deep.iter().any(|&address| resident(address)));
        assert!(kept.iter().all(|&address| resident(address)));
        // A stack that has used no more than the kept part stays as it is.
        write(low + PAGE);
        // SAFETY: as above.
        unsafe { give_back_deep((low, high), 16 * PAGE) };
        // SAFETY: as above.
        unsafe { give_back_deep((low, high), usize::MAX) };
        assert!(resident(low + PAGE));
    }

    #[test]
    fn a_kernel_thread_knows_its_stack() {
        let size = |bounds: Option<(usize, usize)>| bounds.map(|(low, high)| high - low).unwrap();
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(kernel_stack).unwrap();
        // The C library may reuse the larger stack of a thread that has ended.
        assert!(size(thread.join().unwrap()) >= 1 << 20);
    }
}
