//! The first page of a report on several machines: the experiments, with a column for each machine.

use super::experiment::PaperExperiment;
use super::page::{head, is_stale, machine_line, verdict_mark};
use super::{MachineReport, ReportPart};
use std::fmt::Write;
use underpass_bench::Machine;
use underpass_figures::escaped;

/// Gives each machine's report a folder of its own.
pub(super) fn with_folders(reports: Vec<MachineReport>) -> Vec<(String, MachineReport)> {
    let mut named: Vec<(String, MachineReport)> = Vec::new();
    for report in reports {
        let name = folder(&report.origin.machine);
        let taken = |name: &str| named.iter().any(|(known, _)| known == name);
        let mut free = name.clone();
        for number in 2.. {
            if !taken(&free) {
                break;
            }
            free = format!("{name}-{number}");
        }
        named.push((free, report));
    }
    named
}

/// A folder's name for a machine: `amd-epyc-linux-6-18-2`.
fn folder(machine: &Machine) -> String {
    let Machine { cpu, kernel, processors, .. } = machine;
    let told = format!("{cpu} {kernel} {processors}").to_lowercase();
    let words = told.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// The page.
pub(super) fn page(reports: &[(String, MachineReport)], experiments: &[&PaperExperiment]) -> String {
    let mut page = head();
    page.push_str(
        "<p>Figures of different machines can't be compared, so each machine has a page of its own. No curve \
         and no verdict has figures of two. ✓: all claims of the paper hold today. ✗: not all do. ·: no claim \
         is judged. –: not measured. Rows are <i>stale</i> if the code has changed since they were \
         measured.</p>\n<ol>\n",
    );
    for (folder, report) in reports {
        let machine = machine_line(&report.origin.machine);
        let _ = writeln!(page, "<li><a href=\"{}/index.html\">{machine}</a></li>", escaped(folder));
    }
    page.push_str("</ol>\n<div class=\"wide\"><table><tr><th>experiment</th><th>what</th>");
    for number in 1..=reports.len() {
        let _ = write!(page, "<th>{number}</th>");
    }
    page.push_str("</tr>\n");
    for experiment in experiments {
        let (stands, title) = (escaped(experiment.stands), escaped(experiment.title));
        let _ = write!(page, "<tr><td>{stands}</td><td>{title}</td>");
        for (folder, report) in reports {
            let part = report.parts.iter().find(|part| part.experiment.id == experiment.id);
            let _ = write!(page, "<td>{}</td>", part.map_or("–".into(), |part| cell(folder, part)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n</body></html>\n");
    page
}

/// What became of an experiment on one machine.
fn cell(folder: &str, part: &ReportPart) -> String {
    let stale = if is_stale(&part.groups) { " <i>stale</i>" } else { "" };
    let mark = verdict_mark(&part.outcome);
    format!("<a href=\"{}/index.html#{}\">{mark}</a>{stale}", escaped(folder), part.experiment.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::papers::page::tests::report;
    use crate::command::papers::points::tests::experiment;
    use underpass_figures::StaleReason;

    #[test]
    fn machines_are_columns_with_pages_of_their_own() {
        let reports = with_folders(vec![
            report("A (R) CPU", None),
            report("B", Some(StaleReason::UnknownCommit)),
            report("B!", None),
        ]);
        let folders: Vec<_> = reports.iter().map(|(folder, _)| folder.as_str()).collect();
        assert_eq!(folders, ["a-r-cpu-linux-1-2", "b-linux-1-2", "b-linux-1-2-2"]);
        let page = page(&reports, &[experiment("lrpc.table4"), experiment("urpc.fig4")]);
        let columns = "<td><a href=\"a-r-cpu-linux-1-2/index.html#lrpc.table4\">✓</a></td>\
                       <td><a href=\"b-linux-1-2/index.html#lrpc.table4\">✓</a> <i>stale</i></td>";
        assert!(page.contains(columns), "{page}");
        assert!(page.contains("<td>–</td><td>–</td><td>–</td>"), "{page}");
    }
}
