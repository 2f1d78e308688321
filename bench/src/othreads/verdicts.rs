//! The paper's claims about Figures 5 to 7, and whether the measured curves agree.

use crate::report::verdict::ClaimVerdict;

/// The ns that each line of a figure took in all, with that many threads.
#[derive(Clone, Debug)]
pub(super) struct CurvePoint {
    pub(super) threads: u64,
    /// User-level threads.
    pub(super) ours: f64,
    /// A kernel thread each.
    pub(super) kernel: f64,
    /// The same, where a thread that spins gives way to others. Figure 5 alone has it.
    pub(super) giving_way: Option<f64>,
}

/// How much worse a line has to be to count as degraded.
const DEGRADED: f64 = 1.25;
/// More than an order of magnitude.
const MAGNITUDE: f64 = 10.0;
/// How much more may count as comparable.
const COMPARABLE: f64 = 1.25;

/// Figure 5: those that don't spin on while the holder can't run stay linear, and the others don't.
pub(super) fn spinlocks(points: &[CurvePoint]) -> Option<ClaimVerdict> {
    let (first, last) = ends(points)?;
    let (first_other, last_other) = (first.giving_way?, last.giving_way?);
    let most = last.threads as f64 / first.threads as f64;
    let (ours, other) = (last.ours / first.ours, last_other / first_other);
    let degraded = last.kernel / last_other;
    Some(ClaimVerdict {
        claim: "OThreads, and kernel threads that give way as they spin, are linear; kernel threads that spin on degrade",
        holds: ours <= most && other <= most && degraded >= DEGRADED,
        because: format!(
            "{} threads take {ours:.2} and {other:.2} times as long as {}; spinning on takes {degraded:.2} times as long as giving way",
            last.threads, first.threads
        ),
    })
}

/// Figure 6: user-level threads are more than ten times faster.
pub(super) fn barriers(points: &[CurvePoint]) -> Option<ClaimVerdict> {
    let (_, last) = ends(points)?;
    let ratio = last.kernel / last.ours;
    Some(ClaimVerdict {
        claim: "OThreads is more than an order of magnitude faster than a kernel thread each",
        holds: ratio > MAGNITUDE,
        because: format!("{ratio:.1} times as fast with {} threads", last.threads),
    })
}

/// Figure 7: user-level threads add little to a call.
pub(super) fn calls(points: &[CurvePoint]) -> Option<ClaimVerdict> {
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
        CurvePoint { threads, ours, kernel, giving_way: Some(giving_way) }
    }

    #[test]
    fn spinning_on_has_to_degrade() {
        let curve = |spinning: f64| [point(1, 10.0, 10.0, 10.0), point(20, 12.0, spinning, 14.0)];
        assert!(spinlocks(&curve(20.0)).unwrap().holds);
        assert!(!spinlocks(&curve(15.0)).unwrap().holds, "it did not degrade");
        let steep = [point(1, 10.0, 10.0, 10.0), point(2, 21.0, 90.0, 12.0)];
        assert!(!spinlocks(&steep).unwrap().holds, "ours is not linear");
    }

    #[test]
    fn barriers_have_to_be_ten_times_faster() {
        let curve = |kernel: f64| [point(1, 1.0, 1.0, 0.0), point(20, 10.0, kernel, 0.0)];
        assert!(barriers(&curve(101.0)).unwrap().holds);
        assert!(!barriers(&curve(99.0)).unwrap().holds);
    }

    #[test]
    fn calls_have_to_be_comparable_with_each_number_of_threads() {
        let curve = |ours: f64| [point(1, ours, 10.0, 0.0), point(20, 10.0, 100.0, 0.0)];
        assert!(calls(&curve(12.0)).unwrap().holds);
        assert!(!calls(&curve(13.0)).unwrap().holds);
    }

    #[test]
    fn one_point_is_no_curve() {
        let one = [point(8, 10.0, 100.0, 10.0)];
        assert!(spinlocks(&one).is_none() && barriers(&one).is_none());
        assert!(spinlocks(&[]).is_none() && calls(&[]).is_none());
    }
}
