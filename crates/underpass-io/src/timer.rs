//! Timers: waiting for a time.

use crate::descriptor::point;
use crate::waiting;
use std::io;
use std::time::{Duration, Instant};
use underpass_threads::{Awaited, Cancelled, Control, Wait, Woken, me};

/// A timer that fires once, or periodically.
///
/// The scheduler implements it: it has no descriptor, and costs nothing while nobody waits.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass::io::Timer;
///
/// let mut ticks = Timer::interval(Duration::from_millis(1));
/// let first = ticks.wait()?;
/// assert!(ticks.wait()? > first);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timer {
    /// When it fires next; `None`: never.
    next: Option<Instant>,
    period: Option<Duration>,
}

impl Timer {
    /// Never fires.
    pub const fn never() -> Self {
        Self { next: None, period: None }
    }

    /// Fires once, `span` from now.
    pub fn after(span: Duration) -> Self {
        Self { next: Instant::now().checked_add(span), period: None }
    }

    /// Fires once, at `instant`.
    pub const fn at(instant: Instant) -> Self {
        Self { next: Some(instant), period: None }
    }

    /// Fires every `period`, first after one.
    pub fn interval(period: Duration) -> Self {
        Self { next: Instant::now().checked_add(period), period: Some(period) }
    }

    /// Fires at `start`, and then every `period`.
    pub const fn interval_at(start: Instant, period: Duration) -> Self {
        Self { next: Some(start), period: Some(period) }
    }

    /// When it fires next; `None` if never again.
    pub const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Waits until it fires, and returns the time for which that was set. A timer that never fires
    /// waits until the thread is cancelled.
    ///
    /// If the caller comes late to an interval, the missed times are left out, and the next one
    /// keeps the original beat.
    ///
    /// # Errors
    /// [Cancelled](crate::is_cancelled). The timer is then as it was.
    pub fn wait(&mut self) -> io::Result<Instant> {
        let Some(next) = self.next else {
            return rest(None).map(|()| unreachable!("a rest without an end ends by cancellation"));
        };
        if next > Instant::now() {
            rest(Some(point(next)))?;
        }
        self.next = self.period.and_then(|period| following(next, period, Instant::now()));
        Ok(next)
    }
}

/// The first of `last` + n × `period`, n ≥ 1, that is not before `now`.
fn following(last: Instant, period: Duration, now: Instant) -> Option<Instant> {
    let missed = now.saturating_duration_since(last).as_nanos().checked_div(period.as_nanos());
    let passed = missed.map_or(Duration::ZERO, |n| {
        Duration::from_nanos(u64::try_from(n * period.as_nanos()).unwrap_or(u64::MAX))
    });
    let next = last.checked_add(passed)?;
    if next >= now && passed > Duration::ZERO { Some(next) } else { next.checked_add(period) }
}

/// Suspends the caller until `deadline_ns`.
pub(crate) fn rest(deadline_ns: Option<u64>) -> io::Result<()> {
    match waiting::suspend(me(), &Rest, deadline_ns, true) {
        Woken::Woken | Woken::Late => Ok(()),
        Woken::Cancelled => Err(Cancelled.into()),
    }
}

/// A wait for a time alone: nobody wakes the thread.
struct Rest;

impl Wait for Rest {
    fn abandon(&self, _who: &'static Control) -> bool {
        true
    }

    fn describe(&self) -> Awaited {
        Awaited { kind: "a timer", address: 0, holder: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_missed_is_left_out_and_the_beat_kept() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let next = |now| following(start, ms(10), start + now).map(|next| next - start);
        assert_eq!(next(ms(0)), Some(ms(10)));
        assert_eq!(next(ms(9)), Some(ms(10)));
        assert_eq!(next(ms(10)), Some(ms(10)));
        assert_eq!(next(ms(35)), Some(ms(40)));
        assert_eq!(following(start, Duration::ZERO, start + ms(5)), Some(start));
    }
}
