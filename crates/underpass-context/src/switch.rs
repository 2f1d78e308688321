//! The switch between stacks on x86-64: one indirect jump.
//!
//! A call and a return would be simpler. But the processor predicts a return by the calls before
//! it, and after a switch these were calls on another stack. A mispredicted return costs more than
//! the whole switch (measured in decision 0012).

use crate::Stack;
use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;

/// A stack on which a computation is suspended: the address of what it needs to go on, which was
/// pushed onto the stack.
///
/// ```text
/// sp -> next instruction | rbx | rbp | the suspended frames ...
/// ```
/// The code that switches gives up the contents of all other registers. The floating-point control
/// words stay as they are.
#[derive(Debug, Default)]
pub(crate) struct Suspended(Cell<usize>, #[cfg(underpass_tsan)] crate::tsan_fiber::Fiber);

// The first code that runs on a stack. It has no caller, so unwinders and debuggers stop here. Two
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

// Calls `rsi` with `rdx`. The unwind information says that the caller of that call is the
// computation suspended at `rdi`: its next instruction, `rbx`, `rbp`, and the stack pointer above
// them. So unwinders find the suspended frames while nothing runs on their stack.
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

/// The code of `underpass_context_look`. In a backtrace, the suspended frames come after its frame.
pub(crate) fn looking() -> Range<usize> {
    underpass_context_look as *const () as usize..underpass_context_look_end as *const () as usize
}

/// The addresses of one inlined copy of the switch, each relative to the field that holds it.
/// Inlined code has no unwind information of its own, so the linker collects the addresses.
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
        // Before the first instruction the frame is unchanged, so unwinders can walk it.
        begin < ip && ip < end
    }
}

/// Whether the instruction at `ip` belongs to a switch. A thread that is interrupted there can't be
/// unwound.
pub(crate) fn switching(ip: usize) -> bool {
    let (begin, end) = (&raw const __start_underpass_switches, &raw const __stop_underpass_switches);
    let sites = (end.addr() - begin.addr()) / size_of::<Site>();
    // SAFETY: the linker puts the sites one after the other between the two symbols, for the
    // lifetime of the program.
    let sites = unsafe { std::slice::from_raw_parts(begin, sites) };
    sites.iter().any(|site| site.holds(ip))
}

impl Suspended {
    /// A computation that will call `first` with `argument` at the top of `stack`. `first` must not
    /// return.
    pub(crate) fn begin(stack: &Stack, first: extern "C" fn(usize) -> !, argument: usize) -> Self {
        let words = [underpass_context_entry as *const () as usize, argument, first as usize, 0];
        let sp = stack.bounds().1 - size_of_val(&words);
        // SAFETY: the four words lie at the upper end of a stack that is not in use yet, and are
        // aligned as that end is.
        unsafe { (sp as *mut [usize; 4]).write(words) };
        Self(
            Cell::new(sp),
            #[cfg(underpass_tsan)]
            crate::tsan_fiber::Fiber::new(),
        )
    }

    /// Calls `look` in such a way that an unwinder that begins there walks the suspended frames.
    /// `look` itself must not unwind.
    ///
    /// # Safety
    /// A computation is suspended here, its first function has begun, and no thread resumes it
    /// meanwhile. `look` accepts `with`.
    pub(crate) unsafe fn look(&self, look: extern "C" fn(*mut c_void), with: *mut c_void) {
        // SAFETY: it calls `look` by its signature, and touches nothing else.
        unsafe { underpass_context_look(self.0.get(), look, with) };
    }

    /// The lowest address of the suspended frames.
    pub(crate) fn lowest(&self) -> usize {
        self.0.get()
    }

    /// Suspends the caller in `self`, and resumes the computation in `to` with `word`. When the
    /// caller is resumed, this returns the word that it is resumed with.
    ///
    /// # Safety
    /// A computation is suspended in `to`, no other thread resumes it, and it may run on this
    /// kernel thread. The caller may go on on whatever kernel thread resumes it.
    #[inline(always)]
    pub(crate) unsafe fn switch(&self, to: &Suspended, word: usize) -> usize {
        let mut word = word;
        #[cfg(underpass_tsan)]
        self.1.switch(&to.1);
        // SAFETY: it saves all registers that it doesn't declare as clobbered. It writes only below
        // the stack pointer, and comes back to the label with the same stack pointer. `options`
        // doesn't say `nostack`, so nothing lives in the red zone.
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
