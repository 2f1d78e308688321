//! The claims of URPC.

use super::{Judge, Judged, PaperFigures, all_curves, pairs};
use underpass_bench::{ClaimVerdict, claims};

/// The second line's ratio is greater than the first's, wherever the paper's is.
pub(in super::super) const ORDER: Judge = |figures| {
    let (mut count, mut against) = (0, Vec::new());
    let first_line = &figures.points.first()?.line;
    for first in figures.points.iter().filter(|point| point.line == *first_line) {
        let other = figures.points.iter().find(|other| other.at == first.at && other.line != first.line);
        let Some(other) = other.filter(|other| other.paper > first.paper) else { continue };
        let Some((first_ours, other_ours)) = first.ours.zip(other.ours) else { continue };
        count += 1;
        if other_ours <= first_ours {
            against.push(format!("{}: {first_ours:.1} and {other_ours:.1}", first.at));
        }
    }
    pairs(count, &against)
};

/// Our ratio of a component of a side, or of its total.
fn component(figures: PaperFigures<'_>, side: &str, part: &str) -> Option<f64> {
    figures.ours(&format!("table2/{side}/{part}"), "")
}

/// What counts as nearly half. The paper's is 45 of 107 µs.
const NEARLY_HALF_OF: f64 = 0.4;

/// Nearly half of the time of both sides goes to dispatch.
pub(in super::super) const NEARLY_HALF: Judge = |figures| {
    let both = |part| Some(component(figures, "client", part)? + component(figures, "server", part)?);
    let share = both("dispatch")? / both("total")?;
    let of = |side| Some(100.0 * component(figures, side, "dispatch")? / component(figures, side, "total")?);
    let (client, server) = (of("client")?, of("server")?);
    let because = format!(
        "dispatch is {:.0} % of both sides' time, {client:.0} % of the client's and {server:.0} % of the server's",
        100.0 * share
    );
    Some((share >= NEARLY_HALF_OF, because))
};

/// How far apart times may lie that are almost the same. The paper's are 54 and 53 µs.
const ALMOST: f64 = 1.1;

/// The total processing times are almost the same for the client and the server.
pub(in super::super) const SAME_TOTALS: Judge = |figures| {
    let (client, server) = (component(figures, "client", "total")?, component(figures, "server", "total")?);
    let apart = (client / server).max(server / client);
    Some((apart <= ALMOST, format!("the longer total is {apart:.2} times the shorter one")))
};

/// How far the paper's sum lies from its call: 107 to 93 µs.
const PAPERS_DISCREPANCY: f64 = 107.0 / 93.0;

/// The components explain a null call as well as the paper's do.
pub(in super::super) const EXPLAINED: Judge = |figures| {
    let explained = figures.figure("table2/null", None, "explained")?;
    let part = |case| Some(100.0 * figures.figure(case, None, "ratio")?);
    let (work, lines) = (part("table2/both-sides")?, part("table2/lines")?);
    let holds = explained.max(1.0 / explained) <= PAPERS_DISCREPANCY;
    let because = format!(
        "both sides' work is {work:.0} % of a null call and the wait for lines {lines:.0} %, together {:.0} %",
        100.0 * explained
    );
    Some((holds, because))
};

/// C and S of a case such as `figures/C1S4`.
fn processors(case: &str) -> Option<(u64, u64)> {
    let (clients, servers) = case.strip_prefix("figures/C")?.split_once('S')?;
    Some((clients.parse().ok()?, servers.parse().ok()?))
}

/// The verdicts about all curves of `line` whose C and S are `wanted`.
fn of_curves(
    figures: PaperFigures<'_>,
    line: &str,
    wanted: impl Fn((u64, u64)) -> bool,
    judge: impl Fn(&[(u64, f64)], (u64, u64)) -> Option<ClaimVerdict>,
) -> Option<Judged> {
    let curves = figures.curves(line).into_iter().filter_map(|(case, curve)| {
        let shape = processors(case).filter(|shape| wanted(*shape))?;
        Some((case.trim_start_matches("figures/"), judge(&curve, shape)?))
    });
    all_curves(curves.collect())
}

/// Figure 4: throughput grows until T = C + S, and stays there.
pub(in super::super) const THROUGHPUT: Judge =
    |figures| of_curves(figures, "throughput", |(_, servers)| servers > 0, claims::throughput);

/// Figure 4, S = 0: throughput improves steadily.
pub(in super::super) const STEADILY: Judge =
    |figures| of_curves(figures, "throughput", |(_, servers)| servers == 0, claims::throughput);

/// Figure 3: latency increases beyond T = C + S.
pub(in super::super) const LATENCY: Judge =
    |figures| of_curves(figures, "latency", |_| true, claims::latency);

/// Our latency of one case and number of threads.
fn latency(figures: PaperFigures<'_>, case: &str, threads: u64) -> Option<f64> {
    figures.ours(&format!("{case}, T = {threads}"), "latency")
}

/// What a second thread may add to the latency of C = S = 1. In the paper it adds 20 %.
const ONLY_A_FIFTH: f64 = 1.3;

/// Figure 3: at T = 2, C = S = 1, latency increases by only 20 per cent.
pub(in super::super) const FIFTH: Judge = |figures| {
    let [one, two] = [1, 2].map(|threads| latency(figures, "figures/C1S1", threads));
    let grows = two? / one?;
    Some((grows <= ONLY_A_FIFTH, format!("it grows to {grows:.2} times that of one thread")))
};

/// Figure 3: a single caller waits longest where the server has no processor.
pub(in super::super) const WORST_WITHOUT: Judge = |figures| {
    let alone = figures.curves("latency").into_iter().filter_map(|(case, curve)| {
        let (_, one) = *curve.iter().find(|(threads, _)| *threads == 1)?;
        Some((processors(case)?.1 == 0, one))
    });
    let (without, with): (Vec<_>, Vec<_>) = alone.partition(|(without, _)| *without);
    let least = without.iter().map(|(_, one)| *one).min_by(f64::total_cmp)?;
    let most = with.iter().map(|(_, one)| *one).max_by(f64::total_cmp)?;
    let times = least / most;
    Some((times > 1.1, format!("its shortest takes {times:.2} times as long as the longest of the others")))
};

/// Figure 4: two processors on each side make more calls than one on each.
pub(in super::super) const TWO_ON_EACH_SIDE: Judge = |figures| {
    let best = |wanted: &str| {
        let (_, curve) = figures.curves("throughput").into_iter().find(|(case, _)| *case == wanted)?;
        curve.into_iter().map(|(_, rate)| rate).max_by(f64::total_cmp)
    };
    let times = best("figures/C2S2")? / best("figures/C1S1")?;
    Some((times > 1.1, format!("two on each side make {times:.2} times as many calls as one on each")))
};

/// This share of what the raw rings gain is enough.
const NEARLY: f64 = 0.9;

/// The rate of several clients grows with their number as that of raw pairs of rings does.
pub(in super::super) const APART: Judge = |figures| {
    let (mut count, mut against) = (0, Vec::new());
    for clients in figures.points.iter().filter(|point| point.line == "clients" && point.x > Some(1.0)) {
        let raw = figures.ours(&clients.at, "raw pairs of rings");
        let Some((ours, raw)) = clients.ours.zip(raw) else { continue };
        count += 1;
        if ours < NEARLY * raw {
            against
                .push(format!("{}: {ours:.2} times a client alone, and {raw:.2} times a pair", clients.at));
        }
    }
    pairs(count, &against)
};

#[cfg(test)]
mod tests {
    use super::super::tests::{judged, judged_rows, on_axis, point, row};
    use super::*;

    #[test]
    fn dispatch_is_to_be_nearly_half_of_both_sides_together() {
        let side = |side: &str, dispatch: f64, total: f64| {
            let part = |name: &str, ours| point(&format!("table2/{side}/{name}"), "component", ours, None);
            [part("dispatch", dispatch), part("total", total)]
        };
        let client = side("client", 20.0, 54.0);
        assert_eq!(judged(NEARLY_HALF, &client), None, "the server is missing");
        let both = |server: [_; 2]| client.iter().cloned().chain(server).collect::<Vec<_>>();
        assert_eq!(judged(NEARLY_HALF, &both(side("server", 25.0, 53.0))), Some(true), "the paper's");
        assert_eq!(judged(NEARLY_HALF, &both(side("server", 1.1, 17.6))), Some(false));
        assert_eq!(judged(NEARLY_HALF, &both(side("server", 20.0, 46.0))), Some(true), "40 %");
        assert_eq!(judged(NEARLY_HALF, &both(side("server", 20.0, 46.1))), Some(false));
    }

    #[test]
    fn both_totals_are_to_be_almost_the_same() {
        let totals = |client, server| {
            let of = |side: &str, total| point(&format!("table2/{side}/total"), "component", total, None);
            [of("client", client), of("server", server)]
        };
        assert_eq!(judged(SAME_TOTALS, &totals(54.0, 53.0)), Some(true));
        assert_eq!(judged(SAME_TOTALS, &totals(36.7, 17.6)), Some(false));
        assert_eq!(judged(SAME_TOTALS, &totals(50.0, 55.0)), Some(true));
        assert_eq!(judged(SAME_TOTALS, &totals(50.0, 55.1)), Some(false));
        assert_eq!(judged(SAME_TOTALS, &totals(50.0, 55.1)[..1]), None);
    }

    #[test]
    fn the_sum_is_to_explain_a_call_as_well_as_the_papers() {
        let call = |explained| {
            let null = row("table2/null", 100.0, &[("explained", explained)]);
            [row("table2/both-sides", 40.0, &[]), row("table2/lines", 60.0, &[]), null]
        };
        assert_eq!(judged_rows(EXPLAINED, &call(1.0)), Some(true));
        assert_eq!(judged_rows(EXPLAINED, &call(107.0 / 93.0)), Some(true), "the paper's");
        assert_eq!(judged_rows(EXPLAINED, &call(1.16)), Some(false));
        assert_eq!(judged_rows(EXPLAINED, &call(0.86)), Some(false), "a seventh is not explained");
        assert_eq!(judged_rows(EXPLAINED, &call(1.0)[..2]), None);
    }

    fn curve(
        case: &str,
        line: &str,
        values: &[(u64, f64)],
    ) -> Vec<crate::command::papers::points::PaperPoint> {
        let at = |threads: u64| format!("figures/{case}, T = {threads}");
        values.iter().map(|(threads, value)| on_axis(&at(*threads), line, *threads, *value)).collect()
    }

    #[test]
    fn every_curve_of_throughput_has_to_agree() {
        let good = curve("C1S1", "throughput", &[(1, 1.0), (2, 1.8), (4, 1.8)]);
        let donated = curve("C1S0", "throughput", &[(1, 1.0), (2, 1.8), (4, 1.7), (32, 3.0)]);
        let falls = curve("C1S4", "throughput", &[(1, 1.0), (5, 1.8), (32, 0.7)]);
        assert_eq!(judged(THROUGHPUT, &good), Some(true));
        assert_eq!(judged(THROUGHPUT, &donated), None, "it has a sentence of its own");
        assert_eq!(judged(STEADILY, &donated), Some(true));
        let all = [good, falls, donated].concat();
        let (holds, because) = THROUGHPUT(PaperFigures { points: &all, rows: &[] }).unwrap();
        assert!(
            !holds && because.starts_with("1 of 2 curves do not agree (C1S4); with C1S4, T = 5"),
            "{because}"
        );
    }

    #[test]
    fn figure_3_judges_latency() {
        let waits = curve("C1S1", "latency", &[(1, 1.0), (2, 1.2), (32, 9.0)]);
        assert_eq!((judged(LATENCY, &waits), judged(FIFTH, &waits)), (Some(true), Some(true)));
        assert_eq!(judged(THROUGHPUT, &waits), None);
        let flat = curve("C1S1", "latency", &[(1, 1.0), (2, 1.31), (32, 1.3)]);
        assert_eq!((judged(LATENCY, &flat), judged(FIFTH, &flat)), (Some(false), Some(false)));
        assert_eq!(judged(FIFTH, &waits[..1]), None);
    }

    #[test]
    fn without_a_servers_processor_a_caller_is_to_wait_longest() {
        let both = |without| {
            [curve("C1S1", "latency", &[(1, 1.0)]), curve("C2S0", "latency", &[(1, without)])].concat()
        };
        assert_eq!(judged(WORST_WITHOUT, &both(4.0)), Some(true));
        assert_eq!(judged(WORST_WITHOUT, &both(1.1)), Some(false));
        assert_eq!(judged(WORST_WITHOUT, &both(1.11)), Some(true));
        assert_eq!(judged(WORST_WITHOUT, &both(4.0)[..1]), None);
    }

    #[test]
    fn more_processors_are_to_make_more_calls() {
        let rate = |case: &str, ours| curve(case, "throughput", &[(2, ours)]);
        let both = |two| [rate("C1S1", 2.0), rate("C2S2", two)].concat();
        assert_eq!(judged(TWO_ON_EACH_SIDE, &rate("C1S1", 1.7)), None);
        assert_eq!(judged(TWO_ON_EACH_SIDE, &both(2.67)), Some(true));
        assert_eq!(judged(TWO_ON_EACH_SIDE, &both(0.6)), Some(false));
        assert_eq!(judged(TWO_ON_EACH_SIDE, &both(2.2)), Some(false), "a tenth is no more");
    }

    #[test]
    fn clients_are_to_gain_as_much_as_raw_rings() {
        let two = |ours| {
            let of = |line: &str, ours| on_axis("B/2", line, 2, ours);
            [of("clients", ours), of("raw pairs of rings", 2.0)]
        };
        assert_eq!(judged(APART, &two(2.1)), Some(true));
        assert_eq!(judged(APART, &two(1.8)), Some(true));
        assert_eq!(judged(APART, &two(1.79)), Some(false));
        assert_eq!(judged(APART, &two(2.0)[..1]), None);
        assert_eq!(judged(APART, &[on_axis("B/1", "clients", 1, 1.0)]), None);
    }
}
