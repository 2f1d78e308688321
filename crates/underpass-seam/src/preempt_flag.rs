//! A flag of the calling kernel thread for its own signal handlers: it is in a short section of a
//! few instructions, and the work of a signal has to wait until the section ends.
//!
//! Each access computes the flag's address anew. A user-level thread may have moved to another
//! kernel thread in between, of which the compiler knows nothing, and must find the flag of that
//! one.

#[cfg(all(target_arch = "x86_64", not(underpass_loom), not(miri)))]
mod here {
    // 0: no section. 1: in a section. 3: in a section, and a signal came.
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

    /// Begins a section: one store. Sections don't nest.
    #[inline(always)]
    pub fn begin() {
        // SAFETY: it writes our own byte, which belongs to this kernel thread.
        unsafe {
            core::arch::asm!(
                "mov {at}, qword ptr [rip + underpass_preempt_flag@GOTTPOFF]",
                "mov byte ptr fs:[{at}], 1",
                at = out(reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Ends the section. Returns whether a signal came; then the caller calls [`clear`] next.
    #[inline(always)]
    #[must_use = "its work is still to be done"]
    pub fn end() -> bool {
        // SAFETY: as above. It is one instruction, so a signal comes before or after it.
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

    /// Clears the mark that a signal came.
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

    /// Whether the kernel thread is in a section.
    #[inline(never)]
    pub fn is_on() -> bool {
        get() != 0
    }

    /// For a signal handler: marks the section, if there is one, to say that a signal came. Returns
    /// whether there is a section.
    #[inline(never)]
    pub fn defer() -> bool {
        let on = get() != 0;
        if on {
            // SAFETY: as above; the interrupted section does nothing meanwhile.
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

/// Without assembly: function calls, which compute the address anew.
#[cfg(not(all(target_arch = "x86_64", not(underpass_loom), not(miri))))]
mod here {
    use core::sync::atomic::{AtomicU8, Ordering, compiler_fence};

    thread_local!(static FLAG: AtomicU8 = const { AtomicU8::new(0) });

    #[inline(never)]
    pub fn begin() {
        // Relaxed, all: only one kernel thread accesses the flag.
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
    fn a_signal_finds_the_section_and_marks_it() {
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
