//! What both domains count during calls: how often a call enters the kernel, and what moved a
//! processor.

use crate::Figures;
use crate::calls::{Probe, ProbeClient};
use serde::{Deserialize, Serialize};
use underpass::CallError;

macro_rules! counted {
    ($($name:ident),*) => {
        /// The counters of a domain that concern calls. They have the names of
        /// [`underpass::Counters`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, underpass::Wire, Serialize, Deserialize)]
        pub struct CallCounters {
            $(
                #[doc = concat!("`", stringify!($name), "` of [`underpass::Counters`].")]
                pub $name: u64,
            )*
        }

        impl CallCounters {
            /// What this domain has counted so far.
            pub fn here() -> Self {
                let counters = underpass::counters();
                Self { $($name: counters.$name,)* }
            }

            /// Combines both, counter by counter.
            fn with(self, other: Self, operation: impl Fn(u64, u64) -> u64) -> Self {
                Self { $($name: operation(self.$name, other.$name),)* }
            }

            fn named(self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counted!(
    calls,
    served,
    calls_beside,
    channels_beside,
    kernel_entries,
    wakeups_sent,
    wakeups_avoided,
    sleeps,
    spins_paid,
    spins_in_vain,
    revivals,
    donations_given,
    donations_taken,
    donations_returned
);

impl CallCounters {
    /// What was counted since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }
}

/// The counts of several clients of one server.
///
/// Each client counts its own calls. The server counts once for all of them, over all that it has
/// served meanwhile, which includes the clients' warming up. So each side's counts are divided by
/// its own calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CrowdCounts {
    calls: u64,
    clients: CallCounters,
    server: CallCounters,
}

impl CrowdCounts {
    /// Adds what one client has counted during `calls` calls.
    pub(crate) fn add_client(&mut self, calls: u64, counted: CallCounters) {
        self.calls += calls;
        self.clients = self.clients.plus(counted);
    }

    /// Adds what the server has counted from `before` the clients began until `after` all have
    /// ended.
    pub(crate) fn add_server(&mut self, before: CallCounters, after: CallCounters) {
        self.server = self.server.plus(after.since(before));
    }

    /// How often a call enters the kernel, on both sides together.
    pub(crate) fn entries_per_call(&self) -> f64 {
        let of = |counted: CallCounters, calls: u64| counted.kernel_entries as f64 / calls.max(1) as f64;
        of(self.clients, self.calls) + of(self.server, self.server.served)
    }

    /// Adds the counts to `figures`.
    pub(crate) fn tell(&self, figures: Figures) -> Figures {
        let figures = figures.with("kernel_entries_per_call", self.entries_per_call());
        told(figures.with_detail("calls_counted", self.calls), self.clients, self.server)
    }
}

/// Adds all counters of both sides to `figures`.
fn told(figures: Figures, clients: CallCounters, server: CallCounters) -> Figures {
    let sides = [("client", clients), ("server", server)];
    let all = sides.into_iter().flat_map(|(side, counted)| {
        counted.named().map(move |(name, count)| (format!("{side}_{name}"), count))
    });
    all.fold(figures, |figures, (name, count)| figures.with_detail(&name, count))
}

/// What both sides have counted so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Both {
    near: CallCounters,
    far: CallCounters,
}

impl Both {
    /// Before the counted calls. The call that asks the other side is not counted in these.
    pub(crate) fn before(probe: &ProbeClient) -> Result<Self, CallError> {
        let far = probe.counted()?;
        Ok(Self { near: CallCounters::here(), far })
    }

    /// After the counted calls.
    pub(crate) fn after(probe: &ProbeClient) -> Result<Self, CallError> {
        let near = CallCounters::here();
        Ok(Self { near, far: probe.counted()? })
    }
}

/// The counts of many batches of calls.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CountedCalls {
    calls: u64,
    near: CallCounters,
    far: CallCounters,
}

impl CountedCalls {
    /// Adds `calls` calls that were made between `before` and `after`.
    pub(crate) fn add(&mut self, calls: u64, before: &Both, after: &Both) {
        self.calls += calls;
        self.near = self.near.plus(after.near.since(before.near));
        self.far = self.far.plus(after.far.since(before.far));
    }

    /// Adds the counts of another caller.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.near = self.near.plus(other.near);
        self.far = self.far.plus(other.far);
    }

    /// How often a call enters the kernel, on both sides together.
    pub(crate) fn entries_per_call(&self) -> f64 {
        self.per_call(self.near.kernel_entries + self.far.kernel_entries)
    }

    /// How many wake-ups a call sends, on both sides together.
    pub(crate) fn wakeups_per_call(&self) -> f64 {
        self.per_call(self.near.wakeups_sent + self.far.wakeups_sent)
    }

    /// How often a call puts a processor to sleep, on both sides together.
    pub(crate) fn sleeps_per_call(&self) -> f64 {
        self.per_call(self.near.sleeps + self.far.sleeps)
    }

    fn per_call(&self, count: u64) -> f64 {
        count as f64 / self.calls.max(1) as f64
    }

    /// Adds the kernel entries per call to the figures, and all counts of both sides to the JSON.
    pub(crate) fn tell(&self, figures: Figures) -> Figures {
        let figures = figures.with("kernel_entries_per_call", self.entries_per_call());
        told(figures.with_detail("calls_counted", self.calls), self.near, self.far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::tests::{origin, row};

    #[test]
    fn a_server_of_several_clients_counts_once_for_all() {
        let entries = |kernel_entries| CallCounters { kernel_entries, ..CallCounters::default() };
        let served = |served, kernel_entries| CallCounters { served, ..entries(kernel_entries) };
        let mut counts = CrowdCounts::default();
        (0..16).for_each(|_| counts.add_client(10, entries(10)));
        // It has served 40 calls with which the clients warmed up as well.
        counts.add_server(served(1_000, 700), served(1_200, 1_000));
        assert_eq!(counts.entries_per_call(), 1.0 + 1.5);
        assert_eq!(CrowdCounts::default().entries_per_call(), 0.0);
    }

    #[test]
    fn earlier_counts_are_not_included() {
        let count =
            |kernel_entries, sleeps| CallCounters { kernel_entries, sleeps, ..CallCounters::default() };
        let mut counts = CountedCalls::default();
        let before = Both { near: count(100, 7), far: count(0, 0) };
        let after = Both { near: count(104, 9), far: count(6, 0) };
        counts.add(4, &before, &after);
        counts.add(1, &after, &after);
        let mut row = row("test");
        row.result = row.result.map(|figures| counts.tell(figures));
        let json: serde_json::Value = serde_json::from_str(&row.json(&origin())).unwrap();
        assert_eq!((&json["kernel_entries_per_call"], &json["calls_counted"]), (&2.0.into(), &5.into()));
        assert_eq!((&json["client_sleeps"], &json["server_kernel_entries"]), (&2.into(), &6.into()));
    }
}
