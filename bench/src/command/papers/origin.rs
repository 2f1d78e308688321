//! Where the figures of a report come from.

use underpass_bench::{Machine, MachineSettings};

/// The machines, and how they were measured.
#[derive(Debug)]
pub(super) struct ReportOrigin {
    machines: Vec<(Machine, Vec<String>)>,
    /// What a reader has to know about the run.
    pub(super) pace: &'static str,
    /// Whether the figures are too few to be quoted.
    pub(super) is_a_look: bool,
    /// The settings of this machine, if it was measured.
    pub(super) settings: Option<MachineSettings>,
}

impl ReportOrigin {
    /// This machine, now.
    pub(super) fn measured(quick: bool) -> Self {
        let pace = if quick { "This is a look (--quick)." } else { "This is a whole run." };
        Self {
            machines: vec![(Machine::this(), Vec::new())],
            pace,
            is_a_look: quick,
            settings: Some(MachineSettings::this()),
        }
    }

    /// Rows that were printed before, of machines that are to be added.
    pub(super) fn recorded() -> Self {
        let pace = "These are recorded results (--from): each benchmark's are of a run of its own.";
        Self { machines: Vec::new(), pace, is_a_look: false, settings: None }
    }

    /// Notes that `bench` ran on `machine`.
    pub(super) fn add(&mut self, machine: &Machine, bench: &str) {
        let same = |(other, _): &&mut (Machine, Vec<String>)| {
            (&other.cpu, &other.kernel, other.processors)
                == (&machine.cpu, &machine.kernel, machine.processors)
        };
        match self.machines.iter_mut().find(same) {
            Some((_, benches)) if benches.iter().any(|known| known == bench) => {}
            Some((_, benches)) => benches.push(bench.to_owned()),
            None => self.machines.push((machine.clone(), vec![bench.to_owned()])),
        }
    }

    /// The machines, each with the benchmarks that ran there; none is all of them.
    pub(super) fn machines(&self) -> &[(Machine, Vec<String>)] {
        &self.machines
    }

    /// The machine that `bench` ran on. For one that did not run it is any of them.
    ///
    /// # Panics
    /// No machine has been added.
    pub(super) fn machine_of(&self, bench: &str) -> &Machine {
        let ran = |(_, benches): &&(Machine, Vec<String>)| benches.iter().any(|known| known == bench);
        let (machine, _) = self.machines.iter().find(ran).unwrap_or(&self.machines[0]);
        machine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_of_one_machine_stand_together() {
        let machine = |cpu: &str, clock_ns| Machine {
            cpu: cpu.into(),
            kernel: "Linux 1".into(),
            processors: 2,
            clock_ns,
        };
        let mut origin = ReportOrigin::recorded();
        origin.add(&machine("A", 20.0), "urpc");
        origin.add(&machine("B", 20.0), "lrpc");
        origin.add(&machine("A", 21.0), "threads");
        origin.add(&machine("A", 21.0), "urpc");
        let told: Vec<_> =
            origin.machines().iter().map(|(machine, benches)| (&*machine.cpu, benches.join(","))).collect();
        assert_eq!(told, [("A", "urpc,threads".to_owned()), ("B", "lrpc".to_owned())]);
        assert_eq!(origin.machine_of("lrpc").cpu, "B");
    }
}
