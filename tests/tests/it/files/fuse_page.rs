//! A page of a file in a FUSE that never answers a read, for a user with namespaces of its own.

use crate::files::missing_page::{MissingPage, map};
use std::ffi::{CString, c_char, c_int, c_ulong, c_void};
use std::fs::File;
use std::io::{self, PipeReader, Read, pipe};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Child, Command};

unsafe extern "C" {
    fn mount(
        from: *const c_char,
        at: *const c_char,
        of: *const c_char,
        flags: c_ulong,
        data: *const c_void,
    ) -> c_int;
}

/// `MS_NOSUID` and `MS_NODEV`.
const FLAGS: c_ulong = 6;

/// Opens `directory`'s copy of the FUSE device and mounts it in `directory`. The error says why
/// this process may not.
pub fn mounted(directory: &Path) -> io::Result<File> {
    let device = File::options().read(true).write(true).open(directory.join("fuse"))?;
    let at = CString::new(directory.join("files").into_os_string().into_encoded_bytes())?;
    let options = CString::new(format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd()))?;
    let kind = c"fuse".as_ptr();
    // SAFETY: strings that end.
    match unsafe { mount(kind, at.as_ptr(), kind, FLAGS, options.as_ptr().cast()) } {
        0 => Ok(device),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The page, and the process that serves the FUSE.
pub struct FusePage {
    page: usize,
    server: Child,
    touched: PipeReader,
}

impl FusePage {
    /// Starts a process that serves the FUSE which was [`mounted`] in `directory`, until this
    /// process's standard input ends.
    ///
    /// This process keeps no descriptor of the device. A hanging thread keeps its descriptor table.
    /// If the device were in it, nothing could end the FUSE.
    pub fn new(device: File, directory: &Path) -> Self {
        let (touched, told) = pipe().unwrap();
        let mut command = Command::new(directory.join("server"));
        let server = command.args(["-", "withhold"]).stdout(device).stderr(told).spawn().unwrap();
        drop(command);
        let file = File::open(directory.join("files/page")).unwrap();
        Self { page: map(Some(file.as_fd())), server, touched }
    }
}

impl MissingPage for FusePage {
    fn address(&self) -> usize {
        self.page
    }

    fn until_touched(&mut self) {
        self.touched.read_exact(&mut [0]).unwrap();
    }

    fn release(&mut self) {
        // If it has ended already, that is fine too.
        let _ = self.server.kill();
        self.server.wait().unwrap();
    }
}
