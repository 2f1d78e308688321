//! All meters of this domain.

use super::meter::Meter;
use super::views::{InterfaceMetrics, MeasuredSide};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use underpass_threads::critical;
use underpass_wire::Descriptor;

/// Names an export or an import: the side, the name, and the hash of the interface.
type Key = (bool, String, u64);

static METERS: Mutex<BTreeMap<Key, Arc<Meter>>> = Mutex::new(BTreeMap::new());

/// The holder of the lock must be critical, so that it keeps its processor.
fn meters() -> MutexGuard<'static, BTreeMap<Key, Arc<Meter>>> {
    METERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The meter of one side of an interface. All exports or imports of one name have the same.
pub(crate) fn meter_of(side: MeasuredSide, name: &str, descriptor: &Descriptor) -> Arc<Meter> {
    let key = (side == MeasuredSide::Export, name.to_owned(), descriptor.hash);
    let _held = critical();
    meters().entry(key).or_insert_with(|| Arc::new(Meter::new(side, name, descriptor))).clone()
}

/// Whether all exports and imports of this domain are measured that do not say otherwise: the
/// environment has `UNDERPASS_METRICS=1`.
pub(crate) fn is_default() -> bool {
    static ON: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("UNDERPASS_METRICS").is_some_and(|on| on == "1"));
    *ON
}

/// What the measured exports and imports of this process have done so far, method by method.
///
/// An export is measured if its service says [`measured`](crate::Service::measured), and an import
/// if the client does (`measured()` of the generated client). With `UNDERPASS_METRICS=1` in the
/// environment all of them are that do not say otherwise. All others cost nothing and are not
/// listed. Calls within one domain are function calls, and are not measured.
///
/// Numbers never fall, also when a binding or an export ends.
///
/// # Examples
/// ```
/// use underpass::{CallError, Server, metrics};
///
/// #[underpass::interface]
/// trait Greeter {
///     fn greet(&self, whom: &str) -> Result<String, CallError>;
/// }
///
/// # struct Polite;
/// # impl Greeter for Polite {
/// #     fn greet(&self, whom: &str) -> Result<String, CallError> {
/// #         Ok(format!("Good day, {whom}."))
/// #     }
/// # }
/// # let dir = std::env::temp_dir().join(format!("underpass-doc-metrics-{}", std::process::id()));
/// # // SAFETY: no other thread has been started yet.
/// # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
/// let service = Greeter::serve(Polite).measured(true);
/// let running = Server::new().export("greeter", service).start()?;
/// // Other processes call.
/// let greeter = &metrics::snapshot()[0];
/// assert_eq!((&*greeter.name, &*greeter.methods[0].method), ("greeter", "greet"));
/// assert_eq!(greeter.methods[0].calls(), 0);
/// # drop(running);
/// # std::fs::remove_dir(dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn snapshot() -> Vec<InterfaceMetrics> {
    let held = critical();
    let meters: Vec<_> = meters().values().cloned().collect();
    drop(held);
    meters.iter().map(|meter| meter.told()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_and_side_has_one_meter() {
        let descriptor = Descriptor::builder("Some", "").finish();
        let of = |side, name| meter_of(side, name, &descriptor);
        let one = of(MeasuredSide::Export, "registry-one");
        assert!(Arc::ptr_eq(&one, &of(MeasuredSide::Export, "registry-one")));
        assert!(!Arc::ptr_eq(&one, &of(MeasuredSide::Import, "registry-one")));
        assert!(!Arc::ptr_eq(&one, &of(MeasuredSide::Export, "registry-two")));
        let told = snapshot().into_iter().filter(|of| of.name == "registry-one").map(|of| of.side);
        assert_eq!(told.collect::<Vec<_>>(), [MeasuredSide::Import, MeasuredSide::Export]);
    }
}
