//! The machine that the figures come from.

use crate::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use underpass_os::{clock, cpu};

/// The measured machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of the CPU, from the kernel.
    pub cpu: String,
    /// The kernel and its release.
    pub kernel: String,
    /// The CPUs that this process may use.
    pub processors: usize,
    /// The cost of reading the clock once. Each sample behind `p99_ns` includes one reading.
    pub clock_ns: f64,
}

impl Machine {
    /// Describes this machine.
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: model(&cpuinfo).unwrap_or_else(|| format!("unnamed {} CPU", std::env::consts::ARCH)),
            kernel: format!("Linux {}", release.trim()),
            processors: cpu::allowed().map_or(1, |cpus| cpus.len()),
            clock_ns: clock_cost(),
        }
    }

    /// Whether both are one machine, as far as anybody can tell. The clock is measured anew by each
    /// run, so it does not count.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.cpu, &self.kernel, self.processors) == (&other.cpu, &other.kernel, other.processors)
    }
}

/// What makes two machines with the same processor differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineSettings {
    /// The kernel's command line, without what it passes on to the first process.
    pub kernel_command_line: Option<String>,
    /// What the kernel does about each vulnerability of the processor.
    pub mitigations: BTreeMap<String, String>,
    /// The kernel's way to choose the processor's frequency.
    pub governor: Option<String>,
    /// Whether cores run several threads at once.
    pub smt: Option<String>,
}

impl MachineSettings {
    /// Describes this machine.
    pub fn this() -> Self {
        Self {
            kernel_command_line: read("/proc/cmdline").map(own_words),
            mitigations: mitigations(),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            smt: read("/sys/devices/system/cpu/smt/control"),
        }
    }
}

/// What the kernel does about each vulnerability of the processor.
fn mitigations() -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return BTreeMap::new() };
    let told = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).ok()?;
        Some((entry.file_name().into_string().ok()?, text.trim().to_owned()))
    };
    entries.flatten().filter_map(told).collect()
}

/// The kernel's own part of its command line.
fn own_words(line: String) -> String {
    line.split_once(" -- ").map_or(line.as_str(), |(own, _)| own).to_owned()
}

/// A line of the kernel's, if it has one there.
fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The model of the CPU. Each architecture has its own word for it.
fn model(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "cpu", "Hardware"].iter().find_map(|wanted| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim() == *wanted)
            .map(|(_, model)| model.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|model| !model.is_empty())
    })
}

fn clock_cost() -> f64 {
    const READINGS: u64 = 1_000;
    let cost = |_| {
        let start = clock::now_ns();
        let end = (0..READINGS).fold(start, |_, _| clock::now_ns());
        (end - start) as f64 / READINGS as f64
    };
    Summary::of((0..9).map(cost)).median()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_in_several_spellings() {
        let intel = "processor\t: 0\nmodel\t\t: 207\nmodel name\t: Some(R)  CPU @ 2 GHz\n";
        assert_eq!(model(intel).as_deref(), Some("Some(R) CPU @ 2 GHz"));
        assert_eq!(model("Model\t\t: Raspberry Pi 5\n").as_deref(), Some("Raspberry Pi 5"));
        assert_eq!(model("processor : 0\nmodel name :\n"), None);
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_processor() {
        let machine = Machine::this();
        assert!(machine.kernel.len() > "Linux ".len() && machine.processors > 0, "{machine:?}");
    }
}
