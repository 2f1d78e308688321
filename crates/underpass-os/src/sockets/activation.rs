//! Socket activation: listening sockets that a service manager has made and passes to the process
//! that it starts.
//!
//! The environment says which files these are, as in `sd_listen_fds(3)`: `LISTEN_FDS` files from
//! number 3 on, for the process `LISTEN_PID`. `LISTEN_FDNAMES` has a name for each.
//!
//! The manager keeps its copies of the sockets. So clients can connect while no server runs, and
//! wait for the next one.

use super::socket::{Listening, address, no_socket, open, stamp};
use crate::Directory;
use rustix::fd::RawFd;
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, ioctl_fionbio};
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, getpeername,
    getsockname, listen,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of the first file that is passed.
const FIRST: RawFd = 3;
/// The most files that are passed. More is a mistake in the environment.
const MOST: usize = 4096;
/// How many clients may wait to be accepted. The kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;
/// How many clients are turned away at most before this process gives up. A queue has room for
/// fewer.
const MOST_EARLIER: usize = 1 << 16;

/// What a service manager has passed to this process.
#[derive(Debug, PartialEq, Eq)]
enum Activation {
    Nothing,
    /// Files for another process.
    Other(u32),
    /// The name of each file; `None` where the manager names none.
    Files(Vec<Option<String>>),
}

impl Activation {
    fn from_environment() -> io::Result<Self> {
        let of = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        Self::of(of("LISTEN_FDS"), of("LISTEN_PID"), of("LISTEN_FDNAMES"), std::process::id())
    }

    /// What the variables mean in the process `own`.
    fn of(
        fds: Option<OsString>,
        pid: Option<OsString>,
        names: Option<OsString>,
        own: u32,
    ) -> io::Result<Self> {
        let Some(fds) = fds else { return Ok(Self::Nothing) };
        let number = |value: &OsString| value.to_str().and_then(|text| text.parse::<u32>().ok());
        let pid = pid.ok_or_else(|| odd("LISTEN_FDS is set, but LISTEN_PID is not".to_owned()))?;
        let to = number(&pid)
            .filter(|pid| *pid > 0)
            .ok_or_else(|| odd(format!("LISTEN_PID={} is no process", pid.display())))?;
        let count = number(&fds)
            .map(|count| count as usize)
            .filter(|count| *count <= MOST)
            .ok_or_else(|| odd(format!("LISTEN_FDS={} is no number of files", fds.display())))?;
        if to != own {
            return Ok(Self::Other(to));
        }
        let Some(names) = names else { return Ok(Self::Files(vec![None; count])) };
        let names = names.to_str().ok_or_else(|| odd("LISTEN_FDNAMES is no text".to_owned()))?;
        let names: Vec<_> = names.split(':').map(|name| Some(name.to_owned())).collect();
        match names.len() == count {
            true => Ok(Self::Files(names)),
            false => Err(odd(format!("LISTEN_FDS={count}, but LISTEN_FDNAMES has {} names", names.len()))),
        }
    }
}

/// The error for an environment that no service manager makes.
fn odd(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what}; see sd_listen_fds(3)"))
}

/// The process to which a service manager has passed sockets, if that is not this one. A shell
/// between the two is the usual reason.
pub fn passed_elsewhere() -> Option<u32> {
    match Activation::from_environment() {
        Ok(Activation::Other(pid)) => Some(pid),
        _ => None,
    }
}

/// The numbers of passed files that stand for a [`Listening`] now.
static IN_USE: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

fn in_use() -> MutexGuard<'static, BTreeSet<RawFd>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A passed file that a [`Listening`] uses, until this is dropped.
#[derive(Debug)]
pub(super) struct ManagerFile(RawFd);

impl Drop for ManagerFile {
    fn drop(&mut self) {
        in_use().remove(&self.0);
    }
}

impl Listening {
    /// Takes the listening socket that a service manager has passed to this process for `name`. It
    /// is the one that has this name in `LISTEN_FDNAMES`, or stands at the path of the name.
    /// `None`: there is none.
    ///
    /// The manager has made the socket, so the checks are of what it made: a name in `directory`
    /// that is this very socket, of this user or root, and not open to more users than `mode` lets
    /// write.
    ///
    /// The name stays when this is dropped, and clients can still connect.
    ///
    /// # Errors
    /// The text says what is wrong with the environment, the file or the socket.
    pub fn passed(directory: &Directory, name: &str, mode: u32) -> io::Result<Option<Self>> {
        let Activation::Files(names) = Activation::from_environment()? else { return Ok(None) };
        let path = directory.join(name);
        let mut in_use = in_use();
        for (number, named) in (FIRST..).zip(&names) {
            let file = passed_file(number)?;
            let is_it = named.as_deref() == Some(name) || is_bound_to(file, &path);
            if is_it && !in_use.contains(&number) {
                let numbered = |e: io::Error| io::Error::new(e.kind(), format!("file {number}: {e}"));
                let listening = adopt(file, number, directory, name, mode).map_err(numbered)?;
                in_use.insert(number);
                return Ok(Some(listening));
            }
        }
        Ok(None)
    }
}

/// A file that the environment names.
fn passed_file(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    // SAFETY: the call takes a number, and returns an error if no file has it.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(odd(format!("file {number} is passed by LISTEN_FDS, but is not open")));
    }
    // SAFETY: it is open. It belongs to the whole process, which closes no file that it was passed.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// Whether the socket was made at `path`, as its maker called the path.
fn is_bound_to(file: BorrowedFd<'_>, path: &Path) -> bool {
    let bound = getsockname(file).ok().and_then(|address| SocketAddrUnix::try_from(address).ok());
    bound.is_some_and(|bound| bound.path_bytes() == Some(path.as_os_str().as_bytes()))
}

/// Makes the passed socket this process's own name.
fn adopt(
    file: BorrowedFd<'static>,
    number: RawFd,
    directory: &Directory,
    name: &str,
    mode: u32,
) -> io::Result<Listening> {
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
    // Only the kernel's own sockets answer this.
    let kind = socket_domain(file).and_then(|domain| Ok((domain, socket_type(file)?)));
    if !matches!(kind, Ok((AddressFamily::UNIX, SocketType::SEQPACKET))) || !socket_acceptconn(file)? {
        let what = "it is no listening Unix socket that keeps messages apart";
        return Err(wrong(format!("{what}; the unit has to say ListenSequentialPacket=")));
    }
    let dir = directory.lock()?;
    let path = directory.join(name);
    let shown = path.display();
    let found = fs::symlink_metadata(&path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            wrong(format!("nothing stands at {shown}; the unit has to say ListenSequentialPacket={shown}"))
        }
        _ => e,
    })?;
    if !found.file_type().is_socket() {
        return Err(no_socket());
    }
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own && found.uid() != 0 {
        return Err(wrong(format!(
            "{shown} belongs to user {}, who could open it to others; the unit has to say SocketUser={own}",
            found.uid()
        )));
    }
    if found.mode() & 0o222 & !mode != 0 {
        return Err(wrong(format!(
            "{shown} has mode {:04o}, which lets more users connect than Server::mode({mode:#o}); the unit \
             has to say SocketMode={mode:04o}, or the server a wider mode",
            found.mode() & 0o7777
        )));
    }
    // From now on the kernel names this process as the peer of those who connect.
    listen(file, BACKLOG)?;
    ioctl_fionbio(file, true)?;
    fcntl_setfd(file, FdFlags::CLOEXEC)?;
    crate::peer::admit_files(file, false);
    turn_away_earlier(file, &path, &dir)?;
    let copy = fcntl_dupfd_cloexec(file, 0)?;
    let stamp = stamp(&path)?;
    Ok(Listening::of_manager(copy, path, stamp, found.mode() & 0o7777, ManagerFile(number)))
}

/// Hangs up on the clients that have connected before this process listened. The kernel tells them
/// that the manager, or an earlier server, is their peer. They connect again, and then it tells
/// them the truth.
///
/// The last of them comes just before a connection that this process makes here. That connection
/// also shows that the name leads to this socket.
fn turn_away_earlier(listening: BorrowedFd<'_>, path: &Path, dir: &fs::File) -> io::Result<()> {
    let elsewhere = || {
        let what = format!(
            "{} leads to another socket than the one that was passed, or another process accepts its clients",
            path.display()
        );
        io::Error::new(io::ErrorKind::InvalidInput, what)
    };
    let accept = || loop {
        match accept_with(listening, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            Err(Errno::AGAIN) => return Err(elsewhere()),
            other => return Ok(other?),
        }
    };
    let marker = open()?;
    // The kernel gives it a name that no other socket has.
    bind(&marker, &SocketAddrUnix::new_unnamed())?;
    let name = getsockname(&marker)?;
    let address = address(path, dir)?;
    let mut connected = false;
    for _ in 0..MOST_EARLIER {
        if !connected {
            match connect(&marker, &address) {
                Ok(()) => connected = true,
                // The queue is full of earlier clients.
                Err(Errno::AGAIN) => {}
                Err(e) => {
                    let what = format!("this user can't connect to {}: {e}", path.display());
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
                }
            }
        }
        let client = accept()?;
        if connected && getpeername(&client)?.as_ref() == Some(&name) {
            return Ok(());
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        format!("clients of {} connect all the time", path.display()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fds: &str, pid: &str, names: &str) -> Result<Activation, String> {
        let set = |text: &str| (!text.is_empty()).then(|| OsString::from(text));
        Activation::of(set(fds), set(pid), set(names), 42).map_err(|e| e.to_string())
    }

    #[test]
    fn the_environment_names_the_files() {
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(of("", "42", ""), Ok(Activation::Nothing));
        assert_eq!(of("2", "42", ""), Ok(Activation::Files(vec![None, None])));
        assert_eq!(of("2", "42", "a:b c"), Ok(Activation::Files(vec![some("a"), some("b c")])));
        assert_eq!(of("1", "41", "a:b"), Ok(Activation::Other(41)));
        for (fds, pid, names, said) in [
            ("1", "", "", "LISTEN_PID is not"),
            ("1", "-1", "", "LISTEN_PID=-1 is no process"),
            ("1", "0", "", "LISTEN_PID=0 is no process"),
            ("many", "42", "", "LISTEN_FDS=many is no number"),
            ("4097", "42", "", "LISTEN_FDS=4097 is no number"),
            ("1", "42", "a:b", "LISTEN_FDNAMES has 2 names"),
        ] {
            let error = of(fds, pid, names).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
