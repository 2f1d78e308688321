//! Where a service manager listens.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr;
use std::path::Path;

/// The address that `$NOTIFY_SOCKET` names: a path, or `@` and an abstract name.
pub fn notify_address(named: &OsStr) -> io::Result<SocketAddr> {
    let shown = named.display();
    let address = match named.as_bytes() {
        [b'@', name @ ..] if !name.is_empty() => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(Path::new(named)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no path and no abstract name")),
    };
    address.map_err(|e| {
        let what = format!("NOTIFY_SOCKET={shown}: {e}; use an absolute path, or @ and a name");
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_abstract_names_are_addresses() {
        let of = |named: &str| notify_address(OsStr::new(named));
        assert_eq!(of("/run/notify").unwrap().as_pathname(), Some(Path::new("/run/notify")));
        assert_eq!(of("@notify").unwrap().as_abstract_name(), Some(&b"notify"[..]));
        for odd in ["notify", "@", "vsock:2:1234", &"/long".repeat(30), &format!("@{}", "x".repeat(120))] {
            let error = of(odd).unwrap_err().to_string();
            assert!(error.starts_with(&format!("NOTIFY_SOCKET={odd}: ")), "{error}");
        }
    }
}
