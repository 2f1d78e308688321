//! The mounts of control groups, as `/proc/self/mountinfo` tells of them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Which of the two kinds of hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// That of the controller `cpu`.
    One,
    /// The one hierarchy for all controllers.
    Two,
}

/// One place at which a hierarchy with CPU quotas can be seen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) version: Version,
    /// The group that lies at the mount point.
    pub(super) root: PathBuf,
    pub(super) point: PathBuf,
}

/// A line is `ID PARENT DEVICE ROOT POINT OPTIONS [FIELDS..] - TYPE SOURCE OPTIONS`.
pub(super) fn parse(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let version = match kind.next()? {
        "cgroup2" => Version::Two,
        "cgroup" if kind.nth(1)?.split(',').any(|option| option == "cpu") => Version::One,
        _ => return None,
    };
    let mut place = place.split(' ').skip(3);
    Some(Mount { version, root: unescape(place.next()?), point: unescape(place.next()?) })
}

/// Blanks, line ends and backslashes stand there as `\` and three octal digits.
fn unescape(field: &str) -> PathBuf {
    let mut rest = field.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some((&first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal {
            Some(digits) => {
                bytes.push(
                    digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')),
                );
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape(r"/a\040b\134c\011"), PathBuf::from("/a b\\c\t"));
        assert_eq!(unescape(r"/\04"), PathBuf::from(r"/\04"));
        assert_eq!(unescape(r"/\999"), PathBuf::from(r"/\999"));
    }

    #[test]
    fn lines_of_other_things_are_none() {
        assert_eq!(parse("22 1 0:5 / /proc rw - proc proc rw"), None);
        assert_eq!(parse("33 31 0:30 / /c rw,relatime - cgroup cgroup rw,cpuacct"), None);
        assert_eq!(parse("nonsense"), None);
        let found =
            parse("33 31 0:30 /x /c rw,relatime shared:1 master:2 - cgroup cgroup rw,cpu,cpuacct").unwrap();
        assert_eq!(found, Mount { version: Version::One, root: "/x".into(), point: "/c".into() });
    }
}
