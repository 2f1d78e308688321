//! System calls as somebody makes them who has taken a process over.

use underpass_os::calls;

/// Makes the system call `name`. Gives what it returns, or the `errno`.
pub fn call(name: &str, arguments: [u64; 5]) -> Result<u64, i64> {
    let number = calls::number(name).unwrap_or_else(|| panic!("there is no system call {name}"));
    let [a, b, c, d, e] = arguments;
    let result: i64;
    // SAFETY: it is not safe at all, as it is meant to be: the tests pass no memory but what they own.
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

/// A new process that ends at once; `flags` as `clone` takes them.
pub fn process(flags: u64) -> Result<u64, i64> {
    let made = if flags == 0 { call("fork", [0; 5]) } else { call("clone", [flags, 0, 0, 0, 0]) };
    if made == Ok(0) {
        // The child.
        let _ = call("exit_group", [0; 5]);
    }
    made
}

/// Writes where no memory is.
pub fn crash() {
    let nowhere = std::ptr::without_provenance_mut::<u8>(8);
    // SAFETY: it is not: the process dies of it, which is what is asked for.
    unsafe { nowhere.write_volatile(1) };
}
