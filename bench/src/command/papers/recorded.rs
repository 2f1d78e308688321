//! Rows that the benchmarks have printed before.

use super::experiment::PaperExperiment;
use super::origin::ReportOrigin;
use std::path::{Path, PathBuf};
use underpass_bench::{BenchError, Machine, Row};

/// The rows of a directory's files.
#[derive(Debug)]
pub(super) struct RecordedRows {
    rows: Vec<(Row, Machine)>,
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
        Ok(Self { rows })
    }

    /// The rows of an experiment, in the order of its cases.
    pub(super) fn of(&self, experiment: &PaperExperiment) -> Vec<Row> {
        let mut found = Vec::new();
        for source in experiment.sources {
            let of_bench = || self.rows.iter().map(|(row, _)| row).filter(|row| row.bench == source.bench);
            if source.cases.is_empty() {
                found.extend(of_bench().cloned());
            }
            for case in source.cases {
                let below = |row: &&Row| {
                    row.case.strip_prefix(case).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let before = found.len();
                found.extend(of_bench().filter(below).cloned());
                if found.len() == before {
                    found.push(missing(source.bench, case));
                }
            }
        }
        found
    }

    /// The machines, each with the benchmarks that ran there.
    pub(super) fn origin(&self) -> ReportOrigin {
        let mut origin = ReportOrigin::recorded();
        for (row, machine) in &self.rows {
            origin.add(machine, &row.bench);
        }
        origin
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
    use crate::command::papers::points::tests::{experiment, row};
    use underpass_bench::Figures;

    fn machine(cpu: &str) -> Machine {
        Machine { cpu: cpu.into(), kernel: "Linux 1".into(), processors: 2, clock_ns: 20.0 }
    }

    /// A directory with a file of two rows of one benchmark, and one with a row of another.
    fn written() -> tempfile::TempDir {
        let of =
            |bench: &str, case: &str| Row { bench: bench.into(), ..row(case, Figures::one(4.0, "x", 2.0)) };
        let lines = |rows: &[Row], machine: &Machine| {
            rows.iter().map(|row| row.json(machine) + "\n").collect::<String>()
        };
        let directory = tempfile::tempdir().unwrap();
        let devices = [of("devices", "interrupt/runtime"), of("devices", "interrupt/running")];
        let method = "{\"bench\":\"peers\",\"case\":\"method\",\"rounds\":2}\n";
        let peers = method.to_owned() + &lines(&[of("peers", "together/null/zbus")], &machine("B"));
        std::fs::write(directory.path().join("devices.json"), lines(&devices, &machine("A"))).unwrap();
        std::fs::write(directory.path().join("peers.json"), peers).unwrap();
        directory
    }

    #[test]
    fn an_experiment_gets_its_rows_and_is_told_what_is_missing() {
        let directory = written();
        let recorded = RecordedRows::read(directory.path()).unwrap();
        let rows = recorded.of(experiment("raven.interrupts"));
        let told: Vec<_> = rows.iter().map(|row| (row.case.as_str(), row.result.is_ok())).collect();
        let expected = [
            ("interrupt/runtime", true),
            ("interrupt/running", true),
            ("interrupt/other-task", false),
            ("interrupt/asleep", false),
        ];
        assert_eq!(told, expected);
        let origin = recorded.origin();
        assert_eq!(origin.machine_of("devices").cpu, "A");
        assert_eq!(origin.machine_of("peers").cpu, "B");
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
