//! What counts the calls of one export or import.

use super::histogram::LONGEST_NS;
use super::kind::EndKind;
use super::method_counts::{MethodCounts, Sample};
use super::place::{PLACES, own_place, settle};
use super::views::{InterfaceMetrics, MeasuredSide, MethodMetrics};
use std::fmt;
use std::sync::OnceLock;
use underpass_os::clock;
use underpass_threads::brief;
use underpass_wire::Descriptor;

/// The counts of a method: one for each place, and the shared one.
const BLOCKS: usize = PLACES + 1;

/// Instead of the time at which a call began: it is not timed, but if it is made here, it tells its
/// server when it was posted.
pub(crate) const TELLS_POST: u64 = 1;

/// Counts the calls of one export or import, method by method.
pub struct Meter {
    side: MeasuredSide,
    name: String,
    interface: String,
    methods: Vec<&'static str>,
    /// By method and place. Behind those of the methods are the counts of calls of unknown ones.
    counts: Box<[OnceLock<Box<MethodCounts>>]>,
}

impl Meter {
    pub(super) fn new(side: MeasuredSide, name: &str, descriptor: &Descriptor) -> Self {
        let methods: Vec<_> = descriptor.procedures.iter().map(|procedure| procedure.name).collect();
        let counts = (0..(methods.len() + 1) * BLOCKS).map(|_| OnceLock::new()).collect();
        Self { side, name: name.to_owned(), interface: descriptor.name.to_owned(), methods, counts }
    }

    /// A call of a method begins. Returns when it began, in ns, if it is to be timed. Else returns
    /// 0, or [`TELLS_POST`].
    #[inline]
    pub(crate) fn begin(&self, method: u16) -> u64 {
        match self.at(method, |counts, shared| counts.begin(shared)) {
            Sample::Nothing => 0,
            Sample::Post => TELLS_POST,
            Sample::Time => clock::now_ns(),
        }
    }

    /// As [`begin`](Self::begin), of a call that will be answered later, by any thread.
    pub(crate) fn begin_later(&self, method: u16) -> u64 {
        match self.at(method, |counts, shared| counts.begin_later(shared)) {
            false => 0,
            true => clock::now_ns(),
        }
    }

    /// The arguments of a call that will be answered later had so many bytes.
    pub(crate) fn received(&self, method: u16, bytes: u64) {
        self.at(method, |counts, shared| counts.received(bytes, shared));
    }

    /// A call of a method ends that began at `began`, as [`begin`](Self::begin) has said.
    #[inline]
    pub(crate) fn end(&self, method: u16, began: u64, kind: EndKind, bytes_in: u64, bytes_out: u64) {
        if began > TELLS_POST {
            self.took(method, clock::now_ns().saturating_sub(began));
        }
        self.at(method, |counts, shared| counts.end(kind, bytes_in, bytes_out, shared));
    }

    /// A call of a method was answered later. It took so many ns, if it was timed.
    pub(crate) fn end_later(&self, method: u16, took: Option<u64>, kind: EndKind, bytes_out: u64) {
        if let Some(ns) = took {
            self.took(method, ns);
        }
        self.at(method, |counts, shared| counts.end(kind, 0, bytes_out, shared));
    }

    #[cold]
    #[inline(never)]
    fn took(&self, method: u16, ns: u64) {
        self.at(method, |counts, shared| counts.took(ns, shared));
    }

    /// A call of a method waited for `ns` before its handler began.
    #[cold]
    pub(crate) fn queued(&self, method: u16, ns: u64) {
        // The client has said when it posted the call, and may say anything.
        self.at(method, |counts, shared| counts.queued(ns.min(LONGEST_NS), shared));
    }

    /// Changes the counts of the calling kernel thread (P2).
    #[inline(always)]
    fn at<R>(&self, method: u16, change: impl FnOnce(&MethodCounts, bool) -> R) -> R {
        let row = usize::from(method).min(self.methods.len()) * BLOCKS;
        loop {
            let section = brief();
            if let Some(place) = own_place()
                && let Some(counts) = self.counts[row + place].get()
            {
                let result = change(counts, place == PLACES);
                drop(section);
                return result;
            }
            drop(section);
            self.prepare(row);
        }
    }

    /// The first call at this place: allocates its counts.
    #[cold]
    #[inline(never)]
    fn prepare(&self, row: usize) {
        settle();
        if let Some(place) = own_place() {
            self.counts[row + place].get_or_init(Box::default);
        }
    }

    /// What it has counted so far.
    pub(super) fn told(&self) -> InterfaceMetrics {
        let rows = self.counts.chunks(BLOCKS).enumerate().map(|(row, counts)| {
            let method = self.methods.get(row).copied().unwrap_or_default().to_owned();
            let mut sum = MethodMetrics { method, ..MethodMetrics::default() };
            counts.iter().filter_map(OnceLock::get).for_each(|counts| counts.add_to(&mut sum));
            sum
        });
        let known = self.methods.len();
        let methods = rows.enumerate().filter(|(row, sum)| *row < known || sum.calls() > 0);
        InterfaceMetrics {
            name: self.name.clone(),
            interface: self.interface.clone(),
            side: self.side,
            methods: methods.map(|(_, sum)| sum).collect(),
        }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("side", &self.side).field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::kind::FailureKind;
    use std::sync::Arc;

    fn meter() -> Arc<Meter> {
        Arc::new(Meter::new(MeasuredSide::Export, "some", &Descriptor::builder("Some", "").finish()))
    }

    #[test]
    fn no_count_is_lost_when_threads_come_and_go() {
        /// More than there are places.
        const THREADS: u64 = 3 * PLACES as u64;
        const CALLS: u64 = 500;
        let meter = meter();
        for _ in 0..2 {
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        for call in 0..CALLS {
                            let began = meter.begin(0);
                            let failed = EndKind::Failed(FailureKind::Deadline);
                            let kind = if call % 5 == 0 { failed } else { EndKind::Returned };
                            meter.end(0, began, kind, call, 1);
                        }
                    });
                }
            });
        }
        let told = meter.told();
        let method = &told.methods[0];
        assert_eq!(method.calls(), 2 * THREADS * CALLS);
        assert_eq!(method.failed("deadline"), 2 * THREADS * CALLS / 5);
        assert_eq!(method.bytes_in, 2 * THREADS * CALLS * (CALLS - 1) / 2);
        assert_eq!(method.bytes_out, 2 * THREADS * CALLS);
        let (least, timed) = (2 * THREADS * CALLS / 64, method.latency.count());
        assert!((least..=least + BLOCKS as u64).contains(&timed), "{timed} of {least}");
    }

    #[test]
    fn user_level_threads_of_one_activation_lose_no_count() {
        let meter = meter();
        let callers: Vec<_> = (0..8)
            .map(|_| {
                let meter = meter.clone();
                underpass_threads::spawn(move || {
                    for _ in 0..2000 {
                        let began = meter.begin(9);
                        meter.end(9, began, EndKind::ReturnedError, 0, 0);
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!(meter.told().methods[0].returned_errors, 16_000);
    }
}
