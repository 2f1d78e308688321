//! The handler of memory faults, and the stack on which it runs.

use crate::StackMemory;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

/// An access to memory that is not mapped or not accessible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The address that was accessed.
    pub address: usize,
    /// The address of the instruction, or 0 where it is not known.
    pub instruction: usize,
}

static HANDLER: OnceLock<fn(Fault)> = OnceLock::new();
/// The action for faults before [`install`].
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Calls `handler` for each fault of this process. It runs on the kernel thread's own fault
/// [`stack`] if that thread has one. When it returns, the earlier action for faults is taken: by
/// default the process dies.
///
/// `handler` may do only what a signal handler may. The interrupted code may hold any lock.
///
/// # Errors
/// `AlreadyExists` if another handler was given to this function before.
pub fn install(handler: fn(Fault)) -> io::Result<()> {
    if *HANDLER.get_or_init(|| handler) as usize != handler as usize {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "this process has another handler already"));
    }
    // SAFETY: all-zero is a value of this plain C struct.
    let mut new: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut old = new;
    // SAFETY: it asks only; `old` is a whole struct.
    if unsafe { libc::sigaction(libc::SIGSEGV, ptr::null(), &mut old) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let ours = on_fault as *const () as libc::sighandler_t;
    if old.sa_sigaction == ours || BEFORE.set(old).is_err() {
        return Ok(());
    }
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    new.sa_sigaction = ours;
    // SAFETY: the handler has the signature that goes with the flags.
    match unsafe { libc::sigaction(libc::SIGSEGV, &new, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A kernel thread's stack for fault handlers. The same kernel thread has to drop it.
#[derive(Debug)]
pub struct FaultStack {
    _memory: StackMemory,
    /// The stack belongs to this kernel thread.
    _not_send: PhantomData<*const ()>,
}

/// Gives the calling kernel thread a stack of `size` bytes for fault handlers, in place of its
/// earlier one. The handler can then report an overflow of the thread's usual stack.
///
/// # Errors
/// `OutOfMemory`.
pub fn stack(size: usize) -> io::Result<FaultStack> {
    let memory = StackMemory::new(size)?;
    let usable = ptr::with_exposed_provenance_mut(memory.top() - memory.usable());
    let new = libc::stack_t { ss_sp: usable, ss_flags: 0, ss_size: memory.usable() };
    // SAFETY: nothing else uses the memory. It stays until `FaultStack` is dropped, which first
    // ends this use of it.
    if unsafe { libc::sigaltstack(&new, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(FaultStack { _memory: memory, _not_send: PhantomData })
}

impl Drop for FaultStack {
    fn drop(&mut self) {
        let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: this takes the memory out of use. The calling kernel thread is not on that stack,
        // because its handlers have returned.
        let _ = unsafe { libc::sigaltstack(&none, ptr::null_mut()) };
    }
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if let Some(handler) = HANDLER.get() {
        // SAFETY: the handler was installed with `SA_SIGINFO`, so the kernel passes a whole struct.
        let info = unsafe { &*info };
        // SAFETY: this signal has an address.
        let address = unsafe { info.si_addr() } as usize;
        handler(Fault { address, instruction: instruction(context) });
    }
    if let Some(before) = BEFORE.get() {
        pass_on(before, signal, info, context);
    }
}

/// Takes the action for `signal` that was in force `before` a handler of this process was
/// installed. Runs in that handler.
pub(crate) fn pass_on(
    before: &libc::sigaction,
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: the default action takes no handler. The fault occurs again at once, and the
            // process dies of it.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Told = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: a handler that is installed with this flag has this signature.
            let handler = unsafe { std::mem::transmute::<libc::sighandler_t, Told>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler that is installed without that flag has this signature.
            let handler = unsafe { std::mem::transmute::<libc::sighandler_t, extern "C" fn(i32)>(handler) };
            handler(signal);
        }
    }
}

/// The interrupted instruction, in a handler that was given `context`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn instruction(context: *mut libc::c_void) -> usize {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the handler was installed with `SA_SIGINFO`, so the kernel passes a whole struct.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] as usize }
}

/// The interrupted instruction: not known on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn instruction(_context: *mut libc::c_void) -> usize {
    0
}
