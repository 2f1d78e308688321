//! The report: one page of HTML that needs nothing else.

use super::experiment::PaperExperiment;
use super::origin::{ReportOrigin, RowGroup};
use super::plot::{number, plot};
use super::points::{PaperOutcome, PaperPoint};
use super::{MachineReport, ReportPart};
use std::fmt::Write;
use underpass_bench::{Machine, MachineSettings};
use underpass_figures::escaped;

pub(super) const STYLE: &str = "
:root { color-scheme: light dark; --ours: #2f74c0; --paper: #c4761f; --grid: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; overflow-wrap: break-word; }
h1 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-top: 1px solid var(--grid); padding-top: 1rem; line-height: 1.3; }
a { color: LinkText; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--grid); }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
table.settings { font-size: .85rem; } table.settings td { vertical-align: top; } table.settings td:first-child { overflow-wrap: normal; }
td:first-child, table.settings td:nth-child(2) { overflow-wrap: anywhere; } .spare { white-space: nowrap; }
ul.contents { list-style: none; padding: 0; } ul.contents li { padding: .15rem 0; }
.mark { display: inline-block; width: 1.4em; }
.look { border: 2px solid var(--paper); border-radius: .4rem; padding: .5rem .8rem; }
figure { margin: 1rem 0; max-width: 36rem; } figcaption { font-size: .85rem; }
figure svg { width: 100%; height: auto; display: block; } svg text { fill: currentColor; font-size: 12px; }
.key { display: inline-block; margin-right: 1.2em; white-space: nowrap; }
.key svg { display: inline; width: 26px; height: 10px; margin-right: .4em; }
.ours { fill: var(--ours); } .paper { fill: var(--paper); } svg .square { fill: Canvas; stroke-width: 2; }
@media (max-width: 30rem) {
  svg text { font-size: 15px; } table { font-size: .85rem; } th, td { padding: .15rem .3rem; }
  .spare { display: none; }
}
@media print {
  :root { color-scheme: light; } body { font-size: 11pt; max-width: none; padding: 0; } figure { max-width: 22rem; }
  h2 { break-after: avoid; } figure, tr { break-inside: avoid; } div.wide { overflow: visible; }
  * { print-color-adjust: exact; }
}
";

/// The begin of a page, up to its title.
pub(super) fn head() -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>The papers' tables today</title>\n<style>{STYLE}</style></head><body>\n\
         <h1>The papers' tables today</h1>\n"
    )
}

/// The machine in one line of HTML.
pub(super) fn machine_line(machine: &Machine) -> String {
    let Machine { cpu, kernel, processors, clock_ns } = machine;
    format!(
        "{} · {} · {processors} processors · a reading of the clock takes {clock_ns:.0} ns",
        escaped(cpu),
        escaped(kernel)
    )
}

/// The whole page of one machine.
pub(super) fn page(report: &MachineReport) -> String {
    let MachineReport { origin, parts, missing } = report;
    let mut page = head();
    let benches = match origin.benches[..] {
        [] => String::new(),
        _ => format!(": {}", escaped(&origin.benches.join(", "))),
    };
    let _ = writeln!(page, "<p>{}{benches}</p>", machine_line(&origin.machine));
    if origin.has_others {
        page.push_str("<p><a href=\"../index.html\">All machines</a></p>\n");
    }
    if origin.is_a_look {
        page.push_str("<p class=\"look\">This is a look (--quick). Quote none of its figures.</p>\n");
    }
    page.push_str(
        "<p>Times of 1990 and of today can't be compared. What is compared are ratios to the same base in the \
         same run: <span style=\"color:var(--ours)\">■</span> today, \
         <span style=\"color:var(--paper)\">■</span> the paper.</p>\n",
    );
    contents(&mut page, parts, missing);
    for one in parts {
        part(&mut page, one);
    }
    method(&mut page, origin);
    page.push_str("</body></html>\n");
    page
}

/// The parts, each with what became of its claims.
fn contents(page: &mut String, parts: &[ReportPart], missing: &[&PaperExperiment]) {
    let verdicts = || parts.iter().flat_map(|part| &part.outcome.verdicts);
    let (all, held) = (verdicts().count(), verdicts().filter(|verdict| verdict.holds).count());
    let _ = writeln!(
        page,
        "<p>{all} claims of the papers are judged by these figures: {held} hold today (✓), and {} do not (✗). \
         A part with a dot (·) has none, or one for which figures are missing. Rows are <i>stale</i> if \
         the code has changed since they were measured.</p>\n<ul class=\"contents\">",
        all - held
    );
    for ReportPart { experiment, outcome, groups } in parts {
        let (id, title) = (experiment.id, escaped(experiment.title));
        let mark = verdict_mark(outcome);
        let stands = escaped(experiment.stands);
        let stale = if is_stale(groups) { ", <i>stale</i>" } else { "" };
        let _ = writeln!(
            page,
            "<li><span class=\"mark\">{mark}</span><a href=\"#{id}\">{stands}: {title}</a>{stale}</li>"
        );
    }
    page.push_str("</ul>\n");
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|experiment| escaped(experiment.stands)).collect();
        let _ = writeln!(page, "<p>Not measured on this machine: {}.</p>", names.join("; "));
    }
}

/// Whether any row of a part is stale.
pub(super) fn is_stale(groups: &[RowGroup]) -> bool {
    groups.iter().any(|group| group.stale.is_some())
}

/// What became of the claims of a part.
pub(super) fn verdict_mark(outcome: &PaperOutcome) -> &'static str {
    match &outcome.verdicts[..] {
        verdicts if verdicts.iter().any(|verdict| !verdict.holds) => DOES_NOT,
        [] => "·",
        _ if !outcome.unjudged.is_empty() => "·",
        _ => HOLDS,
    }
}

const HOLDS: &str = "✓";
const DOES_NOT: &str = "✗";

/// How the figures came about.
fn method(page: &mut String, origin: &ReportOrigin) {
    page.push_str("<h2 id=\"method\">Method</h2>\n<ul>\n");
    for told in [
        origin.pace,
        "Each part runs real processes that the command starts.",
        "A subject is measured in short slices, in turns with what it is compared with. Its time is the \
         median of its slices. So a disturbance of the machine meets both.",
        "A ratio here is a quotient of medians. The spread beside it is that of the row's own ratios, slice \
         by slice: their 10th and 90th percentile, in parts of their median. 0.9–1.1 means that four of \
         five slices lie within a tenth.",
        "Each table says where the two sides ran. A CPU that is not named was chosen by the kernel.",
        "A claim of a paper is judged by the figures of this report, and by nothing else.",
    ] {
        let _ = writeln!(page, "<li>{}</li>", escaped(told));
    }
    page.push_str("</ul>\n");
    if let Some(settings) = &origin.settings {
        table_of_settings(page, settings);
    }
}

fn table_of_settings(page: &mut String, settings: &MachineSettings) {
    let MachineSettings { kernel_command_line, mitigations, governor, smt } = settings;
    page.push_str("<table class=\"settings\"><tr><th>setting</th><th>this machine</th></tr>\n");
    let named = [
        ("kernel command line", kernel_command_line),
        ("frequency governor", governor),
        ("threads of a core", smt),
    ];
    let named = named.map(|(name, value)| (name.to_owned(), value.as_deref().unwrap_or("not told")));
    let mitigations = mitigations.iter().map(|(name, value)| (format!("mitigation: {name}"), value.as_str()));
    for (name, value) in named.into_iter().chain(mitigations) {
        let _ = writeln!(page, "<tr><td>{}</td><td>{}</td></tr>", escaped(&name), escaped(value));
    }
    page.push_str("</table>\n");
}

fn part(page: &mut String, part: &ReportPart) {
    let ReportPart { experiment, outcome, groups } = part;
    let PaperExperiment { id, stands, title, says, to, sources, .. } = experiment;
    let _ = writeln!(page, "<h2 id=\"{id}\">{}: {}</h2>", escaped(stands), escaped(title));
    let _ = writeln!(page, "<p>The paper: {}. Ratios to: {}.</p>", escaped(says), escaped(to));
    for verdict in &outcome.verdicts {
        let (mark, word) =
            if verdict.holds { (HOLDS, "holds today") } else { (DOES_NOT, "does not hold today") };
        let (claim, because) = (escaped(&verdict.claim), escaped(&verdict.because));
        let _ = writeln!(page, "<p>{mark} <b>{claim}</b>: {word}, because {because}.</p>");
    }
    for claim in &outcome.unjudged {
        let _ =
            writeln!(page, "<p>· <b>{}</b>: not judged, because figures are missing.</p>", escaped(claim));
    }
    if outcome.verdicts.is_empty() && outcome.unjudged.is_empty() {
        page.push_str("<p>The figures stand for themselves: no claim is judged.</p>\n");
    }
    if outcome.points.iter().all(|point| point.ours.is_none()) {
        page.push_str("<p>There are no ratios of today: rows of this machine are missing for them.</p>\n");
    }
    plot(page, experiment, &outcome.points);
    table(page, &outcome.points);
    sources_of_rows(page, groups);
    for (case, why) in &outcome.skipped {
        let _ = writeln!(page, "<p>{} was not measured: {}.</p>", escaped(case), escaped(why));
    }
    for source in *sources {
        let (bench, code) = (source.bench, source.code);
        let _ = writeln!(
            page,
            "<p>Measured by <code>underpass-bench {bench}</code>. Its code: <code>{code}</code>.</p>"
        );
    }
    let _ = writeln!(page, "<p>Data: <a href=\"{id}.json\">{id}.json</a></p>");
}

/// Says of which commit and date the rows are, and whether they are stale.
fn sources_of_rows(page: &mut String, groups: &[RowGroup]) {
    for RowGroup { mark, date, stale, cases } in groups {
        let which = match groups.len() {
            1 => "All rows".to_owned(),
            _ => escaped(&cases.join(", ")),
        };
        let date = date.as_deref().unwrap_or("on an unknown date");
        let why = stale.as_ref().map_or(String::new(), |why| format!(" Stale: {}.", escaped(why)));
        let _ = writeln!(page, "<p>{which}: <i>{}</i>, measured {}.{why}</p>", escaped(mark), escaped(date));
    }
}

/// A table of more rows is opened by the reader.
const MOST_ROWS: usize = 16;

fn table(page: &mut String, points: &[PaperPoint]) {
    let long = points.len() > MOST_ROWS;
    if long {
        let _ = writeln!(page, "<details><summary>All {} figures as a table</summary>", points.len());
    }
    rows(page, points);
    if long {
        page.push_str("</details>\n");
    }
}

fn rows(page: &mut String, points: &[PaperPoint]) {
    page.push_str(
        "<div class=\"wide\"><table><tr><th>case</th><th></th><th>today</th><th class=\"spare\">spread</th>\
         <th class=\"spare\">slices</th><th>the paper</th></tr>\n",
    );
    let or_dash = |number: Option<String>| number.unwrap_or_else(|| "–".into());
    for PaperPoint { at, line, ours, paper, spread, rounds, .. } in points {
        let (at, line) = (escaped(at), escaped(line));
        let [ours, paper] = [ours, paper].map(|ratio| or_dash(ratio.map(number)));
        let spread = or_dash(spread.map(|(low, high)| format!("{low:.2}–{high:.2}")));
        let rounds = or_dash((*rounds > 0).then(|| rounds.to_string()));
        let _ = writeln!(
            page,
            "<tr><td>{at}</td><td>{line}</td><td>{ours}</td><td class=\"spare\">{spread}</td>\
             <td class=\"spare\">{rounds}</td>\
             <td>{paper}</td></tr>"
        );
    }
    page.push_str("</table></div>\n");
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::command::papers::origin::RowSource;
    use crate::command::papers::points::tests::{experiment, row};
    use underpass_bench::{Figures, RowOrigin, SourceVersion};
    use underpass_figures::StaleReason;

    /// The report on one machine that has Table IV of LRPC.
    pub(crate) fn report(cpu: &str, stale: Option<StaleReason>) -> MachineReport {
        let figures = Figures::one(1.0, "Null", 1.0).with("of_null", 1.2).with("paper_of_null", 1.384);
        let machine = Machine { cpu: cpu.into(), kernel: "Linux 1".into(), processors: 2, clock_ns: 20.0 };
        let origin = RowOrigin {
            version: SourceVersion::recorded("0123456789", "clean"),
            date: Some("2026-11-28T23:40:05Z".into()),
            machine: machine.clone(),
        };
        let mut report = MachineReport::new(ReportOrigin::recorded(machine, vec!["lrpc".into()], true));
        let source = RowSource::of(&origin, stale);
        report.add(experiment("lrpc.table4"), vec![(row("big-in/pinned", figures), Some(source))]);
        report.missing = vec![experiment("urpc.fig4")];
        report
    }

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let page = page(&report("A & B <C>", Some(StaleReason::UnknownCommit)));
        for part in [
            "A &amp; B &lt;C&gt;",
            "lrpc.table4",
            "1.38",
            "1.20",
            "holds today",
            "<rect class=\"paper\"",
            "bench/src/lrpc",
            "Method",
            "1 claims of the papers",
            "Not measured on this machine: URPC (1991), Figure 4.",
        ] {
            assert!(page.contains(part), "no {part} in {page}");
        }
        assert!(!page.contains("http://") && !page.contains("https://"), "it names something of the network");
        let opened = page.matches("<svg").count() + page.matches("<table").count();
        assert_eq!(opened, page.matches("</svg>").count() + page.matches("</table>").count());
    }

    #[test]
    fn rows_have_their_commit_and_date_and_are_marked_if_they_are_stale() {
        let stale = page(&report("A", Some(StaleReason::MissingCommit)));
        assert!(stale.contains("<i>of 01234567, stale</i>, measured 2026-11-28T23:40:05Z."), "{stale}");
        assert!(stale.contains("does not have its commit") && stale.contains("</a>, <i>stale</i></li>"));
        let fresh = page(&report("A", None));
        assert!(fresh.contains("<i>of 01234567</i>, measured 2026-11-28T23:40:05Z."), "{fresh}");
        assert!(!fresh.contains(", stale") && !fresh.contains("</a>, <i>"));
    }
}
