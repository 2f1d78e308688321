//! The switch between stacks on x86-64: one indirect jump.
//!
//! A call and a return on the way would be cheaper to write, but returns are predicted by the calls
//! before them, and after a switch those were another stack's: each mispredicted return costs more
//! than all of this (measured in decision 0012).

use crate::Stack;
use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;

/// A stack on which something is suspended: the address of what it needs to go on, which is pushed
/// onto it.
///
/// ```text
/// sp -> where to go on | rbx | rbp | the suspended frames ...
/// ```
/// All other registers are given up by who switches, the floating-point control words are left as
/// they are.
#[derive(Debug, Default)]
pub(crate) struct Suspended(Cell<usize>, #[cfg(underpass_tsan)] crate::tsan_fiber::Fiber);

// The first thing that runs on a stack. It has no caller: unwinders and debuggers stop here. Two
// words above its own stay unused, since perf's unwinder doesn't read the last word of a stack.
global_asm!(
    ".pushsection .text.underpass_context_entry,\"ax\",@progbits",
    ".balign 16",
    ".globl underpass_context_entry",
    ".hidden underpass_context_entry",
    ".type underpass_context_entry,@function",
    "underpass_context_entry:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    "mov rdi, [rsp + 8]",
    "mov rax, [rsp + 16]",
    "add rsp, 16",
    "xor ebp, ebp",
    "call rax",
    "ud2",
    ".cfi_endproc",
    ".size underpass_context_entry, . - underpass_context_entry",
    ".popsection",
);

// Calls `rsi` with `rdx`, and says that whoever looks for the caller of that call finds what is
// suspended at `rdi`: where it goes on, `rbx`, `rbp`, and the stack pointer above them. So
// unwinders see the suspended frames while nothing runs on their stack.
global_asm!(
    ".pushsection .text.underpass_context_look,\"ax\",@progbits",
    ".balign 16",
    ".globl underpass_context_look",
    ".hidden underpass_context_look",
    ".type underpass_context_look,@function",
    "underpass_context_look:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbx, -16",
    "mov rbx, rdi",
    "mov rdi, rdx",
    ".cfi_remember_state",
    ".cfi_def_cfa rbx, 24",
    ".cfi_offset rip, -24",
    ".cfi_offset rbx, -16",
    ".cfi_offset rbp, -8",
    "call rsi",
    "nop",
    ".cfi_restore_state",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    ".cfi_restore rbx",
    "ret",
    ".globl underpass_context_look_end",
    ".hidden underpass_context_look_end",
    "underpass_context_look_end:",
    ".cfi_endproc",
    ".size underpass_context_look, . - underpass_context_look",
    ".popsection",
);

unsafe extern "C" {
    fn underpass_context_entry();
    fn underpass_context_look(sp: usize, look: extern "C" fn(*mut c_void), with: *mut c_void);
    fn underpass_context_look_end();
}

/// The code that calls who looks at suspended frames: its own callers come after it.
pub(crate) fn looking() -> Range<usize> {
    underpass_context_look as *const () as usize..underpass_context_look_end as *const () as usize
}

/// The instructions of one copy of the switch, relative to where each of the two stands. What is in
/// line has no unwind information of its own, so the linker gathers where it is.
#[repr(C)]
struct Site {
    begin: i32,
    end: i32,
}

unsafe extern "C" {
    static __start_underpass_switches: Site;
    static __stop_underpass_switches: Site;
}

impl Site {
    fn holds(&self, ip: usize) -> bool {
        let begin = (&raw const self.begin).addr().wrapping_add_signed(self.begin as isize);
        let end = (&raw const self.end).addr().wrapping_add_signed(self.end as isize);
        // Before the first of its instructions all is as before.
        begin < ip && ip < end
    }
}

/// Whether the instruction at `ip` belongs to a switch: who is interrupted there can't be unwound.
pub(crate) fn switching(ip: usize) -> bool {
    let (begin, end) = (&raw const __start_underpass_switches, &raw const __stop_underpass_switches);
    let sites = (end.addr() - begin.addr()) / size_of::<Site>();
    // SAFETY: the linker lays the sites out one behind the other between the two, for good.
    let sites = unsafe { std::slice::from_raw_parts(begin, sites) };
    sites.iter().any(|site| site.holds(ip))
}

impl Suspended {
    /// Will call `first` with `argument` at the top of `stack`. `first` must not return.
    pub(crate) fn begin(stack: &Stack, first: extern "C" fn(usize) -> !, argument: usize) -> Self {
        let words = [underpass_context_entry as *const () as usize, argument, first as usize, 0];
        let sp = stack.bounds().1 - size_of_val(&words);
        // SAFETY: the four words lie at the upper end of a stack that nobody uses yet, aligned as
        // its end is.
        unsafe { (sp as *mut [usize; 4]).write(words) };
        Self(
            Cell::new(sp),
            #[cfg(underpass_tsan)]
            crate::tsan_fiber::Fiber::new(),
        )
    }

    /// Calls `look` such that an unwinder which begins there comes to the suspended frames. `look`
    /// must not unwind by itself.
    ///
    /// # Safety
    /// Something is suspended here, its first function has begun, and nobody has it go on
    /// meanwhile. `look` bears `with`.
    pub(crate) unsafe fn look(&self, look: extern "C" fn(*mut c_void), with: *mut c_void) {
        // SAFETY: it calls `look` as its signature says, and touches nothing else.
        unsafe { underpass_context_look(self.0.get(), look, with) };
    }

    /// The lowest address of what is suspended here.
    pub(crate) fn lowest(&self) -> usize {
        self.0.get()
    }

    /// Suspends the caller in `self`, and has what is suspended in `to` go on with `word`. Returns
    /// with the word that the caller is given to go on.
    ///
    /// # Safety
    /// Something is suspended in `to`, nobody else has it go on, and it bears to run on this kernel
    /// thread. The caller bears to go on wherever it is made to.
    #[inline(always)]
    pub(crate) unsafe fn switch(&self, to: &Suspended, word: usize) -> usize {
        let mut word = word;
        #[cfg(underpass_tsan)]
        self.1.switch(&to.1);
        // SAFETY: it saves what it does not give up, below the stack pointer and nowhere else, and
        // comes back to the label with the same stack pointer. `options` doesn't say `nostack`, so
        // nothing lives in the red zone.
        unsafe {
            asm!(
                ".pushsection underpass_switches,\"aR\",@progbits",
                ".balign 4",
                ".long 3f - .",
                ".long 4f - .",
                ".popsection",
                "3:",
                "push rbp",
                "push rbx",
                "lea rax, [rip + 2f]",
                "push rax",
                "mov [rsi], rsp",
                "mov rsp, rdx",
                "jmp [rsp]",
                "2:",
                "add rsp, 8",
                "pop rbx",
                "pop rbp",
                "4:",
                in("rsi") self.0.as_ptr(),
                in("rdx") to.0.get(),
                inout("rdi") word,
                out("r12") _, out("r13") _, out("r14") _, out("r15") _,
                lateout("rsi") _, lateout("rdx") _,
                clobber_abi("C"),
            );
        }
        word
    }
}
