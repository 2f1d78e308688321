//! System calls as an attacker makes them who has taken a process over.

use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use underpass_os::calls;

/// Makes the system call `name`. Returns its result, or the `errno`.
pub fn call(name: &str, arguments: [u64; 5]) -> Result<u64, i64> {
    let number = calls::number(name).unwrap_or_else(|| panic!("there is no system call {name}"));
    let [a, b, c, d, e] = arguments;
    let result: i64;
    // SAFETY: this is deliberately unsafe. The tests pass only memory that they own.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") 0,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    if result < 0 { Err(-result) } else { Ok(result as u64) }
}

/// Starts a new process that ends at once. `flags` are those of `clone`.
pub fn process(flags: u64) -> Result<u64, i64> {
    let made = if flags == 0 { call("fork", [0; 5]) } else { call("clone", [flags, 0, 0, 0, 0]) };
    if made == Ok(0) {
        // This runs in the child.
        let _ = call("exit_group", [0; 5]);
    }
    made
}

/// Writes where no memory is.
pub fn crash() {
    let nowhere = std::ptr::without_provenance_mut::<u8>(8);
    // SAFETY: this is deliberately unsafe. The process dies of it, as the test wants.
    unsafe { nowhere.write_volatile(1) };
}

/// Handles `signal` and goes on. The handler changes nothing.
pub fn catch(signal: u64) -> Result<(), i64> {
    /// The layout that the kernel takes on this processor.
    #[repr(C)]
    struct Action {
        handler: u64,
        flags: u64,
        restorer: u64,
        mask: u64,
    }
    // `SA_RESTORER`. An interrupted system call fails and is not restarted.
    let restorer = go_back as *const () as u64;
    let action = Action { handler: go_on as *const () as u64, flags: 0x0400_0000, restorer, mask: 0 };
    call("rt_sigaction", [signal, address(&action), 0, 8, 0]).map(|_| ())
}

extern "C" fn go_on(_: i32) {}

/// `rt_sigreturn`.
#[unsafe(naked)]
extern "C" fn go_back() {
    core::arch::naked_asm!("mov eax, 15", "syscall")
}

/// The address of `value`, for a system call.
pub fn address<T>(value: &T) -> u64 {
    std::ptr::from_ref(value).expose_provenance() as u64
}

/// The most files that one message carries.
pub const MOST_FILES: usize = 253;

/// Sends a message over the socket `to` with [`MOST_FILES`] copies of `file`, without waiting.
pub fn send_files(to: RawFd, file: RawFd) -> Result<(), i64> {
    /// `cmsghdr` and its data.
    #[repr(C)]
    struct Control {
        len: u64,
        level: i32,
        kind: i32,
        files: [RawFd; MOST_FILES],
        rest: i32,
    }
    let byte = 0u8;
    // `iovec`.
    let parts = [address(&byte), 1];
    let len = (16 + MOST_FILES * size_of::<RawFd>()) as u64;
    // `SOL_SOCKET`, `SCM_RIGHTS`.
    let control = Control { len, level: 1, kind: 1, files: [file; MOST_FILES], rest: 0 };
    // `msghdr`.
    let message = [0, 0, address(&parts), 1, address(&control), len, 0];
    // `MSG_DONTWAIT | MSG_NOSIGNAL`.
    call("sendmsg", [to as u64, address(&message), 0x4040, 0, 0]).map(|_| ())
}

/// Two ends of a connection (`AF_UNIX`, `SOCK_SEQPACKET`) that nothing reads from.
pub fn pair() -> Result<[RawFd; 2], i64> {
    let ends = UnsafeCell::new([0; 2]);
    call("socketpair", [1, 5, 0, address(&ends), 0])?;
    Ok(ends.into_inner())
}
