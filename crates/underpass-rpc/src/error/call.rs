//! Why a call failed, and whether the server executed it.

use crate::metrics::kind::FailureKind;
use std::borrow::Cow;
use std::fmt;
use std::io;
use underpass_wire::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types};

/// How much of a failed call the server has executed. The server executes each call at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server did not start the call and never will. *Repeating the call is always safe.*
    NotStarted,
    /// The server may have executed all of the call, a part of it, or nothing. *Repeat the call
    /// only if executing it twice does no harm.*
    Unknown,
    /// The server executed the call to its end, but the result is lost: it could not be read, or
    /// there was no space to send it. *Repeating the call executes it again.*
    Executed,
}

/// Why a call failed.
///
/// [`outcome`](Self::outcome) says how much of the call the server has executed, and so whether the
/// call may be repeated: after [`Outcome::NotStarted`] always, after [`Outcome::Unknown`] only if
/// executing it twice does no harm. The remedy of each variant says what must change before a
/// repetition can succeed.
///
/// Later versions may add variants, so a `match` needs a `_` arm.
///
/// # Examples
/// ```
/// use underpass::{CallError, Outcome};
///
/// /// Whether to import again and repeat the call.
/// fn may_repeat(error: &CallError, idempotent: bool) -> bool {
///     let ended = matches!(error, CallError::PeerDied(_) | CallError::Closed(_));
///     ended && (idempotent || error.outcome() == Outcome::NotStarted)
/// }
///
/// assert!(may_repeat(&CallError::Closed(Outcome::NotStarted), false));
/// assert!(!may_repeat(&CallError::Closed(Outcome::Unknown), false));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The server's process has ended. *Repeat:* if the [`Outcome`] allows, over a new binding.
    /// *Remedy:* import again. A stub of `import_resilient` does both by itself.
    PeerDied(Outcome),
    /// The binding is closed: the server has closed it, or one side has damaged it. *Repeat:* if
    /// the [`Outcome`] allows, over a new binding. *Remedy:* import again.
    Closed(Outcome),
    /// The server has revoked the binding, or the binding has expired. *Repeat:* if the [`Outcome`]
    /// allows, over a new binding. *Remedy:* import again; if the server refuses, ask its operator
    /// for access.
    Revoked(Outcome),
    /// The deadline passed before the reply came: the call's own deadline, or that of the call
    /// in whose handler it was made. The procedure may still be running, except after
    /// [`Outcome::NotStarted`]. *Repeat:* if the [`Outcome`] allows. *Remedy:* set a later
    /// deadline, or find out why the server is slow.
    Deadline(Outcome),
    /// Another thread freed the caller by [`Abandon::abandon`](crate::Abandon::abandon). The
    /// procedure may still be running, except after [`Outcome::NotStarted`]. *Repeat:* if the
    /// [`Outcome`] allows. *Remedy:* none, because this program asked for it.
    Abandoned(Outcome),
    /// The waiting thread was [cancelled](underpass_threads::Thread::cancel), or its own caller
    /// gave up. The procedure may still be running, except after [`Outcome::NotStarted`]. *Repeat:*
    /// if the [`Outcome`] allows, inside of [`detached`](crate::detached). *Remedy:* none, because
    /// somebody asked for it. Make the call inside of `detached` if it must be made nevertheless.
    Cancelled(Outcome),
    /// Too many abandoned calls still run in the server (more than the stub's `quarantine`), and
    /// the client has closed the binding. *Repeat:* if the [`Outcome`] allows, over a new binding.
    /// *Remedy:* find out why the server's handlers do not return; then import again.
    Captured(Outcome),
    /// The server was restarted without its state, so ids and sessions of the previous server are
    /// invalid or mean something else. The text says why the state was not restored. Only stubs of
    /// `import_resilient` report this. *Repeat:* only after the remedy, with arguments that the new
    /// server gave. *Remedy:* call `acknowledge_restart` on the stub and get everything anew. Or
    /// import with `import_resilient_with` and a hook that restores the state.
    Restarted(Outcome, String),
    /// This process is a forked child of the process that imported the interface, and can't use the
    /// parent's bindings. *Repeat:* safe, because the call was not started, but only over a binding
    /// of this process. *Remedy:* execute a program that imports, or fork before the first import.
    Forked,
    /// All A-stacks of the binding are leased, and none came free in time, or the caller chose not
    /// to wait ([`AllLeased`](crate::AllLeased)). *Repeat:* safe, because the call was not started.
    /// *Remedy:* make fewer calls at once, choose another `AllLeased`, or import another binding.
    Overloaded,
    /// The call would have waited for itself: it was made on behalf of a call that the service runs
    /// now, and the service starts no other before that one has ended. That is so with
    /// `serve_sequential`, and with `serve_exclusive` inside of `thread::blocking`. *Repeat:* safe,
    /// because the call was not started, but only after that one has ended. *Remedy:* make the call
    /// later, or serve with `serve_exclusive` and make it outside of `thread::blocking`.
    Deadlock,
    /// The procedure panicked; the text is its message. The server goes on. *Repeat:* only if
    /// executing a part of the call twice does no harm; it may panic again. *Remedy:* read the
    /// server's log.
    Panicked(String),
    /// The server's executor dropped the async handler before it finished. *Repeat:* if the
    /// [`Outcome`] allows. *Remedy:* find out why the server ended its executor.
    Dropped(Outcome),
    /// The peer broke the rules of the channel, and the binding is closed; the text says how.
    /// *Repeat:* only if executing the call twice does no harm, over a new binding. *Remedy:* none
    /// on this side: the peer has a fault.
    ProtocolViolation(String),
    /// The server exports an older version of the interface, which has no such method. Over a
    /// resilient binding an attempt at an earlier server may have executed the call. *Repeat:* if
    /// the [`Outcome`] allows, after the remedy. *Remedy:* do it by methods of the older version,
    /// or have the server upgraded.
    Unsupported(Outcome),
    /// Arguments (*not started*) or results (*executed*) do not fit the interface. *Repeat:*
    /// useless, because it fails in the same way. *Remedy:* build both sides from the same source
    /// of the interface.
    Decode(Outcome, String),
    /// Memory or open files ran out for arguments (*not started*) or results (*executed*).
    /// *Repeat:* if the [`Outcome`] allows, after the remedy. *Remedy:* pass smaller values, or
    /// raise the limits (`ulimit -n`).
    NoResources(Outcome, String),
}

impl CallError {
    /// How much of the call the server has executed.
    ///
    /// # Examples
    /// ```
    /// use underpass::{CallError, Outcome};
    /// assert_eq!(CallError::Overloaded.outcome(), Outcome::NotStarted);
    /// ```
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::PeerDied(outcome) | Self::Closed(outcome) | Self::Deadline(outcome) => *outcome,
            Self::Abandoned(outcome) | Self::Cancelled(outcome) | Self::Captured(outcome) => *outcome,
            Self::Revoked(outcome) | Self::Dropped(outcome) | Self::Restarted(outcome, _) => *outcome,
            Self::Decode(outcome, _) | Self::NoResources(outcome, _) | Self::Unsupported(outcome) => *outcome,
            Self::Overloaded | Self::Forked | Self::Deadlock => Outcome::NotStarted,
            Self::ProtocolViolation(_) | Self::Panicked(_) => Outcome::Unknown,
        }
    }

    /// The same error, of a call whose earlier attempts had the outcome `earlier`. If an earlier
    /// attempt may have been executed, the outcome of the whole call is unknown even if the last
    /// attempt was not started.
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
            | Self::Unsupported(outcome)
                if *outcome == Outcome::NotStarted =>
            {
                *outcome = earlier;
            }
            _ => {}
        }
        self
    }

    /// A value of a call with this `outcome` could not be read.
    #[cold]
    pub(crate) fn unread(outcome: Outcome, e: &DecodeError) -> Self {
        match e {
            DecodeError::NoRoomForFile => Self::NoResources(outcome, e.to_string()),
            DecodeError::NoStack { .. } => Self::NoResources(outcome, no_stack(e)),
            _ => Self::Decode(outcome, e.to_string()),
        }
    }
}

impl CallError {
    /// The name of its kind, as metrics tell it: `"deadline"`, `"peer-died"`.
    ///
    /// # Examples
    /// ```
    /// use underpass::{CallError, Outcome};
    /// assert_eq!(CallError::Deadline(Outcome::Unknown).kind(), "deadline");
    /// ```
    pub fn kind(&self) -> &'static str {
        self.failure_kind().name()
    }

    /// Its kind.
    pub(crate) fn failure_kind(&self) -> FailureKind {
        match self {
            Self::PeerDied(_) => FailureKind::PeerDied,
            Self::Closed(_) => FailureKind::Closed,
            Self::Revoked(_) => FailureKind::Revoked,
            Self::Deadline(_) => FailureKind::Deadline,
            Self::Abandoned(_) => FailureKind::Abandoned,
            Self::Cancelled(_) => FailureKind::Cancelled,
            Self::Captured(_) => FailureKind::Captured,
            Self::Restarted(..) => FailureKind::Restarted,
            Self::Forked => FailureKind::Forked,
            Self::Overloaded => FailureKind::Overloaded,
            Self::Deadlock => FailureKind::Deadlock,
            Self::Panicked(_) => FailureKind::Panicked,
            Self::Dropped(_) => FailureKind::Dropped,
            Self::ProtocolViolation(_) => FailureKind::ProtocolViolation,
            Self::Unsupported(_) => FailureKind::Unsupported,
            Self::Decode(..) => FailureKind::Decode,
            Self::NoResources(..) => FailureKind::NoResources,
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

impl CallError {
    /// What went wrong.
    fn what(&self) -> Cow<'_, str> {
        let what = match self {
            Self::PeerDied(_) => "the server's process has ended",
            Self::Closed(_) => "the binding is closed",
            Self::Revoked(_) => "the server has revoked the binding, or the binding has expired",
            Self::Deadline(_) => "the deadline passed before the reply came",
            Self::Abandoned(_) => "the call was abandoned before the reply came",
            Self::Cancelled(_) => "the waiting thread was cancelled, or its own caller gave up",
            Self::Captured(_) => "too many abandoned calls still run in the server, so the binding is closed",
            Self::Unsupported(_) => "the server's version of the interface has no such method",
            Self::Forked => "this process was forked off the one that has the binding",
            Self::Overloaded => "too many calls at once over this binding",
            Self::Deadlock => {
                "the call came back into a service that runs another call to its end first: the one that made it"
            }
            Self::Dropped(_) => "the server's executor dropped the handler before it finished",
            Self::Restarted(_, why) => {
                return format!("the server was restarted and has no state of this client ({why})").into();
            }
            Self::Panicked(message) => return format!("the procedure panicked: {message}").into(),
            Self::ProtocolViolation(what) => {
                return format!("the peer broke the channel's rules ({what}), so the binding is closed")
                    .into();
            }
            Self::Decode(_, what) => return format!("a value does not fit the interface: {what}").into(),
            Self::NoResources(_, what) => {
                return format!("memory or files ran out for arguments or results: {what}").into();
            }
        };
        what.into()
    }

    /// What to do next. Empty if nothing helps.
    fn remedy(&self) -> &'static str {
        match self {
            Self::PeerDied(_) | Self::Closed(_) => "import the interface again",
            Self::Revoked(_) => "import the interface again if you may",
            Self::Deadline(_) => "set a later deadline",
            Self::Abandoned(_) => "",
            Self::Cancelled(_) => "call inside of underpass::detached if the call must be made nevertheless",
            Self::Captured(_) => {
                "find out why the server's handlers do not return, and import the interface again"
            }
            Self::Restarted(..) => {
                "call acknowledge_restart on the stub and get everything anew that the old server gave"
            }
            Self::Forked => "import in a program that it executes, or fork before the first import",
            Self::Overloaded => "make fewer at once, or choose another AllLeased",
            Self::Deadlock => "make it after that one, or serve with `serve_exclusive`",
            Self::Panicked(_) => "see the server's log",
            Self::Dropped(_) => "find out why the executor ended",
            Self::ProtocolViolation(_) => "the peer has a fault",
            Self::Decode(..) => "build both sides from the same source",
            Self::Unsupported(_) => "upgrade the server, or use methods of the older version",
            Self::NoResources(..) => "see `ulimit -n` and `free`",
        }
    }
}

/// What went wrong, what became of the call, and what to do next.
impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what(), self.outcome())?;
        match self.remedy() {
            "" => Ok(()),
            remedy => write!(f, "; {remedy}"),
        }
    }
}

impl std::error::Error for CallError {}

/// The remedy for a value that is nested too deeply for a stack.
#[cold]
pub(crate) fn no_stack(e: &DecodeError) -> String {
    format!(
        "{e}; give the server larger stacks by `Service::stack_size`, or the calling thread a larger one by \
         `Builder::stack_size` or `thread::with_stack`"
    )
}

impl CallError {
    fn parts(&self) -> (u8, &str) {
        match self {
            Self::PeerDied(outcome) => (*outcome as u8, ""),
            Self::Closed(outcome) => (3 + *outcome as u8, ""),
            Self::Deadline(outcome) => (12 + *outcome as u8, ""),
            Self::Overloaded => (7, ""),
            Self::Deadlock => (42, ""),
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
            Self::Unsupported(outcome) => (45 + *outcome as u8, ""),
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
    /// The kind, and the length of a text.
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
            42 => Self::Deadlock,
            45..=47 => Self::Unsupported(outcome),
            _ => return Err(DecodeError::BadTag { of: "CallError", tag: kind.into() }),
        })
    }
}

impl Schema for CallError {
    type Itself = Self;

    fn schema(_: &mut Types) -> TypeName {
        TypeName::plain("CallError")
    }
}

/// Methods of interfaces can return `io::Result`. The `io::Error` contains the `CallError`:
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
            CallError::Deadlock => io::ErrorKind::Deadlock,
            CallError::Unsupported(_) => io::ErrorKind::Unsupported,
            CallError::Decode(..) | CallError::ProtocolViolation(_) => io::ErrorKind::InvalidData,
            // Not `Interrupted`: `std` repeats an operation that returns it.
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, e)
    }
}

/// An error type that can represent the failure of a call: the `E` of an interface's `Result<T, E>`
/// must implement it. Every type with `From<CallError>` does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't carry the failure of a call",
    label = "the peer may die, but `{Self}` has no way to say so",
    note = "implement `From<underpass::CallError>` for `{Self}`, or use `underpass::CallError` itself"
)]
pub trait FromCallError {
    /// Converts the failure of a call.
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
                CallError::Unsupported(outcome),
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
        let others =
            [CallError::Overloaded, CallError::Forked, CallError::Deadlock, CallError::Panicked(text())];
        for error in others.into_iter().chain([CallError::ProtocolViolation(text())]) {
            assert_eq!(from_bytes(&to_bytes(&error)), Ok(error));
        }
    }

    #[test]
    fn the_outcome_includes_earlier_attempts() {
        for (last, whole) in OUTCOMES.into_iter().zip([Outcome::Unknown, Outcome::Unknown, Outcome::Executed])
        {
            assert_eq!(CallError::Closed(last).after(Outcome::Unknown), CallError::Closed(whole));
            assert_eq!(CallError::Closed(last).after(Outcome::NotStarted), CallError::Closed(last));
        }
    }
}
