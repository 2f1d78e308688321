//! Why a call has no result, and what became of it.

use std::fmt;
use std::io;
use underpass_wire::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types};

/// What became of a call that failed: calls are executed at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The procedure was not started and never will be. The call can be repeated.
    NotStarted,
    /// The procedure may have been executed, wholly, in part or not at all.
    Unknown,
    /// The procedure was executed to its end, and its result is lost: it came and could not be
    /// read, or there was no room to send it.
    Executed,
}

/// Why a call has no result.
#[derive(Clone, PartialEq, Eq)]
pub enum CallError {
    /// The server's process has ended. *Remedy:* import again; repeat the call if [`Outcome`]
    /// allows.
    PeerDied(Outcome),
    /// The binding was closed: by the server, or because one side damaged it. *Remedy:* import
    /// again.
    Closed(Outcome),
    /// The server has taken the binding back, or its time is over. *Remedy:* import again, if the
    /// server lets you; ask who runs it.
    Revoked(Outcome),
    /// The deadline passed first: the call's own, or that of the call whose handler made it.
    /// *Remedy:* a longer deadline; the procedure may still be running, unless
    /// [`Outcome::NotStarted`] says that it never will.
    Deadline(Outcome),
    /// Somebody has freed the caller, by [`Abandon::abandon`](crate::Abandon::abandon). *Remedy:*
    /// none; it was meant so. The procedure may still be running, unless [`Outcome::NotStarted`]
    /// says that it never will.
    Abandoned(Outcome),
    /// The thread that waited was [cancelled](underpass_threads::Thread::cancel), or the caller
    /// wants it no more of the handler that made the call. *Remedy:* none; it was meant so. What is
    /// to be done all the same is done inside of [`detached`](crate::detached).
    Cancelled(Outcome),
    /// The server held more calls than it may for which nobody waits any more, and the binding is
    /// closed. *Remedy:* see what the server does; import again.
    Captured(Outcome),
    /// A server without the state of the one before answers for it now, so what this client was
    /// given by that one (ids, sessions) means nothing any more, or something else; and why the
    /// state was not restored. Only stubs of `import_resilient` say so. *Remedy:* call
    /// `acknowledge_restart` on the stub and get everything anew; or import by
    /// `import_resilient_with` and a hook that restores the state.
    Restarted(Outcome, String),
    /// This process was forked off the one that imported the interface, and has no part in its
    /// bindings. *Remedy:* have it execute a program that imports; or fork before the first import.
    Forked,
    /// All A-stacks of the binding are leased, and none came free in time, or the caller chose not
    /// to wait ([`AllLeased`](crate::AllLeased)). *Remedy:* fewer calls at once, another choice, or
    /// another binding.
    Overloaded,
    /// The procedure panicked; the server goes on. *Remedy:* see the server's log.
    Panicked(String),
    /// The server's executor dropped the handler, which is async, before it ended. *Remedy:* see
    /// why the server ends its executor; repeat the call if [`Outcome`] allows.
    Dropped(Outcome),
    /// The peer broke the rules of the channel, and the binding is closed. *Remedy:* none here; the
    /// peer has a fault.
    ProtocolViolation(String),
    /// Arguments (*not started*) or results (*executed*) are not what the interface says. *Remedy:*
    /// build both sides from the same interface.
    Decode(Outcome, String),
    /// There was not enough memory or files for arguments (*not started*) or results (*executed*).
    /// *Remedy:* smaller ones, or higher limits (`ulimit -n`).
    NoResources(Outcome, String),
}

impl CallError {
    /// What became of the call.
    ///
    /// # Examples
    /// ```
    /// use underpass_rpc::{CallError, Outcome};
    /// assert_eq!(CallError::Overloaded.outcome(), Outcome::NotStarted);
    /// ```
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::PeerDied(outcome) | Self::Closed(outcome) | Self::Deadline(outcome) => *outcome,
            Self::Abandoned(outcome) | Self::Cancelled(outcome) | Self::Captured(outcome) => *outcome,
            Self::Revoked(outcome) | Self::Dropped(outcome) | Self::Restarted(outcome, _) => *outcome,
            Self::Decode(outcome, _) | Self::NoResources(outcome, _) => *outcome,
            Self::Overloaded | Self::Forked => Outcome::NotStarted,
            Self::ProtocolViolation(_) | Self::Panicked(_) => Outcome::Unknown,
        }
    }

    /// The same error, of a call whose `earlier` attempts ended so: where one may have been
    /// executed, nothing is known of the whole though the last was not started.
    pub(crate) fn after(mut self, earlier: Outcome) -> Self {
        match &mut self {
            Self::PeerDied(outcome)
            | Self::Closed(outcome)
            | Self::Deadline(outcome)
            | Self::Abandoned(outcome)
            | Self::Cancelled(outcome)
            | Self::Captured(outcome)
            | Self::Revoked(outcome)
            | Self::Dropped(outcome)
            | Self::Restarted(outcome, _)
            | Self::Decode(outcome, _)
            | Self::NoResources(outcome, _)
                if *outcome == Outcome::NotStarted =>
            {
                *outcome = earlier;
            }
            _ => {}
        }
        self
    }

    /// A value could not be read, with what became of its call.
    #[cold]
    pub(crate) fn unread(outcome: Outcome, e: &DecodeError) -> Self {
        match e {
            DecodeError::NoRoomForFile => Self::NoResources(outcome, e.to_string()),
            DecodeError::NoStack { .. } => Self::NoResources(outcome, no_stack(e)),
            _ => Self::Decode(outcome, e.to_string()),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotStarted => "the call was not started",
            Self::Unknown => "the call may or may not have been executed",
            Self::Executed => "the call was executed, its result is lost",
        })
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerDied(outcome) => {
                write!(f, "the server's process has ended; {outcome}; import the interface again")
            }
            Self::Closed(outcome) => {
                write!(f, "the binding is closed; {outcome}; import the interface again")
            }
            Self::Revoked(outcome) => {
                let what = "the server has revoked the binding, or its time is over";
                write!(f, "{what}; {outcome}; import the interface again if you may")
            }
            Self::Deadline(outcome) => {
                write!(f, "the deadline passed before the reply came; {outcome}; allow it more time")
            }
            Self::Abandoned(outcome) => write!(f, "the call was abandoned before the reply came; {outcome}"),
            Self::Cancelled(outcome) => {
                let who = "who waited was cancelled, or works for somebody who wants it no more";
                write!(f, "{who}; {outcome}; do in underpass::detached what is to be done all the same")
            }
            Self::Captured(outcome) => write!(
                f,
                "the server did not give back calls that nobody waits for, and the binding is closed; {outcome}; see what the server does, and import \
                 again"
            ),
            Self::Restarted(outcome, why) => write!(
                f,
                "the server was restarted and has no state of this client ({why}); {outcome}; call \
                 acknowledge_restart on the stub and get anew what the old server gave"
            ),
            Self::Forked => write!(
                f,
                "this process was forked off the one that has the binding; the call was not started; import in a program that it executes, or fork before the first import"
            ),
            Self::Overloaded => {
                write!(f, "too many calls at once over this binding; the call was not started")
            }
            Self::Panicked(message) => write!(f, "the procedure panicked: {message}"),
            Self::Dropped(outcome) => {
                write!(
                    f,
                    "the server's executor dropped the handler before its end; {outcome}; see why it ended"
                )
            }
            Self::ProtocolViolation(what) => {
                write!(f, "the peer broke the channel's rules ({what}); the binding is closed")
            }
            Self::Decode(outcome, what) => write!(
                f,
                "what came does not fit the interface: {what}; {outcome}; build both sides from the same one"
            ),
            Self::NoResources(outcome, what) => {
                write!(f, "no room for arguments or results: {what}; {outcome}; see `ulimit -n` and `free`")
            }
        }
    }
}

impl std::error::Error for CallError {}

/// What to do about a value that is nested too deeply for a stack.
#[cold]
pub(crate) fn no_stack(e: &DecodeError) -> String {
    format!(
        "{e}; a server has larger ones for an interface by `Service::stack_size`, a calling thread by `Builder::stack_size` or \
         `thread::with_stack`"
    )
}

impl CallError {
    fn parts(&self) -> (u8, &str) {
        match self {
            Self::PeerDied(outcome) => (*outcome as u8, ""),
            Self::Closed(outcome) => (3 + *outcome as u8, ""),
            Self::Deadline(outcome) => (12 + *outcome as u8, ""),
            Self::Overloaded => (7, ""),
            Self::Abandoned(outcome) => (21 + *outcome as u8, ""),
            Self::Captured(outcome) => (24 + *outcome as u8, ""),
            Self::Panicked(text) => (8, text),
            Self::ProtocolViolation(text) => (9, text),
            Self::Revoked(outcome) => (15 + *outcome as u8, ""),
            Self::Dropped(outcome) => (18 + *outcome as u8, ""),
            Self::Forked => (27, ""),
            Self::Cancelled(outcome) => (30 + *outcome as u8, ""),
            Self::Restarted(outcome, why) => (33 + *outcome as u8, why),
            Self::Decode(outcome, text) => (36 + *outcome as u8, text),
            Self::NoResources(outcome, text) => (39 + *outcome as u8, text),
        }
    }
}

// A handler may return a `CallError` of its own calls as its result.
impl Encode for CallError {
    const FIXED: Option<usize> = None;

    fn size(&self) -> usize {
        self.parts().size()
    }

    fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
        self.parts().encode(to);
    }
}

impl Decode for CallError {
    /// Its kind, and the length of a text.
    const LEAST: usize = 2;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let (kind, text) = <(u8, String)>::decode(from)?;
        let outcome = [Outcome::NotStarted, Outcome::Unknown, Outcome::Executed][usize::from(kind % 3)];
        Ok(match kind {
            0..=2 => Self::PeerDied(outcome),
            3..=5 => Self::Closed(outcome),
            12..=14 => Self::Deadline(outcome),
            21..=23 => Self::Abandoned(outcome),
            24..=26 => Self::Captured(outcome),
            7 => Self::Overloaded,
            8 => Self::Panicked(text),
            9 => Self::ProtocolViolation(text),
            15..=17 => Self::Revoked(outcome),
            18..=20 => Self::Dropped(outcome),
            27 => Self::Forked,
            30..=32 => Self::Cancelled(outcome),
            33..=35 => Self::Restarted(outcome, text),
            36..=38 => Self::Decode(outcome, text),
            39..=41 => Self::NoResources(outcome, text),
            _ => return Err(DecodeError::BadTag { of: "CallError", tag: kind.into() }),
        })
    }
}

impl Schema for CallError {
    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("CallError")
    }
}

/// So that methods of interfaces can return `io::Result`. The error has the failure itself inside:
/// [`get_ref`](io::Error::get_ref) and `downcast_ref::<CallError>()` find it.
impl From<CallError> for io::Error {
    fn from(e: CallError) -> Self {
        let kind = match e {
            CallError::PeerDied(_)
            | CallError::Closed(_)
            | CallError::Revoked(_)
            | CallError::Restarted(..) => io::ErrorKind::ConnectionAborted,
            CallError::Deadline(_) => io::ErrorKind::TimedOut,
            CallError::Overloaded => io::ErrorKind::ResourceBusy,
            CallError::NoResources(..) => io::ErrorKind::OutOfMemory,
            CallError::Decode(..) | CallError::ProtocolViolation(_) => io::ErrorKind::InvalidData,
            // Not `Interrupted`, which `std` takes for a reason to try again.
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, e)
    }
}

/// An error that can carry the failure of a call: what the `E` of an interface's `Result<T, E>`
/// must be. Implemented by `From<CallError>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't carry the failure of a call",
    label = "the peer may die, but `{Self}` has no way to say so",
    note = "implement `From<underpass::CallError>` for `{Self}`, or use `underpass::CallError` itself"
)]
pub trait FromCallError {
    /// The error that says that a call failed, and why.
    fn from_call_error(e: CallError) -> Self;
}

impl<E: From<CallError>> FromCallError for E {
    #[inline]
    fn from_call_error(e: CallError) -> Self {
        e.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use underpass_wire::{from_bytes, to_bytes};

    const OUTCOMES: [Outcome; 3] = [Outcome::NotStarted, Outcome::Unknown, Outcome::Executed];

    #[test]
    fn every_error_travels_with_its_outcome() {
        let text = || "text".to_owned();
        let of = |outcome| {
            [
                CallError::PeerDied(outcome),
                CallError::Closed(outcome),
                CallError::Revoked(outcome),
                CallError::Deadline(outcome),
                CallError::Abandoned(outcome),
                CallError::Cancelled(outcome),
                CallError::Captured(outcome),
                CallError::Dropped(outcome),
                CallError::Restarted(outcome, text()),
                CallError::Decode(outcome, text()),
                CallError::NoResources(outcome, text()),
            ]
        };
        for outcome in OUTCOMES {
            for error in of(outcome) {
                assert_eq!(from_bytes(&to_bytes(&error)), Ok(error.clone()));
                assert_eq!(error.outcome(), outcome, "{error}");
            }
        }
        let others = [CallError::Overloaded, CallError::Forked, CallError::Panicked(text())];
        for error in others.into_iter().chain([CallError::ProtocolViolation(text())]) {
            assert_eq!(from_bytes(&to_bytes(&error)), Ok(error));
        }
    }

    #[test]
    fn what_earlier_attempts_may_have_done_is_not_forgotten() {
        for (last, whole) in OUTCOMES.into_iter().zip([Outcome::Unknown, Outcome::Unknown, Outcome::Executed])
        {
            assert_eq!(CallError::Closed(last).after(Outcome::Unknown), CallError::Closed(whole));
            assert_eq!(CallError::Closed(last).after(Outcome::NotStarted), CallError::Closed(last));
        }
    }
}
