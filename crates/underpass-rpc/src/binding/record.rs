//! The server's record of one binding: its client, the state that handlers attach to it, and the
//! hook that runs at its end.
//!
//! A binding ends for good when it is closed, for whatever reason, and no call of it runs any more.
//! `Family` detects that for clients in other domains. For importers in this domain, the last clone
//! of the stub does. Then a new user-level thread calls the hook and drops the state. So hook and
//! state delay neither the clerk, nor the thread that ran the last call, nor the end of another
//! binding.

use crate::binding::object::Binding;
use crate::binding::peer::within_binding;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use underpass_os::fork;
use underpass_threads::critical;

/// Called at the end of each binding of an interface.
pub(crate) type OnEnd = dyn Fn(&Binding) + Send + Sync;

/// The values that handlers have attached: at most one of each type.
type States = Vec<Arc<dyn Any + Send + Sync>>;

/// How many times in a row a binding's state is dropped, because the drop of a value may attach
/// others. Without a bound, values could attach others forever. POSIX has the same bound,
/// `PTHREAD_DESTRUCTOR_ITERATIONS`.
const ROUNDS: usize = 4;

/// Counts the bindings of a server whose hook and drop of state are still to come or under way. A
/// binding counts from the moment it is made. So a shutdown misses no binding that is just being
/// closed, or that is closed while a call of it runs.
///
/// The argument: a binding is counted before the clerk's table has it. A shutdown first changes
/// that table, and then reads the count. So if the shutdown does not see a binding counted, that
/// binding gets no entry in the table, and no call.
#[derive(Debug, Default)]
pub(crate) struct Endings(AtomicUsize);

impl Endings {
    pub(crate) fn are_over(&self) -> bool {
        // SYNC with the subtraction in `CountedEnding::drop`: all that a hook did is before this
        // returns true.
        self.0.load(Ordering::Acquire) == 0
    }
}

/// The count of one binding, until dropped.
pub(crate) struct CountedEnding(Arc<Endings>);

impl Drop for CountedEnding {
    fn drop(&mut self) {
        // SYNC with the load in `are_over`.
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

pub(crate) struct BindingRecord {
    binding: Binding,
    states: Mutex<States>,
    on_end: Option<Arc<OnEnd>>,
    /// No client got the binding.
    unseen: AtomicBool,
    endings: Arc<Endings>,
}

impl BindingRecord {
    /// The record of a new binding. Its owner must call [`end`](Self::end).
    pub(crate) fn new(binding: Binding, on_end: Option<Arc<OnEnd>>, endings: Arc<Endings>) -> Arc<Self> {
        // Relaxed: a count. The lock of the clerk's table orders it before the load of a shutdown.
        endings.0.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { binding, states: Mutex::default(), on_end, unseen: AtomicBool::new(false), endings })
    }

    pub(crate) fn binding(&self) -> &Binding {
        &self.binding
    }

    /// No client got the binding, so it ends without a hook. Called before [`end`](Self::end).
    pub(crate) fn nobody_got_it(&self) {
        // Relaxed: the lock of the binding's family orders it before `end`.
        self.unseen.store(true, Ordering::Relaxed);
    }

    /// The count to which the binding belongs.
    pub(crate) fn endings(&self) -> &Arc<Endings> {
        &self.endings
    }

    /// Counts one more end, until the result is dropped: something of the binding is dropped later.
    /// The binding has not ended yet.
    pub(crate) fn one_more_ending(&self) -> CountedEnding {
        // Relaxed: as in `new`. The binding itself is counted.
        self.endings.0.fetch_add(1, Ordering::Relaxed);
        CountedEnding(self.endings.clone())
    }

    /// The holder of the lock must be critical, so that it keeps its processor, and must not run
    /// the user's code.
    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of type `T`. If there is none yet, `make` makes it.
    pub(crate) fn state<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        if let Some(found) = self.find() {
            return found;
        }
        let made = Arc::new(make());
        let held = critical();
        let mut states = self.states();
        // Another call of the binding may have made one in the meantime.
        let found = find_in(&states);
        if found.is_none() {
            states.push(made.clone());
        }
        drop(states);
        drop(held);
        found.unwrap_or(made)
    }

    fn find<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let _held = critical();
        find_in(&self.states())
    }

    /// The binding has ended for good. Called once.
    pub(crate) fn end(self: &Arc<Self>) {
        // A forked child has no threads, and does not use the binding.
        if fork::check().is_err() {
            return;
        }
        let ending = CountedEnding(self.endings.clone());
        let held = critical();
        // Without a call there is no state.
        let unseen = self.unseen.load(Ordering::Relaxed);
        let nothing = unseen || self.on_end.is_none() && self.states().is_empty();
        drop(held);
        if !nothing {
            let own = self.clone();
            underpass_threads::spawn(move || own.run_end(ending));
        }
    }

    /// Calls the hook and drops the state, even if one of them panics.
    fn run_end(self: Arc<Self>, _ending: CountedEnding) {
        let within = within_binding(&self);
        if let Some(on_end) = &self.on_end {
            // The panic hook has reported the panic.
            let _ = catch_unwind(AssertUnwindSafe(|| on_end(&self.binding)));
        }
        (0..ROUNDS).for_each(|_| self.drop_states());
        // From here on `binding_state` returns `None`, so this round is the last.
        drop(within);
        self.drop_states();
    }

    /// Drops the values that are attached now. Dropping one may attach others.
    fn drop_states(&self) {
        let held = critical();
        let states = std::mem::take(&mut *self.states());
        drop(held);
        for state in states {
            let _ = catch_unwind(AssertUnwindSafe(|| drop(state)));
        }
    }
}

fn find_in<T: Send + Sync + 'static>(states: &States) -> Option<Arc<T>> {
    states.iter().find_map(|state| state.clone().downcast().ok())
}

impl fmt::Debug for BindingRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.binding.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::peer::{Peer, binding_state, caller};
    use std::sync::mpsc::{Sender, channel};

    fn record(on_end: Option<Arc<OnEnd>>) -> Arc<BindingRecord> {
        BindingRecord::new(Binding::new("record".into(), Peer::here(), None), on_end, Arc::default())
    }

    /// Returns when the hook has run and the state is dropped.
    fn ends(record: &Arc<BindingRecord>) {
        record.end();
        while !record.endings.are_over() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn there_is_one_value_of_each_type() {
        let record = record(None);
        let one = record.state(|| Mutex::new(1));
        *one.lock().unwrap() = 2;
        assert_eq!(*record.state::<Mutex<i32>>(|| panic!("it is there")).lock().unwrap(), 2);
        assert_eq!(*record.state(|| "another type"), "another type");
        // A value that was made while another was being made.
        let late = record.state(|| {
            record.state(|| 7u8);
            8u8
        });
        assert_eq!(*late, 7);
    }

    #[test]
    fn state_is_dropped_after_a_hook_that_panics() {
        struct Tells(Sender<u64>);
        impl Drop for Tells {
            fn drop(&mut self) {
                self.0.send(caller().unwrap().binding_id()).unwrap();
                panic!("so does this");
            }
        }
        let (tell, told) = channel();
        let record = record(Some(Arc::new(|_: &Binding| panic!("on purpose"))));
        let other = tell.clone();
        record.state(|| Tells(tell));
        record.state(|| (Tells(other), 0));
        ends(&record);
        let id = record.binding().id();
        assert_eq!([told.recv(), told.recv()], [Ok(id), Ok(id)]);
        assert!(told.recv().is_err(), "no value is left");
    }

    #[test]
    fn state_that_a_drop_attaches_is_dropped_too() {
        struct Last(Sender<Option<u64>>);
        impl Drop for Last {
            fn drop(&mut self) {
                let _ = self.0.send(caller().map(|caller| caller.binding_id()));
            }
        }
        struct First(Sender<Option<u64>>);
        impl Drop for First {
            fn drop(&mut self) {
                binding_state(|| Last(self.0.clone()));
            }
        }
        let ((tell, told), record) = (channel(), record(None));
        record.state(|| First(tell));
        ends(&record);
        assert_eq!(told.try_recv(), Ok(Some(record.binding().id())));
        assert!(told.recv().is_err(), "no value is left");
    }

    #[test]
    fn state_that_attaches_more_state_forever_is_dropped_nevertheless() {
        struct Endless(Arc<()>);
        impl Drop for Endless {
            fn drop(&mut self) {
                binding_state(|| Endless(self.0.clone()));
            }
        }
        let (held, record) = (Arc::new(()), record(None));
        record.state(|| Endless(held.clone()));
        ends(&record);
        assert_eq!(Arc::strong_count(&held), 1, "no value is left");
    }
}
