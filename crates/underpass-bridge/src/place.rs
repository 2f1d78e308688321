//! Where a bridge listens.

use crate::service::Bridge;
use anyhow::{Context as _, Result, bail};
use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// An address (`HOST:PORT`) or a Unix socket (`unix:PATH`) to listen at.
///
/// # Examples
/// ```
/// use underpass_bridge::BridgePlace;
///
/// let place: BridgePlace = "127.0.0.1:0".parse()?;
/// assert!(place.is_private());
/// assert!("unix:/run/bridge.sock".parse::<BridgePlace>()?.is_private());
/// assert!(!"0.0.0.0:50051".parse::<BridgePlace>()?.is_private());
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BridgePlace {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for BridgePlace {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                bail!("`unix:` needs a path, like unix:/run/bridge.sock");
            }
            return Ok(Self::Unix(path.into()));
        }
        let help = || format!("{text:?} is no place to listen at; write HOST:PORT or unix:PATH");
        let mut addresses = text.to_socket_addrs().with_context(help)?;
        Ok(Self::Tcp(addresses.next().with_context(help)?))
    }
}

impl fmt::Display for BridgePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl BridgePlace {
    /// Whether other machines can't reach it. All users of this machine reach a loopback address;
    /// only the bridge's own user reaches its Unix socket.
    pub fn is_private(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    /// Listens there. To be called on a task.
    ///
    /// # Errors
    /// The place can't be had. The error names the remedy.
    pub fn listen(&self) -> Result<BridgeListener> {
        match self {
            Self::Tcp(address) => {
                let help = || format!("can't listen at {address}; choose another port, or 0 for any");
                let listener = TcpListener::bind(address).with_context(help)?;
                listener.set_nonblocking(true)?;
                Ok(BridgeListener {
                    place: Self::Tcp(listener.local_addr()?),
                    listener: Listener::Tcp(listener),
                })
            }
            Self::Unix(path) => {
                let help = || format!("can't listen at {}", path.display());
                remove_stale(path).with_context(help)?;
                let listener = bind_private(path).with_context(help)?;
                Ok(BridgeListener { place: self.clone(), listener: Listener::Unix(listener) })
            }
        }
    }
}

/// Removes the socket of a bridge that has died. A file that is no socket, or that of a bridge that
/// lives, stays.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => match UnixStream::connect(path) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
            _ => Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "another process listens there; choose another path",
            )),
        },
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is no socket is there; choose another path",
        )),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// Listens at a socket that nobody but its own user ever reaches.
///
/// A socket has the permissions of the umask at first. A client that connects then is served later,
/// whatever the permissions are by then. So the socket is made in a directory of this user alone,
/// and gets its name when its permissions are set.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut directory = tempfile::Builder::new();
    directory.prefix(".").permissions(fs::Permissions::from_mode(0o700));
    let directory = directory.tempdir_in(parent.unwrap_or(Path::new(".")))?;
    let socket = directory.path().join("s");
    let listener = UnixListener::bind(&socket)?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    // In contrast to a rename, a link replaces no file that has come meanwhile.
    fs::hard_link(&socket, path)?;
    Ok(listener)
}

/// A place that a bridge has. The file of a Unix socket is removed when this is dropped.
#[derive(Debug)]
#[must_use = "nothing is served before `serve`"]
pub struct BridgeListener {
    place: BridgePlace,
    listener: Listener,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl BridgeListener {
    /// The place, with the port that the system chose if it was 0.
    pub fn place(&self) -> &BridgePlace {
        &self.place
    }

    /// Serves until the task is dropped.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(self, bridge: Bridge) -> Result<()> {
        let router = Server::builder().add_routes(bridge.routes());
        match &self.listener {
            Listener::Tcp(listener) => {
                let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
                router.serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true))).await?;
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(listener.try_clone()?)?;
                router.serve_with_incoming(UnixListenerStream::new(listener)).await?;
            }
        }
        Ok(())
    }
}

impl Drop for BridgeListener {
    fn drop(&mut self) {
        if let BridgePlace::Unix(path) = &self.place {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_or_a_socket() {
        for good in ["127.0.0.1:0", "[::1]:50051", "unix:/tmp/x"] {
            assert_eq!(good.parse::<BridgePlace>().unwrap().to_string(), good);
        }
        for bad in ["", "unix:", "50051", "127.0.0.1"] {
            assert!(bad.parse::<BridgePlace>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_socket_gets_its_name_when_it_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = bind_private(&path).unwrap();
        let bound = listener.local_addr().unwrap();
        assert_ne!(bound.as_pathname().and_then(Path::parent), path.parent());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "the directory of its own is gone");
        UnixStream::connect(&path).unwrap();
        let taken = bind_private(&path).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_living_socket_and_another_file_stay() {
        let directory = std::env::temp_dir().join(format!("underpass-bridge-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let [socket, file] = ["socket", "file"].map(|name| directory.join(name));
        let living = UnixListener::bind(&socket).unwrap();
        fs::write(&file, "kept").unwrap();
        assert!(BridgePlace::Unix(socket.clone()).listen().is_err());
        assert!(BridgePlace::Unix(file.clone()).listen().is_err());
        assert!(socket.exists() && file.exists());
        drop(living);
        let listening = BridgePlace::Unix(socket.clone()).listen().unwrap();
        let mode = fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(listening);
        assert!(!socket.exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
