//! How a thread waits for a lock or a permit: R2 and L5 of `README.md`.

use crate::lock::errors::HybridFailure;
use crate::pace::Pace;
use std::time::Duration;
use underpass_os::failpoint;
use underpass_seam::spin_hint;

/// How often to look between two looks at the clock.
const LOOKS: u32 = 32;
/// After spinning, how long to leave the processor to others: the first time, and at most.
const MOMENT: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(1);

/// Looks until there is something, until all is `over`, or until `within` has passed.
#[cold]
pub(crate) fn wait_for<R>(
    within: Duration,
    mut look: impl FnMut() -> Option<R>,
    over: impl Fn() -> Option<HybridFailure>,
) -> Result<R, HybridFailure> {
    let mut pace = Pace::until(within, MOMENT, LONGEST);
    loop {
        for _ in 0..LOOKS {
            if let Some(found) = look() {
                return Ok(found);
            }
            spin_hint();
        }
        if let Some(why) = over() {
            return Err(why);
        }
        failpoint!("hybrid-waits");
        pace.pause().map_err(|_| HybridFailure::TimedOut)?;
    }
}
