//! Sections of exclusive services: what a thread gives back while it waits, and by which number the
//! calls are known that it makes meanwhile.
//!
//! A section lies on the stack of its thread, and the control block points to it. The protocol and
//! its proof are in `underpass-rpc/src/dispatch/exclusive/README.md`; E1 to S3 are its steps.

use crate::block::control::{Control, flag};
use crate::sched::scheduler;
use crate::wait::call_cancellation::let_calls_end;
use crate::wait::me::{control, known};
use std::cell::Cell;
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

/// Something within which a thread runs. Only its thread uses it, and the spare kernel thread of a
/// blocking call, for which that thread waits.
pub(crate) struct Section {
    kind: Kind,
    /// The section around it, or null.
    outer: *const Section,
}

/// The pointers are valid while the section is.
enum Kind {
    /// A method of an exclusive service. `left`: the thread has given the token back, to wait.
    Method { token: *const dyn SectionToken, at_waits: AtWaits, left: Cell<bool> },
    /// A call that came with these numbers, or work on behalf of one.
    Numbers(*const [u64]),
    /// A blocking call that a spare kernel thread runs. The section around it is not left.
    Blocking,
}

/// A thread's current section, or null.
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

/// The token that the calling thread gives back when it waits, and whether it has done so.
///
/// # Safety
/// `section` is null, or a section of the calling thread.
#[inline]
unsafe fn left_at_waits<'a>(mut section: *const Section) -> Option<(&'a dyn SectionToken, &'a Cell<bool>)> {
    // SAFETY: as the caller says. A section lies within the one that is its outer.
    while let Some(now) = unsafe { section.as_ref() } {
        match &now.kind {
            Kind::Method { token, at_waits: AtWaits::Leaves, left } => {
                // SAFETY: the token outlives the section.
                return Some((unsafe { &**token }, left));
            }
            Kind::Numbers(_) => section = now.outer,
            Kind::Method { .. } | Kind::Blocking => break,
        }
    }
    None
}

/// Whether `me`, the calling thread, has a section to leave when it waits.
#[inline]
pub(crate) fn leaves_at_waits(me: &'static Control) -> bool {
    // SAFETY: it is the calling thread's own.
    me.has(flag::SECTIONS) && unsafe { left_at_waits(me.section.get()) }.is_some_and(|(_, left)| !left.get())
}

/// The calling thread has left its current section, if that one is left at waits. It is back when
/// this is dropped.
pub(crate) struct OutOfSection {
    section: *const Section,
}

impl OutOfSection {
    /// E1 and S1, for the calling thread.
    #[inline]
    pub(crate) fn of(me: &'static Control) -> Self {
        let section = me.section.get();
        // SAFETY: it is the calling thread's own.
        match unsafe { left_at_waits(section) } {
            Some((token, left)) if !left.replace(true) => {
                token.give();
                Self { section }
            }
            _ => Self { section: ptr::null() },
        }
    }
}

impl Drop for OutOfSection {
    /// S3 and D2.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: null, or the calling thread's own. The thread that makes this drops it, before it
        // leaves the frame of the section.
        if let Some((token, left)) = unsafe { left_at_waits(self.section) } {
            token.take_again();
            left.set(false);
        }
    }
}

/// A section is the current one of its thread, until this is dropped.
struct Inside {
    me: &'static Control,
    before: *const Section,
}

impl Inside {
    /// # Safety
    /// `section` is null, or it outlives this.
    #[inline]
    unsafe fn enter(me: &'static Control, section: *const Section) -> Self {
        let before = me.section.get();
        me.section.set(section);
        Self { me, before }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        self.me.section.set(self.before);
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
    let _out = OutOfSection::of(me);
    take()?;
    let _held = Held(token);
    // SAFETY: only the lifetime changes. Nobody uses the pointer after the section, which ends
    // before this function does.
    let token = unsafe {
        mem::transmute::<*const (dyn SectionToken + '_), *const (dyn SectionToken + 'static)>(token)
    };
    let kind = Kind::Method { token, at_waits, left: Cell::new(false) };
    let section = Section { kind, outer: me.section.get() };
    // SAFETY: it is dropped before `section`.
    let _inside = unsafe { Inside::enter(me, &raw const section) };
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
    // SAFETY: it is dropped before `section`.
    let _inside = unsafe { Inside::enter(me, &raw const section) };
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
        match &now.kind {
            Kind::Method { token, at_waits, left } => {
                if !left.get() && (stays || *at_waits == AtWaits::Stays) {
                    // SAFETY: the token outlives the section.
                    each(unsafe { &**token }.number());
                }
            }
            // SAFETY: the numbers outlive the section.
            Kind::Numbers(numbers) => unsafe { &**numbers }.iter().for_each(|&number| each(number)),
            Kind::Blocking => stays = true,
        }
        section = now.outer;
    }
}

/// The sections of a thread that makes a blocking call, for the spare kernel thread that runs it.
pub(crate) struct OnBehalf(*const Section);

// SAFETY: the calling thread waits for the end of the blocking call, and uses them no more until
// then.
unsafe impl Send for OnBehalf {}

impl OnBehalf {
    /// Runs `call` on behalf of that thread.
    pub(crate) fn run<R>(self, call: impl FnOnce() -> R) -> R {
        if self.0.is_null() {
            return call();
        }
        // SAFETY: the thread whose section it is waits for the end of `call`.
        let _inside = unsafe { Inside::enter(control(), self.0) };
        call()
    }
}

/// Runs `make`, in which `me`, the calling thread, makes a blocking call and waits for it. It stays
/// in its current section.
pub(crate) fn make_blocking_call<R>(me: &'static Control, make: impl FnOnce(OnBehalf) -> R) -> R {
    let outer = me.section.get();
    if outer.is_null() {
        return make(OnBehalf(outer));
    }
    let section = Section { kind: Kind::Blocking, outer };
    // SAFETY: it is dropped before `section`.
    let _inside = unsafe { Inside::enter(me, &raw const section) };
    make(OnBehalf(&raw const section))
}
