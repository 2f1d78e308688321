//! Errors, one variant for each thing that the program's user can do about it.

mod call;

pub(crate) use self::call::no_stack;
pub use self::call::{CallError, FromCallError, Outcome};

use crate::binding::not_exported;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why an import failed.
#[non_exhaustive]
pub enum ImportError {
    /// The name is not valid. *Remedy:* use 1 to 64 bytes without `/` and NUL, and not `.` or `..`.
    BadName(String),
    /// No server exports the name. *Remedy:* start the server, or wait for it with `import_within`.
    NotExported(PathBuf),
    /// The server that exported the name has died. *Remedy:* start it again, or wait for the next
    /// one with `import_within`. `import` reports this at once, and `import_within` when its time
    /// is over.
    Dead(PathBuf),
    /// The ticket gives no binding. It was used before; or the binding of the client that passed it
    /// on has ended (dropped, revoked or expired); or the server has ended, or runs on Linux before
    /// 6.5. *Remedy:* have the binding passed on again, by a client that keeps its own binding
    /// until then.
    Lapsed,
    /// The permissions of the name's socket do not let this user connect. *Remedy:* run as the
    /// server's user, or have the server export the name with a wider
    /// [`Server::mode`](crate::Server::mode).
    PermissionDenied(PathBuf),
    /// The server's `authorize` refused this client; the text says why. *Remedy:* ask the operator
    /// of the server for access.
    NotAuthorized(PathBuf, String),
    /// The clients of this user have as much of the server as they may. *Remedy:* drop some
    /// bindings, or have the server raise [`Server::limits`](crate::Server::limits).
    Limit(PathBuf, String),
    /// Another interface is exported under that name, or a version of it that does not fit: neither
    /// side has the other's last version. *Remedy:* build both sides from sources of the interface
    /// of which one only adds to the other (`#[underpass(since = N)]`).
    Mismatch {
        /// The path of the name.
        path: PathBuf,
        /// The hash of the interface that the client asked for.
        ours: u64,
        /// The hash of the interface that the server exports.
        theirs: u64,
        /// The differences, method by method.
        differences: String,
    },
    /// The server uses another version of Underpass's channels. *Remedy:* build both sides with the
    /// same version of Underpass.
    Version(String),
    /// The importing thread was cancelled, or its own caller gave up. *Remedy:* none, because
    /// somebody asked for this. Import inside of [`detached`](crate::detached) if the binding is
    /// needed nevertheless.
    Cancelled,
    /// The server accepted the connection and did not answer. *Remedy:* check whether its process
    /// is stopped (`ps`) or overloaded.
    NoAnswer(PathBuf, Duration),
    /// The server refused for the given reason, or its answer was malformed. *Remedy:* as the text
    /// says.
    Refused(PathBuf, String),
    /// The directory of names can't be used, or other users could change it. *Remedy:* as the text
    /// says.
    Directory(PathBuf, io::Error),
    /// The server on another machine can't be reached. *Remedy:* as the text says; wait for it with
    /// `import_within`.
    Unreachable(String, String),
    /// An address of another machine can't be imported: there is no transport, or the interface
    /// can't leave its machine. *Remedy:* as the text says. It names the method.
    Remote(String, String),
    /// A system call failed. *Remedy:* as the text says.
    System(&'static str, io::Error),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(why) => f.write_str(why),
            Self::NotExported(path) => f.write_str(&not_exported::explain(path)),
            Self::Dead(path) => write!(
                f,
                "the server that exported {} is dead; start it again, or wait for the next one with import_within",
                path.display()
            ),
            Self::Lapsed => f.write_str(
                "the ticket gives no binding: it was used before, or the binding of the client that passed it on \
                 has ended, or the server has ended or runs on Linux before 6.5; have the binding passed on again, by \
                 a client that keeps its own until then",
            ),
            Self::PermissionDenied(path) => write!(
                f,
                "user {} may not connect to {}; run as the server's user, or export it with Server::mode(0o666)",
                underpass_os::process::user(),
                path.display()
            ),
            Self::NotAuthorized(path, why) => {
                write!(f, "the server of {} refused this client: {why}; ask its operator for access", path.display())
            }
            Self::Limit(path, why) => write!(
                f,
                "no more bindings to {}: {why}; drop some bindings, or have the server raise Server::limits",
                path.display()
            ),
            Self::Mismatch { path, ours, theirs, differences } => write!(
                f,
                "{} exports another interface than the one imported (ours {ours:016x}, theirs {theirs:016x}); build both \
                 sides from the same one, or only add to it (`since = N`); what differs:\n{differences}",
                path.display()
            ),
            Self::Version(what) => write!(f, "{what}; build both sides with the same version of Underpass"),
            Self::Cancelled => f.write_str(
                "the importing thread was cancelled, or its own caller gave up; import inside of underpass::detached \
                 if the binding is needed nevertheless",
            ),
            Self::NoAnswer(path, after) => {
                write!(f, "the server of {} did not answer within {after:?}; check whether it is stopped or overloaded", path.display())
            }
            Self::Refused(path, why) => write!(f, "the server of {} refused: {why}", path.display()),
            Self::Directory(path, e) => write!(f, "names can't be looked up in {}: {e}", path.display()),
            Self::Unreachable(address, why) => {
                write!(f, "{address} can't be reached: {why}; start its server, or wait for it with import_within")
            }
            Self::Remote(address, why) => write!(f, "{address} can't be imported: {why}"),
            Self::System(what, e) => write!(f, "{what}: {e}{}", remedy(e)),
        }
    }
}

impl std::error::Error for ImportError {}

/// Why a binding was not passed on.
#[non_exhaustive]
pub enum ShareError {
    /// The server does not let this client pass its binding on. *Remedy:* have the server export
    /// the interface with [`Service::shareable`](crate::Service::shareable).
    NotAllowed,
    /// The user has as many bindings as it may, or there are no files left, in the server or here.
    /// *Remedy:* drop some bindings, or raise the limits
    /// ([`Server::limits`](crate::Server::limits), `ulimit -n`).
    NoRoom,
    /// The implementation is in this process, so there is no connection to pass on. *Remedy:* let
    /// the other process import the interface by its name.
    Here,
    /// The server is on another machine, and the connection to it can't be passed on. *Remedy:* let
    /// the other process import the interface by its address.
    Remote,
    /// The binding has ended. *Remedy:* as of the [`CallError`].
    Call(CallError),
    /// A system call failed, or the server did not answer in time. *Remedy:* as the text says.
    System(io::Error),
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed => f.write_str(
                "the server does not let this binding be passed on; have it export the interface with Service::shareable",
            ),
            Self::NoRoom => {
                f.write_str("the server allows no further binding, or files have run out; drop some bindings, or raise Server::limits or `ulimit -n`")
            }
            Self::Here => f.write_str("the implementation is in this process; let the other process import it by its name"),
            Self::Remote => f.write_str("the server is on another machine; let the other process import it by its address"),
            Self::Call(e) => e.fmt(f),
            Self::System(e) => write!(f, "the binding can't be passed on: {e}{}", remedy(e)),
        }
    }
}

impl std::error::Error for ShareError {}

/// Why an export failed.
#[non_exhaustive]
pub enum ExportError {
    /// The name is not valid. *Remedy:* use 1 to 64 bytes without `/` and NUL, and not `.` or `..`.
    BadName(String),
    /// Two services under one name have a version of the interface in common, so a client of that
    /// version could get either. *Remedy:* export them under two names, or only one of them.
    SameVersion(String),
    /// A running process exports the name. *Remedy:* end that process, use
    /// [`Server::replace`](crate::Server::replace), or choose another name or `$UNDERPASS_DIR`.
    Taken(PathBuf),
    /// The directory of names can't be used, or other users could change it. *Remedy:* as the text
    /// says.
    Directory(PathBuf, io::Error),
    /// The name can't be put into the directory of names. This user may not write there, or a file
    /// that is no socket has the name. *Remedy:* as the text says.
    Name(PathBuf, io::Error),
    /// The socket that a service manager has passed for the name can't be used
    /// ([`Server::socket_activation`](crate::Server::socket_activation)). *Remedy:* as the text
    /// says. It names the setting of the unit.
    Passed(PathBuf, io::Error),
    /// The service under this name can't be exported to other machines. *Remedy:* as the text says.
    /// It names the method.
    Remote(String, String),
    /// A system call failed. *Remedy:* as the text says.
    System(&'static str, io::Error),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(why) => f.write_str(why),
            Self::SameVersion(name) => write!(
                f,
                "two services of {name} have a version of the interface in common; export one of them, or the other \
                 under another name"
            ),
            Self::Taken(path) => write!(
                f,
                "a living domain exports {}; see `ss -xlp src {}` for it, or take another name",
                path.display(),
                path.display()
            ),
            Self::Directory(path, e) => {
                write!(f, "names can't be put into {}: {e}{}", path.display(), other_place(e))
            }
            Self::Remote(name, why) => write!(f, "{name} can't be exported to other machines: {why}"),
            Self::Passed(path, e) => {
                write!(f, "the socket that was passed for {} can't be used: {e}", path.display())
            }
            Self::Name(path, e) => write!(f, "{} can't be exported: {e}{}", path.display(), other_place(e)),
            Self::System(what, e) => write!(f, "{what}: {e}{}", remedy(e)),
        }
    }
}

impl std::error::Error for ExportError {}

/// The remedy for an error of the kernel where a name, or the directory of names, is made.
fn other_place(e: &io::Error) -> &'static str {
    match e.kind() {
        // An error without a number says itself what to do.
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if e.raw_os_error().is_some() => {
            "; run as the owner of the directory, or name one of your own with $UNDERPASS_DIR or Server::directory"
        }
        io::ErrorKind::AlreadyExists => "; remove it, or take another name",
        _ => remedy(e),
    }
}

/// The remedy for an error of the kernel.
fn remedy(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::OutOfMemory => "; see `free` and the cgroup's memory.max",
        io::ErrorKind::Unsupported => {
            "; Underpass needs Linux 5.16 or later with memfd_create and file seals"
        }
        _ if e.raw_os_error() == Some(24) || e.raw_os_error() == Some(23) => "; raise `ulimit -n`",
        _ => "",
    }
}

/// Any of the errors of a program that exports, imports and calls: for the `Result` of `main`.
#[non_exhaustive]
pub enum Error {
    /// A call failed.
    Call(CallError),
    /// An import failed.
    Import(ImportError),
    /// An export failed.
    Export(ExportError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(e) => e.fmt(f),
            Self::Import(e) => e.fmt(f),
            Self::Export(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// Implements `Debug` by `Display`. If `main` returns an error, Rust prints it by `Debug`, and the
/// remedy is in `Display`.
macro_rules! debug_as_display {
    ($($error:ty),*) => {$(
        impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

debug_as_display!(CallError, ImportError, ShareError, ExportError, Error);

impl From<CallError> for Error {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

impl From<ImportError> for Error {
    fn from(e: ImportError) -> Self {
        Self::Import(e)
    }
}

impl From<ExportError> for Error {
    fn from(e: ExportError) -> Self {
        Self::Export(e)
    }
}
