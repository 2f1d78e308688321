//! `import`: making a binding with a connection of its own, and ending it.

use super::{APPEAR, LrpcCallsClient, NAME};
use crate::measure::in_process;
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures, calls};
use std::cell::RefCell;

/// The most that an import may take, in ns.
const BAR_NS: f64 = 200_000.0;

pub(super) fn client(client: &ScenarioClient) -> Result<(), BenchError> {
    // The runtime's kernel threads and the clerk exist, as in any domain that has a binding.
    let _probe = calls::import()?;
    let failed = RefCell::new(None);
    let import = |_| match LrpcCallsClient::import_apart(NAME, APPEAR) {
        Ok(table) => drop(table),
        Err(error) => drop(failed.borrow_mut().get_or_insert(error)),
    };
    let contest = client.contest(
        &mut [&mut in_process::system_call(), &mut InProcess::new("import", 1, import)],
        0,
        1,
    )?;
    if let Some(error) = failed.into_inner() {
        return Err(error.into());
    }
    let figures = Figures::of(&contest, 1, 0);
    let rate = (1e9 / figures.ns).round() as u64;
    let met = figures.ns <= BAR_NS;
    client.report("import", figures.with("imports_per_s", rate).judged("bar_ns", BAR_NS, met))
}
