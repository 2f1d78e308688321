//! What of a sandbox holds on this system.

use std::fmt;

/// One of the walls around a sandboxed domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Measure {
    /// Only system calls that serving and calling need (seccomp), on all kernel threads. Without it
    /// there is no sandbox: always required.
    Calls,
    /// Limits of memory, of files and of a file's size, and of processor time where one was asked
    /// for. Always required.
    Limits,
    /// No capabilities. Always required.
    Capabilities,
    /// No core dumps, and nobody of the same user looks into its memory. Always required.
    Privacy,
    /// No file can be named (Landlock, Linux 5.13). Without it [`Calls`](Self::Calls) alone refuses
    /// files.
    Files,
    /// No TCP port can be bound or connected to (Landlock, Linux 6.7). Without it
    /// [`Calls`](Self::Calls) alone refuses sockets.
    Network,
    /// Namespaces of its own for users, networks (none there), System V's and POSIX' shared memory,
    /// and host names. Many systems let only root, or some programs, have them.
    Namespaces,
    /// A bound on kernel threads of its own. Only with [`Namespaces`](Self::Namespaces), and not
    /// for root's programs.
    Tasks,
    /// The starter is told which forbidden call ended the domain (notifications of seccomp, Linux
    /// 5.7). Without it such a call ends the domain as well, but
    /// [`Ended::Forbidden`](crate::Ended::Forbidden) has no number. It can't be had in a container
    /// that listens to system calls itself. A [`lenient`](crate::Sandbox::lenient) sandbox doesn't
    /// have it, as calls end nothing there.
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

/// What holds for a sandboxed domain, and why the rest doesn't.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub(crate) lines: Vec<(Measure, Option<String>)>,
}

impl Report {
    /// Whether `measure` holds.
    pub fn holds(&self, measure: Measure) -> bool {
        self.lines.iter().any(|(of, why_not)| *of == measure && why_not.is_none())
    }

    /// What doesn't hold, each with the reason.
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
