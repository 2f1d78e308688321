//! What is told about exports, in types that travel.

use super::generated::__private::CallError;
use crate::binding::row::BindingRow;
use crate::counters::{Counters, active_bindings, counters};
use std::error::Error;
use std::fmt;
use std::time::SystemTime;
use underpass_macros::Wire;
use underpass_os::usage;

/// Why a process does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated)]
pub enum InspectError {
    /// The call failed. *Remedy:* that of the error.
    Call(CallError),
    /// This is told to the process's own user and to root alone. *Remedy:* ask as that user.
    OtherUser,
    /// The export does not let its bindings be revoked by command. *Remedy:* its server says
    /// [`Service::revocable`](crate::Service::revocable).
    NotRevocable,
    /// The export does not let its calls be traced. *Remedy:* its server says
    /// [`Service::traceable`](crate::Service::traceable).
    NotTraceable,
}

impl From<CallError> for InspectError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(e) => e.fmt(f),
            Self::OtherUser => f.write_str("the process tells this to its own user and to root alone"),
            Self::NotRevocable => f.write_str(
                "the export does not let its bindings be revoked by command; its server has to say \
                 `Service::revocable`",
            ),
            Self::NotTraceable => f.write_str(
                "the export does not let its calls be traced; its server has to say `Service::traceable`",
            ),
        }
    }
}

impl Error for InspectError {}

/// A name that a process exports.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated, extensible)]
pub struct ExportView {
    /// The name.
    pub name: String,
    /// The process's number, in its own PID namespace.
    pub pid: u32,
    /// The process's user.
    pub user: u32,
    /// When the name was exported.
    pub since: SystemTime,
    /// The permissions of the name's socket.
    pub mode: u32,
    /// Whether bindings can be revoked by command.
    pub revocable: bool,
    /// Whether calls can be traced.
    pub traceable: bool,
}

/// Whether a server serves, as it says ([`Health`](crate::Health)).
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated, extensible)]
pub struct HealthView {
    /// It serves.
    pub serving: bool,
    /// Why it does not serve. Empty if it does.
    pub why_not: String,
}

/// A client's binding of a name.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated, extensible)]
pub struct BindingView {
    /// Its number. No other binding of the process has or had it.
    pub id: u64,
    /// The interface.
    pub interface: String,
    /// The client's process, or 0 if the server can't see it.
    pub pid: u32,
    /// The client's user.
    pub user: u32,
    /// Whether the binding was passed as a value.
    pub is_value: bool,
    /// How many calls its connection has carried so far. A connection serves all bindings between
    /// two processes, so bindings of one [`connection`](Self::connection) have this number in
    /// common.
    pub calls: u64,
    /// The number of the first binding in this list that has the same connection.
    pub connection: u64,
    /// Nanoseconds until it is revoked by itself, if it expires.
    pub expires_in: Option<u64>,
}

/// What a process has done so far: its [`Counters`], its processor time and its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated, extensible)]
pub struct DomainView {
    /// Processor time of all its kernel threads, in ns.
    pub processor_time: u64,
    /// Bytes of memory that are resident.
    pub memory: u64,
    /// Its kernel threads.
    pub kernel_threads: u32,
    /// Ends of bindings that its processors poll.
    pub active_bindings: u64,
    /// Calls made to other domains.
    pub calls: u64,
    /// Calls of other domains served.
    pub served: u64,
    /// System calls made for calls.
    pub kernel_entries: u64,
    /// Wake-ups sent.
    pub wakeups_sent: u64,
    /// Messages that needed no wake-up.
    pub wakeups_avoided: u64,
    /// Times that a processor went to sleep.
    pub sleeps: u64,
    /// Spins that ended because a message came.
    pub spins_paid: u64,
    /// Spins that ended in a sleep.
    pub spins_in_vain: u64,
    /// Processors donated to servers.
    pub donations_given: u64,
    /// Processors that clients donated.
    pub donations_taken: u64,
    /// Of these, returned.
    pub donations_returned: u64,
    /// Bytes of arguments and results sent.
    pub bytes_out: u64,
    /// Bytes of arguments and results received.
    pub bytes_in: u64,
}

/// Calls of a name that were recorded.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated)]
pub struct TraceView {
    /// The number of the call that is recorded next: ask from there on.
    pub next: u64,
    /// How many calls were recorded since the last request and are not among these any more.
    pub missed: u64,
    /// The calls, in the order in which they ended.
    pub calls: Vec<TracedCall>,
}

/// A call as its server has recorded it. If its handler is async, it is recorded when the handler
/// is started.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated, extensible)]
pub struct TracedCall {
    /// The interface.
    pub interface: String,
    /// The method: its position in [`InterfaceView::methods`].
    pub method: u16,
    /// The number of the binding.
    pub binding: u64,
    /// The client's process, or 0 if the server can't see it.
    pub pid: u32,
    /// When its server stub began, in ns of the server's monotonic clock.
    pub began: u64,
    /// How long the server stub took, in ns.
    pub took: u64,
    /// The CPU on which it began.
    pub cpu: u32,
    /// Bytes of the arguments.
    pub bytes: u64,
    /// Whether it has a result, be it one that the method calls an error. It has none if the
    /// arguments were refused, or the method panicked.
    pub fine: bool,
}

/// An interface, for programs that don't have its trait.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated)]
pub struct InterfaceView {
    /// The trait's name.
    pub name: String,
    /// The trait's documentation, as markdown.
    pub doc: String,
    /// Whether no call depends on what a server has given a client before.
    pub stateless: bool,
    /// The hash of all on which both sides must agree.
    pub hash: u64,
    /// Its versions, the oldest first.
    pub versions: Vec<VersionView>,
    /// Its methods. A method's index in calls is its position.
    pub methods: Vec<MethodView>,
    /// The types that the methods use.
    pub types: Vec<TypeView>,
}

/// A version of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated)]
pub struct VersionView {
    /// The hash of all on which both sides must agree.
    pub hash: u64,
    /// The bytes of its A-stacks.
    pub astack: u64,
}

/// A method of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated)]
pub struct MethodView {
    /// Its name.
    pub name: String,
    /// Its documentation, as markdown.
    pub doc: String,
    /// The names and types of its arguments, without `self`.
    pub arguments: Vec<(String, String)>,
    /// Its return type.
    pub result: String,
}

/// A struct, an enum, or an interface that travels as a value.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated)]
pub struct TypeView {
    /// Its name, as other types and methods have it.
    pub name: String,
    /// What it consists of.
    pub structure: StructureView,
    /// What is documented of it, and how, as markdown: the type itself is `""`, a field its name or
    /// position, a variant its name, and a variant's field `Variant.field`.
    pub docs: Vec<(String, String)>,
}

/// What a type consists of.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated)]
pub enum StructureView {
    /// A struct of these fields.
    Struct(FieldsView),
    /// A struct to which later versions may add fields.
    Extensible {
        /// The names and types of the fields that all versions have.
        first: Vec<(String, String)>,
        /// Those that were added, in order.
        added: Vec<(String, String)>,
    },
    /// An enum of these variants.
    Enum(Vec<VariantView>),
    /// An interface, as a value.
    Interface(Vec<MethodView>),
}

/// The fields of a struct or of a variant.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated)]
pub enum FieldsView {
    /// None.
    Unit,
    /// Types of fields with positions.
    Tuple(Vec<String>),
    /// Names and types of fields with names.
    Named(Vec<(String, String)>),
}

/// A variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::binding::inspect::generated)]
pub struct VariantView {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: FieldsView,
}

impl BindingView {
    /// A binding of a connection that has carried `calls`, and has the binding `connection`.
    pub(super) fn of(row: &BindingRow, calls: u64, connection: u64) -> Self {
        let (binding, peer) = (row.binding(), row.binding().peer());
        Self {
            id: binding.id(),
            interface: row.descriptor.name.to_owned(),
            pid: peer.pid(),
            user: peer.uid(),
            is_value: row.is_value(),
            calls,
            connection,
            expires_in: binding.expires_in().map(|left| left.as_nanos() as u64),
        }
    }
}

impl DomainView {
    /// This process, as it is now.
    pub(super) fn now() -> Self {
        let Counters {
            calls,
            served,
            kernel_entries,
            wakeups_sent,
            wakeups_avoided,
            sleeps,
            spins_paid,
            spins_in_vain,
            donations_given,
            donations_taken,
            donations_returned,
            bytes_out,
            bytes_in,
            ..
        } = counters();
        // Without `/proc` these are 0.
        let usage = usage::of_this_process().unwrap_or_default();
        Self {
            processor_time: usage.processor_time_ns,
            memory: usage.resident_bytes,
            kernel_threads: usage.kernel_threads,
            active_bindings: active_bindings() as u64,
            calls,
            served,
            kernel_entries,
            wakeups_sent,
            wakeups_avoided,
            sleeps,
            spins_paid,
            spins_in_vain,
            donations_given,
            donations_taken,
            donations_returned,
            bytes_out,
            bytes_in,
        }
    }
}
