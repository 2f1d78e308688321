//! The exporter's side of a region: its members and their deaths.
//!
//! A region is exported by two ordinary interfaces. [`Host`] is the membership: a binding of it is
//! a member, and when it ends, for whatever reason, the member is dead. [`Obituary`] tells the
//! members of deaths; that its calls fail is how they learn of the exporter's own.

use crate::domain::LocalDomain;
use crate::layout::MEMBERS;
use crate::member::MemberId;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use underpass_rpc::{Binding, CallError};
use underpass_sync::{Condvar, Mutex, MutexGuard};

/// The paths that generated code uses: those of the facade, which knows this crate.
pub(crate) mod generated {
    pub(crate) mod __private {
        pub(crate) use underpass_rpc::{
            Abandon, AllLeased, CallError, CarriedError, Counters, DetachedCall, Dispatch, Exclusive,
            FromCallError, ImportError, IncomingCall, Policy, ProcedureCall, Refused, ResultOf, Service,
            ShareError, Stub, remote::RemoteTransport,
        };
        pub(crate) use underpass_wire as wire;
    }
}

/// How long a call waits for a death before it looks whether its caller still wants it.
const LOOK: Duration = Duration::from_secs(10);
/// The generation of the exporter, which is the first member.
const FIRST: u32 = 1;
/// The exporter itself.
pub(crate) const EXPORTER: MemberId = MemberId { index: 0, generation: FIRST };

/// What a domain gets when it joins.
#[derive(Debug, underpass_macros::Wire)]
#[underpass(crate = crate::host::generated)]
pub(crate) struct Membership {
    pub(crate) index: u32,
    pub(crate) generation: u32,
    pub(crate) memory: OwnedFd,
}

/// Why a domain was not let in.
#[derive(Debug, underpass_macros::Wire)]
#[underpass(crate = crate::host::generated)]
pub(crate) enum JoinError {
    Call(CallError),
    OtherType,
    Full,
}

impl From<CallError> for JoinError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// The membership of a region.
#[underpass_macros::interface(crate = crate::host::generated)]
pub(crate) trait Host {
    /// Joins, with the shape of the region's type.
    fn join(&self, shape: u64) -> Result<Membership, JoinError>;
}

/// The newest generation with each index that is dead, and the number of deaths.
#[derive(Clone, Debug, Default, underpass_macros::Wire)]
#[underpass(crate = crate::host::generated)]
pub(crate) struct Dead {
    pub(crate) deaths: u64,
    pub(crate) newest: Vec<u32>,
}

/// Tells of deaths.
#[underpass_macros::interface(crate = crate::host::generated)]
pub(crate) trait Obituary {
    /// Waits until more members than `known` have died.
    fn after(&self, known: u64) -> Result<Dead, CallError>;
}

/// The members of one region.
///
/// | field | written by |
/// |---|---|
/// | `members` | joins and deaths, under its lock |
/// | `died` | notified after each death, and at the end |
pub(crate) struct Members {
    domain: Arc<LocalDomain>,
    shape: u64,
    memory: OwnedFd,
    members: Mutex<Roll>,
    died: Condvar,
}

struct Roll {
    /// The binding of the member with each index, and its generation.
    present: [Option<(u64, u32)>; MEMBERS],
    generation: u32,
    dead: Dead,
    closed: bool,
}

impl Members {
    pub(crate) fn new(domain: Arc<LocalDomain>, shape: u64, memory: OwnedFd) -> Arc<Self> {
        let mut present = [None; MEMBERS];
        present[EXPORTER.index] = Some((0, EXPORTER.generation));
        let dead = Dead { deaths: 0, newest: vec![0; MEMBERS] };
        let roll = Roll { present, generation: FIRST, dead, closed: false };
        Arc::new(Self { domain, shape, memory, members: Mutex::new(roll), died: Condvar::new() })
    }

    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.members.lock().unwrap_or_else(underpass_sync::PoisonError::into_inner)
    }

    /// A binding has ended: its member, if it was one, is dead.
    pub(crate) fn bury(&self, binding: &Binding) {
        let mut roll = self.roll();
        let is_his = |seat: &Option<(u64, u32)>| seat.is_some_and(|(of, _)| of == binding.id());
        let Some(index) = roll.present.iter().position(is_his) else { return };
        let Some((_, generation)) = roll.present[index].take() else { return };
        let member = MemberId { index, generation };
        // W1 to W4, in this order: nobody takes out a dead waiter once the others look again, and
        // the index is given away only then.
        self.domain.sweep(member);
        self.domain.bury(member);
        roll.dead.newest[index] = generation;
        roll.dead.deaths += 1;
        drop(roll);
        self.died.notify_all();
    }

    /// No member is told anything any more.
    pub(crate) fn close(&self) {
        self.roll().closed = true;
        self.died.notify_all();
    }
}

/// A domain that joins.
pub(crate) struct Doorman(pub(crate) Arc<Members>);

impl Host for Doorman {
    fn join(&self, shape: u64) -> Result<Membership, JoinError> {
        let members = &self.0;
        if shape != members.shape {
            return Err(JoinError::OtherType);
        }
        let Some(binding) = underpass_rpc::caller().map(|peer| peer.binding_id()) else {
            return Err(JoinError::Full);
        };
        let mut roll = members.roll();
        let is_member = roll.present.iter().flatten().any(|(of, _)| *of == binding);
        // The index that was free for longest: its former member is the least likely to run still.
        let free = (0..MEMBERS).filter(|index| roll.present[*index].is_none());
        let index = free.min_by_key(|index| roll.dead.newest[*index]);
        let (Some(index), Some(generation), false) = (index, roll.generation.checked_add(1), is_member)
        else {
            return Err(JoinError::Full);
        };
        let memory = members.memory.try_clone().map_err(|_| JoinError::Full)?;
        roll.generation = generation;
        roll.present[index] = Some((binding, generation));
        Ok(Membership { index: index as u32, generation, memory })
    }
}

/// Tells of deaths.
pub(crate) struct Teller(pub(crate) Arc<Members>);

impl Obituary for Teller {
    fn after(&self, known: u64) -> Result<Dead, CallError> {
        let members = &self.0;
        let mut roll = members.roll();
        // A caller that claims to know of more deaths than there were is not waited for.
        while !roll.closed && roll.dead.deaths == known {
            let waited = members.died.wait_timeout(roll, LOOK);
            let late;
            (roll, late) = waited.unwrap_or_else(underpass_sync::PoisonError::into_inner);
            // A caller that died without being a member ends no wait by its death.
            if late.timed_out() && underpass_rpc::is_cancelled() {
                break;
            }
        }
        Ok(roll.dead.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::OBJECTS;
    use crate::words::RegionWords;

    #[test]
    fn a_caller_that_lies_about_deaths_is_not_waited_for() {
        let (words, memory) = RegionWords::create(OBJECTS).unwrap();
        let members = Members::new(Arc::new(LocalDomain::new(words, EXPORTER)), 1, memory);
        assert_eq!(Teller(members.clone()).after(u64::MAX).unwrap().deaths, 0);
        members.close();
        assert_eq!(Teller(members).after(0).unwrap().deaths, 0);
    }
}
