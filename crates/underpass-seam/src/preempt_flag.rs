//! A flag of the calling kernel thread and of the signals that interrupt it: whether it is in a few
//! instructions that a signal's work should wait for.
//!
//! The flag's address is found anew by each access, so that a user-level thread which has moved to
//! another kernel thread meanwhile, of which the compiler knows nothing, finds that one's.

#[cfg(all(target_arch = "x86_64", not(underpass_loom), not(miri)))]
mod here {
    // Zero: none. One: begun. Two more: a signal came.
    core::arch::global_asm!(
        ".pushsection .tbss.underpass_preempt_flag,\"awT\",@nobits",
        ".hidden underpass_preempt_flag",
        ".globl underpass_preempt_flag",
        ".type underpass_preempt_flag, @tls_object",
        ".size underpass_preempt_flag, 1",
        "underpass_preempt_flag:",
        ".zero 1",
        ".popsection",
    );

    /// Begins such a section. They don't nest. A store.
    #[inline(always)]
    pub fn begin() {
        // SAFETY: it writes our own byte of this kernel thread.
        unsafe {
            core::arch::asm!(
                "mov {at}, qword ptr [rip + underpass_preempt_flag@GOTTPOFF]",
                "mov byte ptr fs:[{at}], 1",
                at = out(reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Ends it, and says whether a signal came; then [`clear`] comes next.
    #[inline(always)]
    #[must_use = "its work is still to be done"]
    pub fn end() -> bool {
        // SAFETY: as above; and it is one instruction, so a signal comes before or after it.
        unsafe {
            core::arch::asm!(
                "mov {at}, qword ptr [rip + underpass_preempt_flag@GOTTPOFF]",
                "dec byte ptr fs:[{at}]",
                "jnz {came}",
                at = out(reg) _,
                came = label { return true },
                options(nostack),
            );
        }
        false
    }

    /// Forgets that a signal came.
    #[inline(never)]
    pub fn clear() {
        // SAFETY: as above.
        unsafe {
            core::arch::asm!(
                "mov {at}, qword ptr [rip + underpass_preempt_flag@GOTTPOFF]",
                "mov byte ptr fs:[{at}], 0",
                at = out(reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    fn get() -> u8 {
        let flag: u8;
        // SAFETY: as above.
        unsafe {
            core::arch::asm!(
                "mov {at}, qword ptr [rip + underpass_preempt_flag@GOTTPOFF]",
                "mov {flag}, byte ptr fs:[{at}]",
                at = out(reg) _,
                flag = out(reg_byte) flag,
                options(nostack, preserves_flags, readonly),
            );
        }
        flag
    }

    /// Whether there is such a section now.
    #[inline(never)]
    pub fn is_on() -> bool {
        get() != 0
    }

    /// In a signal handler: has the section, if there is one, know of it. Says whether there is
    /// one.
    #[inline(never)]
    pub fn defer() -> bool {
        let on = get() != 0;
        if on {
            // SAFETY: as above; the section that was interrupted does nothing meanwhile.
            unsafe {
                core::arch::asm!(
                    "mov {at}, qword ptr [rip + underpass_preempt_flag@GOTTPOFF]",
                    "or byte ptr fs:[{at}], 2",
                    at = out(reg) _,
                    options(nostack),
                );
            }
        }
        on
    }
}

/// Without assembly: calls, which find the address anew.
#[cfg(not(all(target_arch = "x86_64", not(underpass_loom), not(miri))))]
mod here {
    use core::sync::atomic::{AtomicU8, Ordering, compiler_fence};

    thread_local!(static FLAG: AtomicU8 = const { AtomicU8::new(0) });

    #[inline(never)]
    pub fn begin() {
        // Relaxed, all: of one kernel thread.
        FLAG.with(|flag| flag.store(1, Ordering::Relaxed));
        compiler_fence(Ordering::SeqCst);
    }

    #[inline(never)]
    #[must_use = "its work is still to be done"]
    pub fn end() -> bool {
        compiler_fence(Ordering::SeqCst);
        FLAG.with(|flag| flag.fetch_sub(1, Ordering::Relaxed) != 1)
    }

    #[inline(never)]
    pub fn clear() {
        FLAG.with(|flag| flag.store(0, Ordering::Relaxed));
    }

    #[inline(never)]
    pub fn is_on() -> bool {
        FLAG.with(|flag| flag.load(Ordering::Relaxed) != 0)
    }

    #[inline(never)]
    pub fn defer() -> bool {
        is_on() && FLAG.with(|flag| flag.fetch_or(2, Ordering::Relaxed) != 0)
    }
}

pub use here::{begin, clear, defer, end, is_on};

#[cfg(all(test, not(underpass_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_told_of_a_section_and_the_section_of_it() {
        assert!(!defer() && !is_on());
        begin();
        assert!(is_on());
        assert!(!end() && !is_on());
        begin();
        assert!(defer() && defer());
        assert!(!std::thread::spawn(is_on).join().unwrap(), "of one kernel thread");
        assert!(end());
        clear();
        assert!(!defer());
    }
}
