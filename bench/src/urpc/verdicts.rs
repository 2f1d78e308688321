//! The paper's claims about Figures 3 and 4, and whether a measured curve agrees.
//!
//! A curve has a value for each number of threads, for C processors of the client and S of the
//! server. Beyond T = C + S every processor has a call, and another one is waiting.

use crate::report::verdict::ClaimVerdict;

/// A change by more than this factor is growth, or a fall.
const CHANGE: f64 = 1.1;

/// The values of a curve up to T = C + S, and those beyond, each with its number of threads.
type Halves = (Vec<(u64, f64)>, Vec<(u64, f64)>);

fn halves(curve: &[(u64, f64)], (clients, servers): (u64, u64)) -> Halves {
    let mut sorted = curve.to_vec();
    sorted.sort_by_key(|(threads, _)| *threads);
    sorted.into_iter().partition(|(threads, _)| *threads <= clients + servers)
}

fn most(values: &[(u64, f64)]) -> Option<(u64, f64)> {
    values.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1))
}

fn least(values: &[(u64, f64)]) -> Option<(u64, f64)> {
    values.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1))
}

/// Figure 4, for the calls per second of each number of threads.
///
/// With processors of its own for the server, throughput improves until T = C + S, and stays there:
/// *there can be no further improvement*, and it is *less sensitive to T*. So a fall refutes it as
/// well. With S = 0 it *improves steadily*, because more calls share each reallocation.
///
/// `None` if too few numbers of threads were measured: at least two up to T = C + S, and one
/// beyond.
pub fn throughput(rates: &[(u64, f64)], (clients, servers): (u64, u64)) -> Option<ClaimVerdict> {
    let (few, many) = halves(rates, (clients, servers));
    if servers == 0 {
        return steadily(&few, &many);
    }
    let [(_, one), .., (last_at, last)] = few[..] else { return None };
    let (_, best) = most(&few)?;
    let ((low_at, low), (high_at, high)) = (least(&many)?, most(&many)?);
    let (grows, falls, goes_on) = (last / one, low / best, high / best);
    Some(ClaimVerdict {
        claim: "throughput grows until T = C + S, and stays there",
        holds: grows > CHANGE && last * CHANGE >= best && falls >= 1.0 / CHANGE && goes_on <= CHANGE,
        because: format!(
            "T = {last_at} makes {grows:.2} times as many calls a second as one thread; of the most up to \
             there, T = {low_at} makes {falls:.2} times as many and T = {high_at} {goes_on:.2} times"
        ),
    })
}

/// With S = 0: no number of threads makes fewer calls than a smaller one, and many make more.
fn steadily(few: &[(u64, f64)], many: &[(u64, f64)]) -> Option<ClaimVerdict> {
    let all: Vec<_> = few.iter().chain(many).copied().collect();
    let ((_, first), (last_at, last)) = (*all.first()?, *many.last()?);
    let (mut best, mut drop) = (first, (0, 1.0));
    for &(threads, rate) in &all {
        best = rate.max(best);
        if rate / best < drop.1 {
            drop = (threads, rate / best);
        }
    }
    let growth = last / first;
    let fall = match drop {
        (0, _) => String::new(),
        (at, share) => format!(", and T = {at} {share:.2} times as many as the most by fewer threads"),
    };
    Some(ClaimVerdict {
        claim: "with S = 0 throughput improves steadily, because more threads share each reallocation",
        holds: growth > CHANGE && drop.1 >= 1.0 / CHANGE,
        because: format!(
            "T = {last_at} makes {growth:.2} times as many calls a second as the fewest threads{fall}"
        ),
    })
}

/// Figure 3, for the latency of each number of threads: beyond T = C + S it increases, since a call
/// waits for a free processor.
///
/// `None` if nothing was measured on one side of T = C + S.
pub fn latency(latencies: &[(u64, f64)], processors: (u64, u64)) -> Option<ClaimVerdict> {
    let (few, many) = halves(latencies, processors);
    let (at, before) = *few.last()?;
    let (low, (last_at, last)) = (least(&many)?.1, *many.last()?);
    let grows = last / before;
    Some(ClaimVerdict {
        claim: "beyond T = C + S latency increases, since each call waits for a free processor",
        holds: grows > CHANGE && low * CHANGE >= before,
        because: format!("a call of T = {last_at} takes {grows:.2} times as long as one of T = {at}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_EACH: (u64, u64) = (1, 1);
    const TWO_EACH: (u64, u64) = (2, 2);

    fn grows(rates: &[(u64, f64)], processors: (u64, u64)) -> Option<bool> {
        throughput(rates, processors).map(|verdict| verdict.holds)
    }

    #[test]
    fn throughput_is_to_grow_and_then_to_stay() {
        let flat = [(1, 1.0), (2, 1.8), (3, 1.85), (32, 1.9)];
        assert_eq!(grows(&flat, ONE_EACH), Some(true));
        let goes_on = [(1, 1.0), (2, 1.8), (3, 2.5), (32, 4.0)];
        assert_eq!(grows(&goes_on, ONE_EACH), Some(false));
        let too_early = [(1, 1.0), (2, 1.8), (3, 1.2), (4, 0.9), (32, 1.7)];
        assert_eq!(grows(&too_early, TWO_EACH), Some(false), "it falls before T = C + S");
        assert_eq!(grows(&[(1, 1.0), (2, 1.05), (4, 1.05)], ONE_EACH), Some(false), "it does not grow");
    }

    #[test]
    fn a_fall_beyond_all_processors_is_no() {
        // One client's processor, four of the server's, in millions a second.
        let recorded = [(1, 2.59), (2, 4.31), (3, 4.64), (4, 4.2), (5, 4.375), (9, 3.35), (32, 1.81)];
        let verdict = throughput(&recorded, (1, 4)).unwrap();
        assert!(!verdict.holds && verdict.because.contains("T = 32 makes 0.39 times"), "{verdict:?}");
        // At the borders of a tenth.
        let beyond = |rate| grows(&[(1, 1.0), (2, 2.0), (4, 2.0), (32, rate)], ONE_EACH);
        assert_eq!([1.82, 1.81, 2.19, 2.21].map(beyond), [Some(true), Some(false), Some(true), Some(false)]);
    }

    #[test]
    fn too_few_numbers_of_threads_decide_nothing() {
        assert_eq!(grows(&[(1, 1.0), (2, 1.8)], ONE_EACH), None, "nothing beyond T = C + S");
        assert_eq!(grows(&[(1, 1.0), (4, 1.8)], ONE_EACH), None, "one up to T = C + S");
        assert_eq!(grows(&[], (1, 0)), None);
        assert!(latency(&[(1, 1.0), (2, 1.0)], ONE_EACH).is_none());
    }

    #[test]
    fn without_a_servers_processor_throughput_is_to_improve_steadily() {
        let donated = |rates: &[(u64, f64)]| grows(rates, (1, 0));
        assert_eq!(donated(&[(1, 1.0), (2, 1.8), (4, 2.5), (32, 4.0)]), Some(true));
        assert_eq!(donated(&[(1, 1.0), (2, 1.8), (4, 1.5), (32, 4.0)]), Some(false), "it falls between");
        assert_eq!(donated(&[(1, 1.0), (2, 1.05), (32, 1.1)]), Some(false), "a tenth is no growth");
        assert_eq!(donated(&[(1, 1.0), (2, 1.1), (4, 1.0), (32, 1.11)]), Some(true), "nor is it a fall");
    }

    #[test]
    fn latency_is_to_grow_beyond_all_processors() {
        let holds = |curve: &[(u64, f64)]| latency(curve, ONE_EACH).map(|verdict| verdict.holds);
        assert_eq!(holds(&[(1, 93.0), (2, 112.0), (3, 150.0), (32, 900.0)]), Some(true));
        assert_eq!(holds(&[(1, 93.0), (2, 112.0), (3, 110.0), (32, 112.0)]), Some(false));
        assert_eq!(holds(&[(1, 93.0), (2, 112.0), (3, 90.0), (32, 900.0)]), Some(false), "it falls first");
        assert_eq!(holds(&[(2, 100.0), (32, 110.0)]), Some(false), "a tenth is no growth");
        assert_eq!(holds(&[(2, 100.0), (3, 91.0), (32, 111.0)]), Some(true), "nor is it a fall");
    }
}
