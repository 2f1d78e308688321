//! The messages from the process in the sandbox to its starter, over the socket between the two,
//! before it serves. Afterwards it has no such socket.

use crate::Measure;
use crate::report::Report;
use std::path::PathBuf;
use underpass_wire::{from_bytes, to_bytes};

/// The longest message, in bytes.
pub(crate) const LONGEST: usize = 16 * 1024;

/// The message by which the starter lets the process serve.
pub(crate) const SERVE: &[u8] = b"serve";

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StartMessage {
    /// The process is restricted, and will serve these names when it is [told to](SERVE). The
    /// listener for forbidden calls comes along, if there is one.
    Ready { report: Report, names: Vec<PathBuf> },
    /// It can't begin, and why.
    Failed { why: String },
    /// A measure that was required does not hold, and why.
    NotEnforced { measure: Measure, why: String },
}

impl StartMessage {
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
            StartMessage::Ready { report, names: vec!["/run/x".into()] },
            StartMessage::Failed { why: "no".to_owned() },
            StartMessage::NotEnforced { measure: Measure::Files, why: "old".to_owned() },
        ] {
            let bytes = message.to_bytes();
            assert_eq!(StartMessage::from_bytes(&bytes), Some(message));
            for end in 0..bytes.len() {
                assert_eq!(StartMessage::from_bytes(&bytes[..end]), None);
            }
        }
        assert_eq!(StartMessage::from_bytes(b"Zebra"), None);
    }
}
