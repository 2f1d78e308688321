//! What metrics tell.

use super::histogram::LatencyHistogram;
use underpass_macros::Wire;

/// What the calls of an interface have done, at one of its two sides in this process. All imports
/// of one name count together.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::metrics::generated, extensible)]
pub struct InterfaceMetrics {
    /// The name that is exported, or the one that the importer has given to `measured`.
    pub name: String,
    /// The interface.
    pub interface: String,
    /// Which side it is.
    pub side: MeasuredSide,
    /// Its methods, in the order of the trait.
    pub methods: Vec<MethodMetrics>,
}

/// Which side of its calls a process measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Wire)]
#[underpass(crate = crate::metrics::generated)]
pub enum MeasuredSide {
    /// The process exports the interface, and serves its calls.
    Export,
    /// The process imports the interface, and makes its calls.
    Import,
}

/// What the calls of one method have done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Wire)]
#[underpass(crate = crate::metrics::generated, extensible)]
pub struct MethodMetrics {
    /// The method. Empty for calls of methods that this side does not know.
    pub method: String,
    /// Calls that ended with a value.
    pub returned: u64,
    /// Calls that ended with an error that the method returned.
    pub returned_errors: u64,
    /// Calls without a result, by their kinds. Kinds without calls are left out.
    pub failures: Vec<FailureCount>,
    /// Bytes received. At an export these are arguments, and at an import results.
    pub bytes_in: u64,
    /// Bytes sent. At an export these are results, and at an import arguments, also those of calls
    /// that did not reach the server.
    pub bytes_out: u64,
    /// How long one call in 64 took: at an import for its caller, and at an export from the
    /// decoding of the arguments to the encoding of the result.
    pub latency: LatencyHistogram,
    /// How long calls waited from their post to the begin of their handlers. An export knows it of
    /// calls of measured imports, of one in 64.
    pub queueing: LatencyHistogram,
}

/// How many calls had no result for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Wire)]
#[underpass(crate = crate::metrics::generated, extensible)]
pub struct FailureCount {
    /// The kind of the [`CallError`](crate::CallError), as its method
    /// [`kind`](crate::CallError::kind) names it.
    pub kind: String,
    /// How many calls.
    pub calls: u64,
}

impl MethodMetrics {
    /// All calls that have ended.
    ///
    /// # Examples
    /// ```
    /// use underpass::metrics::MethodMetrics;
    /// let method = MethodMetrics { returned: 3, returned_errors: 1, ..MethodMetrics::default() };
    /// assert_eq!(method.calls(), 4);
    /// ```
    pub fn calls(&self) -> u64 {
        let failed = self.failures.iter().fold(0u64, |sum, failure| sum.wrapping_add(failure.calls));
        self.returned.wrapping_add(self.returned_errors).wrapping_add(failed)
    }

    /// The calls that had no result for the reason `kind`.
    pub fn failed(&self, kind: &str) -> u64 {
        self.failures.iter().find(|failure| failure.kind == kind).map_or(0, |failure| failure.calls)
    }
}
