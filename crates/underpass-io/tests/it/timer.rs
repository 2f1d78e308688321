//! Timers.

use crate::common::{by_both, watchdog};
use std::time::{Duration, Instant};
use underpass_io::Timer;

#[test]
fn a_timer_fires_once_and_not_before_its_time() {
    let _dog = watchdog();
    by_both(|| {
        let at = Instant::now() + Duration::from_millis(5);
        let mut timer = Timer::at(at);
        assert_eq!(timer.next(), Some(at));
        assert_eq!(timer.wait().unwrap(), at);
        assert!(Instant::now() >= at);
        assert_eq!(timer.next(), None);
        assert_eq!(Timer::never().next(), None);
        assert_eq!(Timer::after(Duration::MAX).next(), None);
    });
}

#[test]
fn an_interval_keeps_its_beat() {
    let _dog = watchdog();
    by_both(|| {
        let (start, period) = (Instant::now(), Duration::from_millis(2));
        let mut timer = Timer::interval_at(start, period);
        let mut last = None;
        for _ in 0..5 {
            let fired = timer.wait().unwrap();
            assert!(Instant::now() >= fired);
            assert!((fired - start).as_nanos().is_multiple_of(period.as_nanos()));
            assert!(last.is_none_or(|last| fired > last));
            last = Some(fired);
        }
    });
}
