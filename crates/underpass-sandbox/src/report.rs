//! The measures of a sandbox that hold on this system.

use std::fmt;

/// One of the measures that restrict a sandboxed domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Measure {
    /// Only the system calls that serving and calling need are allowed (seccomp), on all kernel
    /// threads. Every sandbox needs this, so it is always required.
    Calls,
    /// Limits of memory, of files and of a file's size, and of processor time if requested. Always
    /// required.
    Limits,
    /// No capabilities. Always required.
    Capabilities,
    /// No core dumps, and other processes of the same user cannot look into its memory. Always
    /// required.
    Privacy,
    /// No file can be named (Landlock, Linux 5.13). Without this measure, [`Calls`](Self::Calls)
    /// alone refuses files.
    Files,
    /// No TCP port can be bound or connected to (Landlock, Linux 6.7). Without this measure,
    /// [`Calls`](Self::Calls) alone refuses sockets.
    Network,
    /// Namespaces of its own for users, for networks (there are none in it), for System V and POSIX
    /// shared memory, and for host names. Many systems allow them only to root or to some programs.
    Namespaces,
    /// A limit on its kernel threads. It needs [`Namespaces`](Self::Namespaces), and does not apply
    /// to root's programs.
    Tasks,
    /// The starter learns which forbidden call ended the domain (seccomp notifications, Linux 5.7).
    /// Without this measure such a call ends the domain as well, but
    /// [`Ended::Forbidden`](crate::Ended::Forbidden) has no number. It is not available in a
    /// container that listens to system calls itself. A [`lenient`](crate::Sandbox::lenient)
    /// sandbox does not have it, because calls end nothing there.
    CallNames,
}

const ALL: [Measure; 9] = [
    Measure::Calls,
    Measure::Limits,
    Measure::Capabilities,
    Measure::Privacy,
    Measure::Files,
    Measure::Network,
    Measure::Namespaces,
    Measure::Tasks,
    Measure::CallNames,
];

impl Measure {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        ALL.into_iter().find(|&measure| measure as u8 == number)
    }

    pub(crate) fn is_essential(self) -> bool {
        matches!(self, Self::Calls | Self::Limits | Self::Capabilities | Self::Privacy)
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Calls => "system calls (seccomp)",
            Self::Limits => "limits of memory, files and time",
            Self::Capabilities => "no capabilities",
            Self::Privacy => "no core dumps",
            Self::Files => "files (Landlock)",
            Self::Network => "network (Landlock)",
            Self::Namespaces => "namespaces of its own",
            Self::Tasks => "a bound on kernel threads",
            Self::CallNames => "names of forbidden calls (seccomp notifications)",
        })
    }
}

/// The measures that hold for a sandboxed domain, and why the others do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub(crate) lines: Vec<(Measure, Option<String>)>,
}

impl Report {
    /// Whether `measure` holds.
    pub fn holds(&self, measure: Measure) -> bool {
        self.lines.iter().any(|(of, why_not)| *of == measure && why_not.is_none())
    }

    /// The measures that do not hold, each with the reason.
    pub fn missing(&self) -> impl Iterator<Item = (Measure, &str)> {
        self.lines.iter().filter_map(|(of, why_not)| Some((*of, why_not.as_deref()?)))
    }

    pub(crate) fn note(&mut self, of: Measure, done: Result<(), impl fmt::Display>) {
        self.lines.push((of, done.err().map(|why| why.to_string())));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (of, why_not)) in self.lines.iter().enumerate() {
            let begin = if number == 0 { "" } else { "\n" };
            match why_not {
                None => write!(f, "{begin}{of}: holds")?,
                Some(why) => write!(f, "{begin}{of}: does not hold ({why})")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_measure_is_reported_with_its_reason() {
        let mut report = Report::default();
        report.note(Measure::Calls, Ok::<_, String>(()));
        report.note(Measure::Namespaces, Err("not for users"));
        assert!(report.holds(Measure::Calls) && !report.holds(Measure::Namespaces));
        assert!(!report.holds(Measure::Files), "of which nothing was said");
        assert_eq!(report.missing().collect::<Vec<_>>(), [(Measure::Namespaces, "not for users")]);
        assert_eq!(
            report.to_string(),
            "system calls (seccomp): holds\nnamespaces of its own: does not hold (not for users)"
        );
    }

    #[test]
    fn measures_have_numbers() {
        for measure in ALL {
            assert_eq!(Measure::from_number(measure as u8), Some(measure));
        }
        assert_eq!(Measure::from_number(99), None);
    }
}
