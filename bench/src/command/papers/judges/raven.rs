//! The claims of the Raven paper.

use super::{Judge, Judged, PaperFigures};

/// Our time of a message of that case, as a ratio to one by one on two processors.
fn message(figures: PaperFigures<'_>, case: &str, threads: u64) -> Option<f64> {
    figures.ours(&format!("{case}, T = {threads}"), "message")
}

/// More than this factor is slower.
const SLOWER: f64 = 1.1;

/// With two processors, a message of ten threads on each side takes longer than one of a single
/// thread on each.
pub(in super::super) const TEN_BY_TEN: Judge = |figures| {
    let [one, ten] = [1, 10].map(|threads| message(figures, "sync/two-processors", threads));
    let times = ten? / one?;
    Some((times > SLOWER, format!("a message by ten takes {times:.2} times as long as one by one")))
};

/// One processor is the worst case for one thread on each side.
pub(in super::super) const ONE_PROCESSOR_IS_WORST: Judge = |figures| {
    let of = |case| message(figures, case, 1);
    let times = of("sync/one-processor")? / of("sync/two-processors")?;
    Some((times > SLOWER, format!("a message takes {times:.1} times as long as on two")))
};

/// The quickest message, the usual one, and the slowest one lie in this order: 42, 90 and 120 µs.
pub(in super::super) const QUICKEST_TO_SLOWEST: Judge = |figures| {
    let of = |line| figures.ours("sync/two-processors, T = 1", line);
    let (usual, slowest) = (of("the usual one")?, of("the slowest")?);
    let because = format!(
        "the usual one takes {usual:.2} times as long as the quickest, the slowest {slowest:.0} times"
    );
    // In the paper the slowest takes 2.86 times as long as the quickest.
    Some((usual > 1.0 && slowest > usual && slowest <= SLOWER * 120.0 / 42.0, because))
};

/// The most kernel entries of a message that count as none.
const NONE: f64 = 0.01;
/// The paper's worst case, and a tenth more.
const WORST: f64 = 2.2;

/// A message enters the kernel never in the best case, and twice in the worst.
pub(in super::super) const KERNEL_ENTRIES: Judge = |figures| {
    let entries = figures.points.iter().filter(|point| point.line == "kernel entries");
    let entries: Vec<_> = entries.filter_map(|point| Some((&*point.at, point.ours?))).collect();
    let best = entries.iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let worst = entries.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let because =
        format!("the fewest are {:.4} ({}), and the most {:.2} ({})", best.1, best.0, worst.1, worst.0);
    (entries.len() > 1).then_some((best.1 <= NONE && worst.1 <= WORST, because))
};

/// With two processors a signal enters no kernel.
pub(in super::super) const SILENT_SIGNALS: Judge = |figures| {
    let entries = figures.figure("signal/two-processors", Some(1), "kernel_entries_per_call")?;
    Some((entries <= NONE, format!("a signal and its answer enter it {entries:.4} times")))
};

/// An asynchronous message takes half of the time or less.
pub(in super::super) const MUCH_FASTER: Judge = |figures| {
    let one = figures.ours("async/1-sender", "")?;
    Some((one <= 0.5, format!("it takes {:.0} % of the time", 100.0 * one)))
};

fn handler(figures: PaperFigures<'_>, which: &str) -> Option<f64> {
    figures.ours(&format!("interrupt/{which}"), "handler")
}

/// A task's handler takes about twice as long as the runtime's.
pub(in super::super) const TWICE: Judge = |figures| {
    let times = handler(figures, "running")?;
    Some((times <= 2.2, format!("it takes {times:.2} times as long")))
};

/// A handler whose task has to be switched in, because another task runs there, takes longest.
pub(in super::super) const SWITCHED_IN: Judge = |figures| -> Option<Judged> {
    let (running, other) = (handler(figures, "running")?, handler(figures, "other-task")?);
    let times = other / running.max(1.0);
    Some((times > 1.0, format!("it takes {times:.2} times as long as the longer of the other two")))
};

#[cfg(test)]
mod tests {
    use super::super::tests::{judged, judged_rows, point, row};
    use super::*;
    use crate::command::papers::points::PaperPoint;

    fn messages(ten: f64) -> [PaperPoint; 2] {
        [(1, 1.0), (10, ten)].map(|(threads, ours)| {
            point(&format!("sync/two-processors, T = {threads}"), "message", ours, None)
        })
    }

    #[test]
    fn ten_by_ten_is_judged_by_the_messages_own_time() {
        assert_eq!(judged(TEN_BY_TEN, &messages(1.3)), Some(true));
        assert_eq!(judged(TEN_BY_TEN, &messages(325.0 / 408.0)), Some(false));
        assert_eq!(judged(TEN_BY_TEN, &messages(1.1)), Some(false), "a tenth is not slower");
        assert_eq!(judged(TEN_BY_TEN, &messages(1.3)[..1]), None);
    }

    #[test]
    fn one_processor_is_to_be_the_worst_case() {
        let both = |one| {
            let of = |case: &str, ours| point(&format!("sync/{case}, T = 1"), "message", ours, None);
            [of("two-processors", 1.0), of("one-processor", one)]
        };
        assert_eq!(judged(ONE_PROCESSOR_IS_WORST, &both(1.2)), Some(true));
        assert_eq!(judged(ONE_PROCESSOR_IS_WORST, &both(1.1)), Some(false));
        assert_eq!(judged(ONE_PROCESSOR_IS_WORST, &both(0.7)), Some(false));
        assert_eq!(judged(ONE_PROCESSOR_IS_WORST, &both(1.2)[..1]), None);
    }

    #[test]
    fn the_slowest_message_is_to_take_three_times_the_quickest() {
        let all = |usual, slowest| {
            let of = |line: &str, ours| point("sync/two-processors, T = 1", line, ours, None);
            [of("the usual one", usual), of("the slowest", slowest)]
        };
        assert_eq!(judged(QUICKEST_TO_SLOWEST, &all(90.0 / 42.0, 120.0 / 42.0)), Some(true), "the paper's");
        assert_eq!(judged(QUICKEST_TO_SLOWEST, &all(1.2, 300.0)), Some(false));
        assert_eq!(judged(QUICKEST_TO_SLOWEST, &all(1.2, 3.13)), Some(true));
        assert_eq!(judged(QUICKEST_TO_SLOWEST, &all(1.2, 3.15)), Some(false));
        assert_eq!(judged(QUICKEST_TO_SLOWEST, &all(1.2, 3.0)[..1]), None);
    }

    #[test]
    fn kernel_entries_are_to_be_none_at_best_and_two_at_worst() {
        let both = |best, worst| {
            let of = |case: &str, ours| point(case, "kernel entries", ours, None);
            [of("sync/two-processors, T = 1", best), of("sync/one-processor, T = 1", worst)]
        };
        assert_eq!(judged(KERNEL_ENTRIES, &both(0.0001, 2.0)), Some(true));
        assert_eq!(judged(KERNEL_ENTRIES, &both(0.0001, 5.01)), Some(false));
        assert_eq!(judged(KERNEL_ENTRIES, &both(0.5, 2.0)), Some(false));
        assert_eq!(judged(KERNEL_ENTRIES, &both(0.01, 2.2)), Some(true));
        assert_eq!(judged(KERNEL_ENTRIES, &both(0.01, 2.21)), Some(false));
        assert_eq!(judged(KERNEL_ENTRIES, &both(0.0, 2.0)[..1]), None);
    }

    #[test]
    fn a_signal_is_to_enter_no_kernel_on_two_processors() {
        let entering = |entries| {
            [row("signal/two-processors", 1.0, &[("T", 1.0), ("kernel_entries_per_call", entries)])]
        };
        assert_eq!(judged_rows(SILENT_SIGNALS, &entering(0.0)), Some(true));
        assert_eq!(judged_rows(SILENT_SIGNALS, &entering(0.01)), Some(true));
        assert_eq!(judged_rows(SILENT_SIGNALS, &entering(2.0)), Some(false));
        assert_eq!(judged_rows(SILENT_SIGNALS, &[]), None);
    }

    #[test]
    fn asynchronous_messages_are_to_be_much_faster() {
        let one = |ours| [point("async/1-sender", "message", ours, None)];
        assert_eq!(
            [0.2, 0.5, 0.51].map(|ours| judged(MUCH_FASTER, &one(ours))),
            [Some(true), Some(true), Some(false)]
        );
        assert_eq!(judged(MUCH_FASTER, &[]), None);
    }

    #[test]
    fn handlers_are_to_cost_what_stands_in_their_way() {
        let all = |running, other| {
            let of = |case: &str, ours| point(&format!("interrupt/{case}"), "handler", ours, None);
            [of("running", running), of("other-task", other)]
        };
        assert_eq!(
            [1.94, 2.2, 2.21].map(|running| judged(TWICE, &all(running, 3.0))),
            [Some(true), Some(true), Some(false)]
        );
        assert_eq!(judged(SWITCHED_IN, &all(1.94, 3.0)), Some(true));
        assert_eq!(judged(SWITCHED_IN, &all(1.94, 1.94)), Some(false));
        assert_eq!(judged(SWITCHED_IN, &all(0.9, 0.95)), Some(false), "the runtime's takes longer");
        assert_eq!(judged(SWITCHED_IN, &all(1.94, 3.0)[..1]), None, "an idle processor is no other task");
    }
}
