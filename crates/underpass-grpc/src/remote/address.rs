//! Addresses of exports: `https://host:port/name`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What a name has as itself in an address and in the path of a request.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The gRPC service of all exports.
pub(super) const SERVICE: &str = "underpass.Remote";

/// In place of a method's name: the question which interface is exported. No method has a `:`.
pub(super) const IMPORT: &str = ":import";

/// Where an export is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemoteAddress {
    /// `http` or `https`.
    pub(super) scheme: String,
    /// `host` or `host:port` of each server.
    pub(super) hosts: Vec<String>,
    pub(super) name: String,
}

impl RemoteAddress {
    /// Reads an address.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn read(address: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "{address:?} is no address; write https://host:port/name, or https://a:1,b:2/name for several servers"
            )
        };
        let (scheme, rest) = address.split_once("://").ok_or_else(help)?;
        let (hosts, name) = rest.split_once('/').ok_or_else(help)?;
        let name = percent_decode_str(name).decode_utf8().map_err(|_| help())?;
        let hosts: Vec<_> = hosts.split(',').map(str::to_owned).collect();
        let good = matches!(scheme, "http" | "https")
            && hosts.iter().all(|host| !host.is_empty() && !host.contains('@'))
            && !name.is_empty()
            && !name.contains(['/', '?', '#']);
        match good {
            true => Ok(Self { scheme: scheme.to_owned(), hosts, name: name.into_owned() }),
            false => Err(help()),
        }
    }

    /// Whether messages are encrypted on their way.
    pub(super) fn is_secure(&self) -> bool {
        self.scheme == "https"
    }

    /// Whether all servers are on this machine, as far as the address says.
    pub(super) fn is_loopback(&self) -> bool {
        self.hosts.iter().all(|host| {
            let host = host.rsplit_once(':').map_or(&**host, |(host, _)| host);
            let number = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
            host == "localhost" || number.is_ok_and(|number| number.is_loopback())
        })
    }

    /// The path of a method's requests.
    pub(super) fn path(&self, method: &str) -> String {
        format!("/{SERVICE}/{}.{method}", utf8_percent_encode(&self.name, PLAIN))
    }
}

/// The name and the method of a request's path.
pub(super) fn name_and_method(path: &str) -> Option<(String, &str)> {
    let rest = path.strip_prefix('/')?.strip_prefix(SERVICE)?.strip_prefix('/')?;
    let (name, method) = rest.rsplit_once('.')?;
    Some((percent_decode_str(name).decode_utf8().ok()?.into_owned(), method))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_servers_and_a_name() {
        let one = RemoteAddress::read("https://host:443/fs.cache").unwrap();
        assert_eq!((&*one.hosts, &*one.name), (&["host:443".to_owned()][..], "fs.cache"));
        assert!(one.is_secure() && !one.is_loopback());
        let two = RemoteAddress::read("http://127.0.0.1:1,[::1]:2/%C3%84").unwrap();
        assert_eq!((two.hosts.len(), &*two.name), (2, "Ä"));
        assert!(!two.is_secure() && two.is_loopback());
        for bad in
            ["https://host", "https:///x", "ftp://host/x", "https://a,,b/x", "https://u@h/x", "https://h/a/b"]
        {
            assert!(RemoteAddress::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_gives_back_name_and_method() {
        for name in ["hello", "fs.cache", "Ä b", "a%2Fb"] {
            let address =
                RemoteAddress { scheme: "https".into(), hosts: vec!["h".into()], name: name.into() };
            let path = address.path("greet");
            assert_eq!(name_and_method(&path), Some((name.to_owned(), "greet")), "{path}");
            assert!(path.parse::<http::uri::PathAndQuery>().is_ok());
        }
        for bad in ["", "/", "/underpass.Remote", "/underpass.Remote/hello", "/other/hello.greet"] {
            assert_eq!(name_and_method(bad), None, "{bad}");
        }
    }
}
