//! Sections of exclusive services: what a thread gives back while it waits, and by which number the
//! calls are known that it makes meanwhile.
//!
//! A section lies on the stack of its thread, and the control block points to it. The protocol and
//! its proof are in `underpass-rpc/src/dispatch/exclusive/README.md`; E1 to S3 are its steps.

use crate::block::control::{Control, flag};
use crate::sched::scheduler;
use crate::wait::call_cancellation::let_calls_end;
use crate::wait::me::{control, known};
use std::mem;
use std::ptr;
use underpass_seam::atomic::{AtomicPtr, Ordering};

/// The right to run an exclusive service. One section at a time holds it.
pub trait SectionToken: Sync {
    /// S1, D1: gives it back. Must not wait. Only its holder calls this.
    fn give(&self);
    /// S3: takes it again. Waits for as long as it takes.
    fn take_again(&self);
    /// N1: the number by which a call is known that is made on behalf of the section that holds it.
    /// Only its holder calls this.
    fn number(&self) -> u64;
}

/// What a section does while its thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtWaits {
    /// It gives its token back.
    Leaves,
    /// It keeps its token.
    Stays,
}

/// Something within which a thread runs.
pub(crate) struct Section {
    kind: Kind,
    /// The section around it, or null.
    outer: *const Section,
}

/// The pointers are valid while the section is.
enum Kind {
    /// A method of an exclusive service.
    Method { token: *const dyn SectionToken, at_waits: AtWaits },
    /// A call that came with these numbers, or work on behalf of one.
    Numbers(*const [u64]),
    /// A blocking call on a spare kernel thread. Its caller stays in its own current section.
    Blocking,
}

/// A thread's current section, or null. Only the thread itself uses it.
pub(crate) struct CurrentSection(AtomicPtr<Section>);

impl CurrentSection {
    pub(crate) fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    // Relaxed, here and below: one thread uses it.
    #[inline]
    fn get(&self) -> *const Section {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, section: *const Section) {
        self.0.store(section.cast_mut(), Ordering::Relaxed);
    }
}

impl Section {
    /// The token that the section gives back while its thread waits.
    ///
    /// # Safety
    /// `section` is null, or a section of the calling thread.
    #[inline]
    unsafe fn left_at_waits<'a>(mut section: *const Self) -> Option<&'a dyn SectionToken> {
        // SAFETY: as the caller says. A section lies within the one that is its outer.
        while let Some(now) = unsafe { section.as_ref() } {
            match now.kind {
                // SAFETY: the token outlives the section.
                Kind::Method { token, at_waits: AtWaits::Leaves } => return Some(unsafe { &*token }),
                Kind::Numbers(_) => section = now.outer,
                Kind::Method { .. } | Kind::Blocking => break,
            }
        }
        None
    }
}

/// Whether `me`, the calling thread, leaves its current section when it waits.
#[inline]
pub(crate) fn leaves_at_waits(me: &'static Control) -> bool {
    // SAFETY: it is the calling thread's own.
    me.has(flag::SECTIONS) && unsafe { Section::left_at_waits(me.section.get()) }.is_some()
}

/// The calling thread is in no section until this is dropped, and has left the one that it was in,
/// if that one is left at waits.
pub(crate) struct OutOfSection {
    me: &'static Control,
    section: *const Section,
}

impl OutOfSection {
    /// E1 and S1, for the calling thread.
    #[inline]
    pub(crate) fn of(me: &'static Control) -> Self {
        let section = me.section.get();
        if !section.is_null() {
            me.section.set(ptr::null());
            // SAFETY: it is the calling thread's own, whose frame is alive.
            if let Some(token) = unsafe { Section::left_at_waits(section) } {
                token.give();
            }
        }
        Self { me, section }
    }
}

impl Drop for OutOfSection {
    /// S3 and D2.
    #[inline]
    fn drop(&mut self) {
        if !self.section.is_null() {
            // SAFETY: as above.
            if let Some(token) = unsafe { Section::left_at_waits(self.section) } {
                token.take_again();
            }
            self.me.section.set(self.section);
        }
    }
}

/// A section is the current one of its thread, until this is dropped.
struct Inside<'a> {
    me: &'static Control,
    outer: *const Section,
    _section: &'a Section,
}

impl<'a> Inside<'a> {
    #[inline]
    fn enter(me: &'static Control, section: &'a Section, outer: *const Section) -> Self {
        me.section.set(section);
        Self { me, outer, _section: section }
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.me.section.set(self.outer);
    }
}

/// Gives a token back.
struct Held<'a>(&'a dyn SectionToken);

impl Drop for Held<'_> {
    /// D1.
    #[inline]
    fn drop(&mut self) {
        self.0.give();
    }
}

/// Runs `method` as a section of the calling thread, once `take` has taken `token` for it. Before
/// that it leaves the current section, if that one is left at waits, and returns there at the end.
///
/// # Errors
/// Those of `take`, which has not taken the token then.
#[inline]
pub fn in_section<R, E>(
    token: &dyn SectionToken,
    at_waits: AtWaits,
    take: impl FnOnce() -> Result<(), E>,
    method: impl FnOnce() -> R,
) -> Result<R, E> {
    let me = control();
    if !me.has(flag::SECTIONS) {
        begin_sections(me);
    }
    let out = OutOfSection::of(me);
    take()?;
    let _held = Held(token);
    let token = ptr::from_ref(token);
    // SAFETY: only the lifetime changes. Nobody uses the pointer after the section, which ends
    // before this function does.
    let token = unsafe {
        mem::transmute::<*const (dyn SectionToken + '_), *const (dyn SectionToken + 'static)>(token)
    };
    let section = Section { kind: Kind::Method { token, at_waits }, outer: out.section };
    // Nothing is current after it: `out` restores what was.
    let _inside = Inside::enter(me, &section, ptr::null());
    Ok(method())
}

/// The calling thread will be in a section for the first time.
#[cold]
fn begin_sections(me: &'static Control) {
    me.set(flag::SECTIONS, true);
    // From now on each call asks within which sections it is made.
    let_calls_end();
}

/// Runs `work` on behalf of a call that came with these numbers. Calls that `work` makes carry
/// them.
pub fn with_section_numbers<R>(numbers: &[u64], work: impl FnOnce() -> R) -> R {
    if numbers.is_empty() {
        return work();
    }
    let me = control();
    if !me.has(flag::SECTIONS) {
        begin_sections(me);
    }
    let section = Section { kind: Kind::Numbers(numbers), outer: me.section.get() };
    let _inside = Inside::enter(me, &section, section.outer);
    work()
}

/// Runs `wait`, in which the calling thread waits, outside of its current section, if that one is
/// left at waits.
#[inline]
pub fn outside_section<R>(wait: impl FnOnce() -> R) -> R {
    let _out = known().filter(|me| leaves_at_waits(me)).map(OutOfSection::of);
    wait()
}

/// N1: calls `each` with the numbers of the sections within which the calling thread makes a call,
/// the latest first. `stays`: the thread, or its task, stays in its current section while that call
/// is under way.
pub fn section_numbers(stays: bool, mut each: impl FnMut(u64)) {
    let me = control();
    // SAFETY: it is the calling thread's own.
    unsafe { number(me.section.get(), stays, &mut each) };
    // In a blocking call on its own activation, the thread counts as a plain kernel thread.
    if let Some(caller) = scheduler::with(|own| own.outside.in_blocking_call.get()).flatten() {
        // SAFETY: `caller` waits for the end of the very code that runs here.
        unsafe { number(caller.section.get(), true, &mut each) };
    }
}

/// # Safety
/// `section` is null or a section of the calling thread, or of one that waits for it.
unsafe fn number(mut section: *const Section, mut stays: bool, each: &mut dyn FnMut(u64)) {
    // SAFETY: as the caller says. A section lies within the one that is its outer.
    while let Some(now) = unsafe { section.as_ref() } {
        match now.kind {
            Kind::Method { token, at_waits } => {
                if stays || at_waits == AtWaits::Stays {
                    // SAFETY: the token outlives the section.
                    each(unsafe { &*token }.number());
                }
                // E1 has left the section around this one.
                stays = false;
            }
            // SAFETY: the numbers outlive the section.
            Kind::Numbers(numbers) => unsafe { &*numbers }.iter().for_each(|&number| each(number)),
            Kind::Blocking => stays = true,
        }
        section = now.outer;
    }
}

/// The current section of a thread that makes a blocking call, for the spare kernel thread that
/// runs the call.
pub(crate) struct OnBehalf(*const Section);

// SAFETY: the calling thread stays in the section until the call has ended, and uses it no more
// meanwhile.
unsafe impl Send for OnBehalf {}

impl OnBehalf {
    /// The current section of `me`, the calling thread.
    pub(crate) fn of(me: &'static Control) -> Self {
        Self(me.section.get())
    }

    /// Runs `call` on behalf of that thread.
    pub(crate) fn run<R>(self, call: impl FnOnce() -> R) -> R {
        if self.0.is_null() {
            return call();
        }
        let me = control();
        let section = Section { kind: Kind::Blocking, outer: self.0 };
        let _inside = Inside::enter(me, &section, me.section.get());
        call()
    }
}

/// Runs `wait`, in which `me`, the calling thread, waits for a blocking call. It stays in its
/// current section.
pub(crate) fn staying_inside<R>(me: &'static Control, wait: impl FnOnce() -> R) -> R {
    let section = me.section.get();
    me.section.set(ptr::null());
    let result = wait();
    me.section.set(section);
    result
}
