//! Survives `SIGBUS` in shared memory. If the system has no page for a hole, a write to the hole
//! raises `SIGBUS`, which by default ends the process. The handler here puts another page in its
//! place and marks the mapping as damaged.
//!
//! The mappings are kept in a list of [`MappingEntry`]s. The list only grows, so the signal handler
//! reads it without a lock.
//!
//! | field | who writes it |
//! |---|---|
//! | `taken` | whoever takes the entry, from `false`; its owner, from `true` |
//! | `version`, `begin`, `end` | the owner, before the mapping is used and before it is unmapped |
//! | `damaged` | the handler; its owner, with the former |
//! | `next` | whoever adds the entry, before it is in the list |

use crate::fault::pass_on;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};

/// One mapping, while it exists.
#[derive(Debug)]
pub(crate) struct MappingEntry {
    taken: AtomicBool,
    /// Odd while the owner writes `begin` and `end`.
    version: AtomicU32,
    begin: AtomicUsize,
    end: AtomicUsize,
    damaged: AtomicBool,
    next: *const MappingEntry,
}

// SAFETY: `next` points to an entry that is never freed and is not written once other threads see
// it.
unsafe impl Sync for MappingEntry {}
// SAFETY: as above.
unsafe impl Send for MappingEntry {}

static FIRST: AtomicPtr<MappingEntry> = AtomicPtr::new(ptr::null_mut());

/// What the handler needs.
struct Means {
    /// The shared page that replaces each page that the system refuses.
    page: usize,
    size: usize,
    before: libc::sigaction,
}

static MEANS: OnceLock<Option<Means>> = OnceLock::new();

impl MappingEntry {
    /// Takes a free entry for the `len` bytes from `begin` on, which nothing uses yet.
    ///
    /// # Errors
    /// There is no memory for the replacement page.
    pub(crate) fn take(begin: usize, len: usize) -> io::Result<&'static Self> {
        if MEANS.get_or_init(|| install().ok()).is_none() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // Acquire, here and below: SYNC with `taken` store in `give_back`: what the last owner
        // wrote.
        let free = |entry: &&Self| {
            entry.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let entry = all().find(free).unwrap_or_else(Self::add);
        entry.damaged.store(false, Ordering::Relaxed);
        entry.set(begin, begin + len);
        Ok(entry)
    }

    fn add() -> &'static Self {
        let entry = Box::leak(Box::new(Self {
            taken: AtomicBool::new(true),
            version: AtomicU32::new(0),
            begin: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            damaged: AtomicBool::new(false),
            next: ptr::null(),
        }));
        let mut first = FIRST.load(Ordering::Relaxed);
        loop {
            entry.next = first;
            // Release: SYNC with `FIRST` load in `all`: the entry.
            match FIRST.compare_exchange(first, entry, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return entry,
                Err(found) => first = found,
            }
        }
    }

    /// Gives the entry back, before the mapping is unmapped. The owner must not use the entry
    /// afterwards.
    pub(crate) fn give_back(&self) {
        self.set(0, 0);
        // Release: SYNC with `taken` compare_exchange in `take`: the version.
        self.taken.store(false, Ordering::Release);
    }

    fn set(&self, begin: usize, end: usize) {
        // Relaxed: only the owner writes this field.
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // SYNC with the fence in `covers`: a reader that sees a bound written below also sees the
        // odd version.
        fence(Ordering::Release);
        self.begin.store(begin, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        // Release: SYNC with `version` load in `covers`: both bounds.
        self.version.store(version + 2, Ordering::Release);
    }

    /// Whether `address` lies in the mapping. In the handler the answer is no for a mapping that
    /// its owner is just writing. The interrupted thread does not use such a mapping.
    fn covers(&self, address: usize) -> bool {
        // SYNC with `version` store in `set`: the bounds.
        let version = self.version.load(Ordering::Acquire);
        let bounds = self.begin.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed);
        // SYNC with the fence in `set`.
        fence(Ordering::Acquire);
        version.is_multiple_of(2)
            && self.version.load(Ordering::Relaxed) == version
            && bounds.contains(&address)
    }

    /// Whether a page of the mapping was replaced. What was written to that page did not reach the
    /// peer.
    #[inline]
    pub(crate) fn is_damaged(&self) -> bool {
        // Relaxed: a thread that has written learns of the fault from the handler on its own kernel
        // thread.
        self.damaged.load(Ordering::Relaxed)
    }
}

fn all() -> impl Iterator<Item = &'static MappingEntry> {
    // Acquire: SYNC with `FIRST` compare_exchange in `add`: the entry, and through it the earlier
    // entries.
    let first: *const MappingEntry = FIRST.load(Ordering::Acquire);
    // SAFETY: the pointer is null, or points to an entry that is never freed, as in
    // `MappingEntry::next`.
    let entry = |at: *const MappingEntry| unsafe { at.as_ref::<'static>() };
    std::iter::successors(entry(first), move |last| entry(last.next))
}

/// Makes the replacement page, and installs the handler.
fn install() -> io::Result<Means> {
    // SAFETY: it has no preconditions.
    let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
    let page = unsafe { libc::mmap(ptr::null_mut(), size, access, kind | libc::MAP_POPULATE, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero is a value of this plain C struct.
    let mut new: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut before = new;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    new.sa_sigaction = on_refusal as *const () as libc::sighandler_t;
    // SAFETY: the handler has the signature that goes with the flags, and both structs are whole.
    match unsafe { libc::sigaction(libc::SIGBUS, &new, &mut before) } {
        0 => Ok(Means { page: page as usize, size, before }),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_refusal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // The means are missing only while they are being installed. The list is empty then.
    let Some(means) = MEANS.get().and_then(Option::as_ref) else { return };
    // SAFETY: the kernel gives a handler a whole struct.
    let told = unsafe { &*info };
    // SAFETY: this signal has an address.
    let address = unsafe { told.si_addr() } as usize;
    // A hardware memory error is not handled here, because the data is lost then.
    let refused = told.si_code == libc::BUS_ADRERR;
    if let Some(entry) = all().find(|entry| refused && entry.covers(address)) {
        // Set before the page is there, so that no thread writes to the page and then finds no
        // damage.
        entry.damaged.store(true, Ordering::SeqCst);
        if exchange(means, address & !(means.size - 1)) {
            return;
        }
    }
    pass_on(&means.before, signal, info, context);
}

/// Puts the replacement page at `address`. This takes no memory except for the mapping.
fn exchange(means: &Means, address: usize) -> bool {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let (page, to) = (means.page as *mut libc::c_void, address as *mut libc::c_void);
    // SAFETY: for a shared mapping, an old size of 0 makes a second mapping of the same page. The
    // mapping that it replaces is accessed by atomics and opaque copies alone, and its owner
    // expects any bytes there.
    let done = unsafe { libc::mremap(page, 0, means.size, flags, to) };
    done != libc::MAP_FAILED
}
