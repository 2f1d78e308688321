//! Rows that the benchmarks have printed before.

use super::experiment::PaperExperiment;
use super::origin::{ReportOrigin, RowSource, SourcedRow};
use std::path::{Path, PathBuf};
use underpass_bench::{BenchError, Machine, Row, RowOrigin};
use underpass_figures::StaleRule;

/// The rows of a directory's files. Rows of one machine are never mixed with those of another one.
#[derive(Debug)]
pub(super) struct RecordedRows {
    rows: Vec<(Row, RowOrigin)>,
    rule: StaleRule,
}

impl RecordedRows {
    /// Reads all files in `directory` whose names end in `.json`.
    ///
    /// # Errors
    /// A file can't be read, or is not what `underpass-bench NAME --json` prints, or there is none.
    pub(super) fn read(directory: &Path) -> Result<Self, BenchError> {
        let named = |what: &dyn std::fmt::Display| format!("{}: {what}", directory.display());
        let entries = std::fs::read_dir(directory).map_err(|e| named(&e))?;
        let is_json = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_json).collect();
        files.sort();
        let mut rows = Vec::new();
        for file in files {
            let read = |e: &dyn std::fmt::Display| {
                format!("{}: {e}; it has to be what `underpass-bench NAME --json` prints", file.display())
            };
            let text = std::fs::read_to_string(&file).map_err(|e| read(&e))?;
            for line in text.lines().filter(|line| !is_method(line)) {
                rows.push(Row::from_json(line).map_err(|e| read(&e))?);
            }
        }
        if rows.is_empty() {
            return Err(named(&"it has no rows; `underpass-bench NAME --json >NAME.json` makes some").into());
        }
        Ok(Self { rows, rule: StaleRule::of(directory)? })
    }

    /// The machines, in the order of their first rows.
    pub(super) fn machines(&self) -> Vec<Machine> {
        let mut machines: Vec<Machine> = Vec::new();
        for (_, RowOrigin { machine, .. }) in &self.rows {
            if !machines.iter().any(|known| known.is_same(machine)) {
                machines.push(machine.clone());
            }
        }
        machines
    }

    /// The rows of an experiment on `machine`, in the order of its cases.
    pub(super) fn of(&self, experiment: &PaperExperiment, machine: &Machine) -> Vec<SourcedRow> {
        let mut found = Vec::new();
        for source in experiment.sources {
            let of_bench = || self.rows_on(machine).filter(|(row, _)| row.bench == source.bench);
            if source.cases.is_empty() {
                found.extend(of_bench().map(|row| self.sourced(row)));
            }
            for case in source.cases {
                let below = |(row, _): &&(Row, RowOrigin)| {
                    row.case.strip_prefix(case).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let before = found.len();
                found.extend(of_bench().filter(below).map(|row| self.sourced(row)));
                if found.len() == before {
                    found.push((missing(source.bench, case), None));
                }
            }
        }
        found
    }

    /// Whether anything that the experiment shows was measured on `machine`.
    pub(super) fn has(&self, experiment: &PaperExperiment, machine: &Machine) -> bool {
        let shown =
            |bench: &str| experiment.sources.iter().any(|source| source.shown && source.bench == bench);
        self.rows_on(machine).any(|(row, _)| row.result.is_ok() && shown(&row.bench))
    }

    /// The machine, with the benchmarks that ran there.
    pub(super) fn origin(&self, machine: &Machine) -> ReportOrigin {
        let mut benches: Vec<String> = Vec::new();
        for (row, _) in self.rows_on(machine) {
            if !benches.contains(&row.bench) {
                benches.push(row.bench.clone());
            }
        }
        ReportOrigin::recorded(machine.clone(), benches, self.machines().len() > 1)
    }

    fn rows_on(&self, machine: &Machine) -> impl Iterator<Item = &(Row, RowOrigin)> {
        self.rows.iter().filter(|(_, origin)| origin.machine.is_same(machine))
    }

    fn sourced(&self, (row, origin): &(Row, RowOrigin)) -> SourcedRow {
        let stale = self.rule.reason(&origin.version, &row.bench, &row.case);
        (row.clone(), Some(RowSource::of(origin, stale)))
    }
}

/// Whether a line tells how other packages were measured, and has no figures.
fn is_method(line: &str) -> bool {
    let told: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    told["bench"] == "peers" && told["case"] == "method"
}

fn missing(bench: &str, case: &str) -> Row {
    let result = Err("these results have no such case".to_owned());
    Row { bench: bench.into(), case: case.into(), pinning: String::new(), result }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::papers::points::outcome;
    use crate::command::papers::points::tests::{experiment, row};
    use underpass_bench::{Figures, SourceVersion};

    fn origin(cpu: &str) -> RowOrigin {
        let machine = Machine { cpu: cpu.into(), kernel: "Linux 1".into(), processors: 2, clock_ns: 20.0 };
        RowOrigin { version: SourceVersion::default(), date: None, machine }
    }

    fn lines(rows: &[Row], origin: &RowOrigin) -> String {
        rows.iter().map(|row| row.json(origin) + "\n").collect()
    }

    /// A directory with these files.
    fn written(files: &[(&str, String)]) -> (tempfile::TempDir, RecordedRows) {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let rows = RecordedRows::read(directory.path()).unwrap();
        (directory, rows)
    }

    #[test]
    fn an_experiment_gets_its_rows_and_is_told_what_is_missing() {
        let of =
            |bench: &str, case: &str| Row { bench: bench.into(), ..row(case, Figures::one(4.0, "x", 2.0)) };
        let devices = [of("devices", "interrupt/runtime"), of("devices", "interrupt/running")];
        let method = "{\"bench\":\"peers\",\"case\":\"method\",\"rounds\":2}\n";
        let peers = method.to_owned() + &lines(&[of("peers", "together/null/zbus")], &origin("B"));
        let (_directory, recorded) =
            written(&[("devices.json", lines(&devices, &origin("A"))), ("peers.json", peers)]);
        let machines = recorded.machines();
        assert_eq!(machines.iter().map(|machine| machine.cpu.as_str()).collect::<Vec<_>>(), ["A", "B"]);
        let interrupts = experiment("raven.interrupts");
        let rows = recorded.of(interrupts, &machines[0]);
        let told: Vec<_> = rows.iter().map(|(row, source)| (row.case.as_str(), source.is_some())).collect();
        let expected = [
            ("interrupt/runtime", true),
            ("interrupt/running", true),
            ("interrupt/other-task", false),
            ("interrupt/asleep", false),
        ];
        assert_eq!(told, expected);
        assert!(recorded.has(interrupts, &machines[0]) && !recorded.has(interrupts, &machines[1]));
        assert_eq!(recorded.origin(&machines[1]).benches, ["peers"]);
    }

    #[test]
    fn no_curve_and_no_verdict_has_rows_of_two_machines() {
        let rate = |case: &str, threads: u64, rate: f64| {
            let figures = Figures::one(1.0, "two-line", 1.0).with("T", threads).with("calls_per_s", rate);
            Row { bench: "urpc".into(), ..row(case, figures) }
        };
        // B has no T = C = S = 1, by which A's rows are divided, and two processors on each side.
        let first = [rate("figures/C1S1", 1, 2.0e6), rate("figures/C1S1", 2, 3.0e6)];
        let second = [rate("figures/C2S2", 4, 19.0e6)];
        let (_directory, recorded) = written(&[
            ("urpc-a.json", lines(&first, &origin("A"))),
            ("urpc-b.json", lines(&second, &origin("B"))),
        ]);
        let fig4 = experiment("urpc.fig4");
        let shown = |machine: &Machine| {
            let rows: Vec<_> = recorded.of(fig4, machine).into_iter().map(|(row, _)| row).collect();
            outcome(fig4, &rows)
        };
        let machines = recorded.machines();
        let (on_a, on_b) = (shown(&machines[0]), shown(&machines[1]));
        assert_eq!(on_a.points.iter().filter_map(|point| point.ours).collect::<Vec<_>>(), [1.0, 1.5]);
        assert!(on_b.points.is_empty(), "9.5 would be B's rate divided by A's: {:?}", on_b.points);
        assert!(on_a.verdicts.is_empty() && on_b.verdicts.is_empty(), "{on_a:?} {on_b:?}");
    }

    #[test]
    fn one_machine_measures_its_clock_anew() {
        let again = RowOrigin { machine: Machine { clock_ns: 21.0, ..origin("A").machine }, ..origin("A") };
        let row = row("call", Figures::one(1.0, "x", 1.0));
        let (_directory, recorded) = written(&[
            ("a.json", lines(std::slice::from_ref(&row), &origin("A"))),
            ("b.json", lines(&[row], &again)),
        ]);
        assert_eq!(recorded.machines().len(), 1);
    }

    #[test]
    fn a_directory_without_rows_or_with_other_json_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = RecordedRows::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("has no rows"), "{error}");
        std::fs::write(directory.path().join("a.json"), "{\"bench\": 1}\n").unwrap();
        let error = RecordedRows::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("a.json") && error.contains("bench NAME --json"), "{error}");
    }
}
