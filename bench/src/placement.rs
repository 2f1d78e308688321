//! Which side runs where.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use underpass_os::cpu;

/// Where the two sides of a scenario may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pinning {
    /// Each on a CPU of its own.
    Apart,
    /// Both on the same CPU.
    Together,
    /// Both on any CPU that this process may use.
    Floating,
    /// The client on one CPU; there is no server to speak of.
    Alone,
    /// The client on two CPUs.
    Both,
}

/// The CPUs of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// All that may be used, ascending.
    pub all: Vec<usize>,
    /// The client's, where it is pinned.
    pub near: usize,
    /// The server's, where it is pinned elsewhere; nothing if there is only one CPU.
    pub far: Option<usize>,
}

impl Placement {
    /// Takes the first CPU that this process may use, and as the other one the first that shares no core with it and is on
    /// the same package, if there is one.
    ///
    /// # Errors
    /// If the kernel doesn't tell which CPUs may be used.
    pub fn choose() -> Result<Self, Error> {
        let all = cpu::allowed()?;
        let (&near, others) =
            all.split_first().ok_or("the kernel allows this process no CPU; see `taskset -p $$`")?;
        let core = topology(near, "thread_siblings_list");
        let package = topology(near, "physical_package_id");
        let strange = |cpu: usize| {
            let same_core = core.is_some() && topology(cpu, "thread_siblings_list") == core;
            (same_core, topology(cpu, "physical_package_id") != package)
        };
        let far = others.iter().copied().min_by_key(|&cpu| strange(cpu));
        Ok(Self { near, far, all })
    }

    /// The CPUs of the client and those of the server, or why they can't be had.
    ///
    /// # Errors
    /// The reason, if two CPUs are asked for and there is one.
    pub fn sides(&self, pinning: Pinning) -> Result<(Vec<usize>, Vec<usize>), String> {
        match (pinning, self.far) {
            (Pinning::Together | Pinning::Alone, _) => Ok((vec![self.near], vec![self.near])),
            (Pinning::Apart, Some(far)) => Ok((vec![self.near], vec![far])),
            (Pinning::Floating, Some(_)) => Ok((self.all.clone(), self.all.clone())),
            (Pinning::Both, Some(far)) => Ok((vec![self.near, far], vec![far])),
            (Pinning::Apart | Pinning::Floating | Pinning::Both, None) => Err(self.one_only()),
        }
    }

    /// Why what needs two CPUs is skipped.
    pub fn one_only(&self) -> String {
        format!("needs two CPUs, and this process may use CPU {} only (see `taskset -p $$`)", self.near)
    }

    /// In words.
    pub fn describe(&self, pinning: Pinning) -> String {
        match (pinning, self.far) {
            (Pinning::Apart, Some(far)) => format!("client on CPU {}, server on CPU {far}", self.near),
            (Pinning::Floating, Some(_)) => format!("both on any of {} CPUs", self.all.len()),
            (Pinning::Both, Some(far)) => format!("on CPUs {} and {far}", self.near),
            (Pinning::Alone, _) => format!("on CPU {}", self.near),
            (Pinning::Together, _) | (_, None) => format!("both on CPU {}", self.near),
        }
    }
}

fn topology(cpu: usize, what: &str) -> Option<String> {
    let path = Path::new("/sys/devices/system/cpu").join(format!("cpu{cpu}/topology/{what}"));
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cpu_is_no_place_for_two() {
        let one = Placement { all: vec![3], near: 3, far: None };
        assert!(one.sides(Pinning::Apart).unwrap_err().contains("CPU 3"));
        assert!(one.sides(Pinning::Floating).is_err());
        assert_eq!(one.sides(Pinning::Together), Ok((vec![3], vec![3])));
        assert!(one.sides(Pinning::Alone).is_ok() && one.sides(Pinning::Both).is_err());
    }

    #[test]
    fn two_cpus_are_a_place_for_all() {
        let two = Placement { all: vec![0, 5], near: 0, far: Some(5) };
        assert_eq!(two.sides(Pinning::Apart), Ok((vec![0], vec![5])));
        assert_eq!(two.sides(Pinning::Floating), Ok((vec![0, 5], vec![0, 5])));
        assert_eq!(two.sides(Pinning::Both), Ok((vec![0, 5], vec![5])));
        assert_eq!(two.describe(Pinning::Apart), "client on CPU 0, server on CPU 5");
        assert_eq!(two.describe(Pinning::Alone), "on CPU 0");
    }

    #[test]
    fn the_chosen_ones_are_allowed() {
        let chosen = Placement::choose().unwrap();
        assert!(chosen.all.contains(&chosen.near));
        assert!(chosen.far.is_none_or(|far| far != chosen.near && chosen.all.contains(&far)));
    }
}
