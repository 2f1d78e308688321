//! The calls of the C library that make a container.

use std::ffi::{CString, c_char, c_int, c_ulong, c_void};
use std::io;
use std::path::Path;

/// Flags of namespaces for `unshare`.
pub const TIME: c_int = 0x80;
pub const MOUNTS: c_int = 0x2_0000;
pub const HOST_NAME: c_int = 0x400_0000;
pub const IPC: c_int = 0x800_0000;
pub const USERS: c_int = 0x1000_0000;
pub const PROCESSES: c_int = 0x2000_0000;
pub const NETWORK: c_int = 0x4000_0000;

/// Flags of mounts for `mount`.
pub const OF_ITS_OWN: c_ulong = 0x4000 | (1 << 18);
pub const THE_SAME: c_ulong = 0x1000 | 0x4000;

unsafe extern "C" {
    fn unshare(namespaces: c_int) -> c_int;
    fn mount(
        from: *const c_char,
        to: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
    fn umount2(at: *const c_char, flags: c_int) -> c_int;
    #[link_name = "fork"]
    fn c_fork() -> c_int;
    fn _exit(status: c_int) -> !;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn syscall(number: i64, ...) -> i64;
}

fn told(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn text(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().as_os_str().as_encoded_bytes()).expect("no path of the tests has a zero in it")
}

/// Enters new namespaces, for this process or for its children.
pub fn leave(namespaces: c_int) -> io::Result<()> {
    // SAFETY: the call takes a number. The table of files is not among the things that it unshares.
    told(unsafe { unshare(namespaces) })
}

/// Mounts `from`, or a file system of `kind`, at `to`.
pub fn mount_at(from: impl AsRef<Path>, to: impl AsRef<Path>, kind: &str, flags: c_ulong) -> io::Result<()> {
    let (from, to, kind) = (text(from), text(to), text(kind));
    // SAFETY: three texts that outlive the call.
    told(unsafe { mount(from.as_ptr(), to.as_ptr(), kind.as_ptr(), flags, std::ptr::null()) })
}

/// Makes `root` the root directory, and removes the old one.
pub fn enter(root: &Path) -> io::Result<()> {
    /// `MNT_DETACH`.
    const LATER: c_int = 2;
    let number = underpass_os::calls::number("pivot_root").ok_or(io::ErrorKind::Unsupported)?;
    std::env::set_current_dir(root)?;
    let here = text(".");
    // SAFETY: two texts that outlive the call.
    told(unsafe { syscall(number, here.as_ptr(), here.as_ptr()) } as c_int)?;
    // The old root now covers the new one. SAFETY: the text outlives the call.
    told(unsafe { umount2(here.as_ptr(), LATER) })?;
    std::env::set_current_dir("/")
}

/// Continues in a child, which dies with this process. This process waits for it and exits with its
/// status.
pub fn go_on_in_a_child() -> io::Result<()> {
    // SAFETY: this process has one kernel thread.
    let process = unsafe { c_fork() };
    told(process)?;
    if process == 0 {
        return underpass_os::process::die_with_parent();
    }
    let mut status = 0;
    // SAFETY: a child of ours, and a place for its status.
    told(unsafe { waitpid(process, &raw mut status, 0) })?;
    std::process::exit(if status & 0x7f == 0 { status >> 8 & 0xff } else { 101 });
}

/// Forks a child that only waits for the end of its standard input. Returns its number.
pub fn idle_child() -> io::Result<c_int> {
    // SAFETY: what the child calls needs no other kernel thread of this process.
    let process = unsafe { c_fork() };
    told(process)?;
    if process == 0 {
        while io::Read::read(&mut io::stdin(), &mut [0; 64]).is_ok_and(|read| read > 0) {}
        // SAFETY: it runs no destructor of the parent's.
        unsafe { _exit(0) }
    }
    Ok(process)
}

/// Makes `directory` the directory of names from now on.
pub fn look_for_names_in(directory: &str) {
    // SAFETY: this process has one kernel thread.
    unsafe { std::env::set_var("UNDERPASS_DIR", directory) };
}
