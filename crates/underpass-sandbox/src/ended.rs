//! How a sandboxed domain ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;
use underpass_os::calls;

/// How a sandboxed domain ended. The starter learns this from the kernel, and the domain cannot
/// influence it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// It made a forbidden system call: it has a fault, or an attacker has taken it over. *Remedy:*
    /// do what needs this call before [`Inside::serve`](crate::Inside::serve). Do not give it the
    /// attacking input again.
    Forbidden {
        /// The call's number on this processor. `None` where
        /// [`Measure::CallNames`](crate::Measure::CallNames) does not hold. `None` also if the
        /// domain made the call in another processor's mode, or ended it by a signal before its
        /// starter could look at it.
        number: Option<i64>,
    },
    /// It used up its [`processor_time`](crate::Sandbox::processor_time). *Remedy:* allow more
    /// time, or give one domain less work.
    ProcessorTime,
    /// A call took longer than [`Domain::within`](crate::Domain::within) allowed. *Remedy:* more
    /// time, or another input.
    Late(Duration),
    /// Its starter ended it.
    Killed,
    /// It ended by itself, with this status.
    Exited(i32),
    /// A signal ended it. 6 is an abort, for example when its memory is used up or a panic may not
    /// unwind. 11 and 7 are crashes. 9 may come from the kernel, when the machine has no memory
    /// left. Its last words are on the standard error output.
    Signal(i32),
}

/// What the supervisor did to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    Late(Duration),
    Killed,
    /// It made a forbidden call, of this number if the number is known.
    Forbidden(Option<i64>),
}

const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;
const SIGSYS: i32 = 31;

impl Ended {
    pub(crate) fn of(status: ExitStatus, blow: Option<Blow>) -> Self {
        match (status.code(), status.signal(), blow) {
            // The filter itself ended it.
            (_, Some(SIGSYS), _) => Self::Forbidden { number: None },
            (_, Some(SIGXCPU), _) => Self::ProcessorTime,
            (_, Some(SIGKILL), Some(Blow::Late(time))) => Self::Late(time),
            (_, Some(SIGKILL), Some(Blow::Killed)) => Self::Killed,
            (_, Some(SIGKILL), Some(Blow::Forbidden(number))) => Self::Forbidden { number },
            (Some(code), _, _) => Self::Exited(code),
            (None, signal, _) => Self::Signal(signal.unwrap_or(0)),
        }
    }

    /// The name of the forbidden call, if a known one ended the domain.
    ///
    /// # Examples
    /// ```
    /// use underpass::sandbox::Ended;
    /// assert_eq!(Ended::Forbidden { number: Some(41) }.forbidden_call(), Some("socket")); // on x86-64
    /// assert_eq!(Ended::Killed.forbidden_call(), None);
    /// ```
    pub fn forbidden_call(&self) -> Option<&'static str> {
        match self {
            Self::Forbidden { number } => calls::name((*number)?),
            _ => None,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden { number } => {
                f.write_str("the sandboxed domain made a system call that it may not make")?;
                match (self.forbidden_call(), number) {
                    (Some(name), _) => write!(f, ", {name}")?,
                    (None, Some(number)) => write!(f, ", number {number}")?,
                    (None, None) => {}
                }
                f.write_str("; if it is meant to, have it do so before it serves")
            }
            Self::ProcessorTime => f.write_str("the sandboxed domain used up its processor time"),
            Self::Late(time) => write!(f, "a call to the sandboxed domain took longer than {time:?}"),
            Self::Killed => f.write_str("the sandboxed domain was ended by its starter"),
            Self::Exited(code) => write!(f, "the sandboxed domain ended by itself, with status {code}"),
            Self::Signal(6) => f.write_str(
                "the sandboxed domain aborted, as when its memory is used up; its last words are on the standard error output",
            ),
            Self::Signal(number) => write!(f, "the sandboxed domain was ended by signal {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_how_it_ended() {
        let status = ExitStatus::from_raw;
        let late = Blow::Late(Duration::from_secs(1));
        let forbidden = Blow::Forbidden(Some(41));
        assert_eq!(Ended::of(status(SIGSYS), None), Ended::Forbidden { number: None });
        assert_eq!(Ended::of(status(SIGKILL), Some(forbidden)), Ended::Forbidden { number: Some(41) });
        assert_eq!(Ended::of(status(SIGXCPU), Some(late)), Ended::ProcessorTime);
        assert_eq!(Ended::of(status(SIGKILL), Some(late)), Ended::Late(Duration::from_secs(1)));
        assert_eq!(Ended::of(status(SIGKILL), None), Ended::Signal(SIGKILL));
        assert_eq!(Ended::of(status(3 << 8), Some(forbidden)), Ended::Exited(3));
        assert_eq!(Ended::of(status(11), Some(Blow::Killed)), Ended::Signal(11));
    }

    #[test]
    fn a_call_that_nobody_knows_has_its_number() {
        let said = Ended::Forbidden { number: Some(9999) }.to_string();
        assert!(said.contains("number 9999"), "{said}");
    }
}
