//! A client of a package whose calls are futures: each caller is a future, and all of them are
//! polled by the thread that measures.

use crate::{Load, Outcome, Totals, Work, repeat_async};
use futures_util::future::try_join_all;
use std::time::Duration;

/// Has as many callers as `load` says repeat `call` at once, and wait by `sleep`.
///
/// # Errors
/// The first failure of a call.
pub async fn repeat_together(
    load: &Load,
    sleep: impl AsyncFn(Duration),
    call: impl AsyncFn(&Work) -> Outcome,
) -> Outcome<Totals> {
    if load.callers() == 1 {
        return repeat_async(load, sleep, call).await;
    }
    Totals::of(try_join_all((0..load.callers()).map(|_| repeat_async(load, &sleep, &call))).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn every_caller_calls() {
        for callers in [1, 3] {
            let load = Load::new(8, callers, Duration::ZERO, None);
            let call = async |work: &Work| work.check(&crate::answer_in_place(work.request().to_vec()));
            let totals = repeat_together(&load, async |_| (), call).now_or_never().unwrap().unwrap();
            assert_eq!(totals.made, callers as u64);
        }
    }
}
