//! What the process in a sandbox tells its starter, over the socket between the two. Once it serves, all of it is an allegation.

use crate::Measure;
use crate::report::Report;
use std::path::PathBuf;
use underpass_os::forbidden::MARK;
use underpass_wire::{from_bytes, to_bytes};

/// The longest message, in bytes.
pub(crate) const LONGEST: usize = 16 * 1024;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The walls stand, and it serves these names.
    Ready { report: Report, names: Vec<PathBuf> },
    /// It can't begin, and why.
    Failed { why: String },
    /// A measure that was required does not hold, and why.
    NotEnforced { measure: Measure, why: String },
    /// It made a system call that it may not make.
    Forbidden { number: i64 },
}

impl Message {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = match self {
            Self::Ready { report, names } => {
                let lines: Vec<(u8, Option<String>)> =
                    report.lines.iter().map(|(of, why)| (*of as u8, why.clone())).collect();
                // What is no text is no name of an export either.
                let names: Vec<String> =
                    names.iter().filter_map(|name| Some(name.to_str()?.to_owned())).collect();
                to_bytes(&(b'R', lines, names))
            }
            Self::Failed { why } => to_bytes(&(b'E', why)),
            Self::NotEnforced { measure, why } => to_bytes(&(b'N', *measure as u8, why)),
            Self::Forbidden { number } => {
                let mut bytes = vec![MARK];
                bytes.extend_from_slice(&(*number as i32).to_ne_bytes());
                bytes
            }
        };
        bytes.truncate(LONGEST);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match *bytes.first()? {
            b'R' => {
                type Ready = (u8, Vec<(u8, Option<String>)>, Vec<String>);
                let (_, lines, names): Ready = from_bytes(bytes).ok()?;
                let lines = lines.into_iter().map(|(of, why)| Some((Measure::from_number(of)?, why)));
                let report = Report { lines: lines.collect::<Option<_>>()? };
                Some(Self::Ready { report, names: names.into_iter().map(PathBuf::from).collect() })
            }
            b'E' => {
                let (_, why): (u8, String) = from_bytes(bytes).ok()?;
                Some(Self::Failed { why })
            }
            b'N' => {
                let (_, measure, why): (u8, u8, String) = from_bytes(bytes).ok()?;
                Some(Self::NotEnforced { measure: Measure::from_number(measure)?, why })
            }
            MARK => {
                let number = i32::from_ne_bytes(bytes[1..].try_into().ok()?);
                Some(Self::Forbidden { number: number.into() })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_socket_and_nonsense_is_none() {
        let mut report = Report::default();
        report.note(Measure::Calls, Ok::<_, String>(()));
        report.note(Measure::Tasks, Err("root"));
        for message in [
            Message::Ready { report, names: vec!["/run/x".into()] },
            Message::Failed { why: "no".to_owned() },
            Message::NotEnforced { measure: Measure::Files, why: "old".to_owned() },
            Message::Forbidden { number: 41 },
        ] {
            let bytes = message.to_bytes();
            assert_eq!(Message::from_bytes(&bytes), Some(message));
            for end in 0..bytes.len() {
                assert_eq!(Message::from_bytes(&bytes[..end]), None);
            }
        }
        assert_eq!(Message::from_bytes(b"Zebra"), None);
    }
}
