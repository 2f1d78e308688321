//! The paper's claims about Figures 5 to 7, and whether the measured curves agree.

use crate::report::verdict::ClaimVerdict;

/// What each line of a figure took for the same operations, with that many threads.
#[derive(Clone, Debug)]
pub struct CurvePoint {
    /// The threads.
    pub threads: u64,
    /// User-level threads.
    pub ours: f64,
    /// A kernel thread each.
    pub kernel: f64,
    /// The same, where a thread that spins gives way to others. Figure 5 alone has it.
    pub giving_way: Option<f64>,
    /// How many of the kernel's time slices lie between two calls. Figure 5 alone has it.
    pub slices: Option<f64>,
}

/// How much longer a line has to take to count as degraded.
const DEGRADED: f64 = 1.25;
/// The fewest time slices between two calls. With fewer hardly a holder of the lock loses its
/// processor, and the figure shows nothing.
pub(super) const SLICES: f64 = 50.0;
/// More than an order of magnitude.
const MAGNITUDE: f64 = 10.0;
/// How much more may count as comparable.
const COMPARABLE: f64 = 1.25;

/// Figure 5: those that don't spin on while the holder can't run stay linear, and the others
/// degrade.
///
/// All numbers of threads do the same work on one processor. So a linear line takes as long with
/// many threads as with one.
///
/// `None` if there is one number of threads, or a line is missing, or there are fewer than 50 time
/// slices between two calls.
pub fn spinlocks(points: &[CurvePoint]) -> Option<ClaimVerdict> {
    let (first, last) = ends(points)?;
    if points.iter().any(|point| point.slices.is_none_or(|slices| slices < SLICES)) {
        return None;
    }
    let longest = |line: fn(&CurvePoint) -> Option<f64>| {
        let all: Option<Vec<f64>> = points.iter().map(line).collect();
        Some(all?.into_iter().max_by(f64::total_cmp)? / line(first)?)
    };
    let (ours, other) = (longest(|point| Some(point.ours))?, longest(|point| point.giving_way)?);
    let degraded = last.kernel / last.giving_way?;
    Some(ClaimVerdict {
        claim: "OThreads, and kernel threads that give way as they spin, are linear; kernel threads that spin on degrade",
        holds: ours <= DEGRADED && other <= DEGRADED && degraded >= DEGRADED,
        because: format!(
            "up to {} threads take at most {ours:.2} and {other:.2} times as long as {}; spinning on takes {degraded:.2} times as long as giving way",
            last.threads, first.threads
        ),
    })
}

/// Figure 6: user-level threads are more than ten times faster. `None` if there is one number of
/// threads.
pub fn barriers(points: &[CurvePoint]) -> Option<ClaimVerdict> {
    let (_, last) = ends(points)?;
    let ratio = last.kernel / last.ours;
    Some(ClaimVerdict {
        claim: "OThreads is more than an order of magnitude faster than a kernel thread each",
        holds: ratio > MAGNITUDE,
        because: format!("{ratio:.1} times as fast with {} threads", last.threads),
    })
}

/// Figure 7: user-level threads add little to a call. `None` if there are no figures.
pub fn calls(points: &[CurvePoint]) -> Option<ClaimVerdict> {
    let worst = points.iter().max_by(|a, b| (a.ours / a.kernel).total_cmp(&(b.ours / b.kernel)))?;
    let ratio = worst.ours / worst.kernel;
    Some(ClaimVerdict {
        claim: "OThreads is comparable with a kernel thread each",
        holds: ratio <= COMPARABLE,
        because: format!("at worst {ratio:.2} times as long, with {} threads", worst.threads),
    })
}

/// The points with the fewest and the most threads, if they differ.
fn ends(points: &[CurvePoint]) -> Option<(&CurvePoint, &CurvePoint)> {
    let first = points.iter().min_by_key(|point| point.threads)?;
    let last = points.iter().max_by_key(|point| point.threads)?;
    (first.threads < last.threads).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(threads: u64, ours: f64, kernel: f64, giving_way: f64) -> CurvePoint {
        CurvePoint { threads, ours, kernel, giving_way: Some(giving_way), slices: Some(SLICES) }
    }

    #[test]
    fn spinning_on_has_to_degrade() {
        let curve = |spinning: f64| [point(1, 10.0, 10.0, 10.0), point(20, 12.0, spinning, 12.0)];
        assert!(spinlocks(&curve(20.0)).unwrap().holds);
        assert!(spinlocks(&curve(15.0)).unwrap().holds, "just");
        assert!(!spinlocks(&curve(14.9)).unwrap().holds, "it did not degrade");
    }

    #[test]
    fn many_threads_take_as_long_as_one_for_the_same_work() {
        let curve = |ours: f64, giving_way: f64| {
            [point(1, 10.0, 10.0, 10.0), point(2, ours, 50.0, giving_way), point(20, 10.0, 90.0, 10.0)]
        };
        assert!(spinlocks(&curve(12.5, 12.5)).unwrap().holds);
        assert!(!spinlocks(&curve(12.6, 10.0)).unwrap().holds, "ours is not linear");
        assert!(!spinlocks(&curve(10.0, 12.6)).unwrap().holds, "nor are those that give way");
        assert!(!spinlocks(&curve(200.0, 10.0)).unwrap().holds, "no factor of the threads is allowed");
    }

    #[test]
    fn without_preempted_holders_spin_locks_show_nothing() {
        let curve = |slices: Option<f64>| {
            [point(1, 10.0, 10.0, 10.0), point(20, 10.0, 20.0, 10.0)]
                .map(|point| CurvePoint { slices, ..point })
        };
        assert!(spinlocks(&curve(Some(50.0))).is_some());
        assert!(spinlocks(&curve(Some(49.9))).is_none() && spinlocks(&curve(None)).is_none());
    }

    #[test]
    fn barriers_have_to_be_ten_times_faster() {
        let curve = |kernel: f64| [point(1, 1.0, 1.0, 0.0), point(20, 10.0, kernel, 0.0)];
        assert!(barriers(&curve(101.0)).unwrap().holds);
        assert!(!barriers(&curve(100.0)).unwrap().holds, "ten times is not more");
        assert!(!barriers(&curve(99.0)).unwrap().holds);
    }

    #[test]
    fn calls_have_to_be_comparable_with_each_number_of_threads() {
        let curve = |ours: f64| [point(1, ours, 10.0, 0.0), point(20, 10.0, 100.0, 0.0)];
        assert!(calls(&curve(12.0)).unwrap().holds);
        assert!(calls(&curve(12.5)).unwrap().holds, "just");
        assert!(!calls(&curve(13.0)).unwrap().holds);
    }

    #[test]
    fn one_point_is_no_curve() {
        let one = [point(8, 10.0, 100.0, 10.0)];
        assert!(spinlocks(&one).is_none() && barriers(&one).is_none());
        assert!(spinlocks(&[]).is_none() && calls(&[]).is_none());
    }
}
