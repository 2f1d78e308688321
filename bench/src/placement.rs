//! Which side runs where.

use crate::BenchError;
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
    /// Both on any CPU that this process may use, of which there are two or more.
    Floating,
    /// Both on any CPU that this process may use, however many there are.
    Any,
    /// The client on one CPU; there is no server to speak of.
    Alone,
    /// The client on two CPUs.
    Both,
    /// Each on so many CPUs of its own; with none for servers, the server on those of the client.
    Split {
        /// The client's.
        clients: usize,
        /// The server's.
        servers: usize,
    },
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
    /// All, in the order in which they are taken where many are: one of each core first, and those
    /// of the same package.
    pub order: Vec<usize>,
}

impl Placement {
    /// Takes the first CPU that this process may use, and as the other one the first that shares no
    /// core with it and is on the same package, if there is one.
    ///
    /// # Errors
    /// If the kernel doesn't tell which CPUs may be used.
    pub fn choose() -> Result<Self, BenchError> {
        let all = cpu::allowed()?;
        let &near = all.first().ok_or("the kernel allows this process no CPU; see `taskset -p $$`")?;
        let core = |cpu| topology(cpu, "thread_siblings_list");
        let package = |cpu| topology(cpu, "physical_package_id");
        let shares = |a, b| core(a).is_some() && core(a) == core(b);
        let mut order = all.clone();
        // Stable: among equals the lower number comes first, and so `near` does.
        order.sort_by_cached_key(|&cpu| {
            let earlier = all.iter().filter(|&&other| other < cpu && shares(other, cpu)).count();
            (earlier, package(cpu) != package(near))
        });
        Ok(Self { near, far: order.get(1).copied(), all, order })
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
            (Pinning::Any, _) => Ok((self.all.clone(), self.all.clone())),
            (Pinning::Split { clients, servers }, _) => self.split(clients, servers),
            (Pinning::Apart | Pinning::Floating | Pinning::Both, None) => Err(self.one_only()),
        }
    }

    fn split(&self, clients: usize, servers: usize) -> Result<(Vec<usize>, Vec<usize>), String> {
        let (needed, there) = (clients + servers, self.order.len());
        if needed > there {
            return Err(format!(
                "needs {needed} CPUs, and this process may use {there} only (see `taskset -p $$`)"
            ));
        }
        let (near, others) = self.order.split_at(clients);
        Ok((near.to_vec(), if servers == 0 { near.to_vec() } else { others[..servers].to_vec() }))
    }

    /// Why what needs two CPUs is skipped.
    pub fn one_only(&self) -> String {
        format!("needs two CPUs, and this process may use CPU {} only (see `taskset -p $$`)", self.near)
    }

    /// In words.
    pub fn describe(&self, pinning: Pinning) -> String {
        match (pinning, self.far) {
            (Pinning::Apart, Some(far)) => format!("client on CPU {}, server on CPU {far}", self.near),
            (Pinning::Floating | Pinning::Any, Some(_)) => format!("both on any of {} CPUs", self.all.len()),
            (Pinning::Split { clients, servers: 0 }, _) => format!("both on the same {}", cpus(clients)),
            (Pinning::Split { clients, servers }, _) => {
                format!("client on {}, server on {} of its own", cpus(clients), cpus(servers))
            }
            (Pinning::Both, Some(far)) => format!("on CPUs {} and {far}", self.near),
            (Pinning::Alone, _) => format!("on CPU {}", self.near),
            (Pinning::Together, _) | (_, None) => format!("both on CPU {}", self.near),
        }
    }
}

fn cpus(count: usize) -> String {
    if count == 1 { "1 CPU".into() } else { format!("{count} CPUs") }
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
        let one = Placement { all: vec![3], near: 3, far: None, order: vec![3] };
        assert!(one.sides(Pinning::Apart).unwrap_err().contains("CPU 3"));
        assert!(one.sides(Pinning::Floating).is_err());
        assert_eq!(one.sides(Pinning::Together), Ok((vec![3], vec![3])));
        assert!(one.sides(Pinning::Alone).is_ok() && one.sides(Pinning::Both).is_err());
    }

    #[test]
    fn two_cpus_are_a_place_for_all() {
        let two = Placement { all: vec![0, 5], near: 0, far: Some(5), order: vec![0, 5] };
        assert_eq!(two.sides(Pinning::Apart), Ok((vec![0], vec![5])));
        assert_eq!(two.sides(Pinning::Floating), Ok((vec![0, 5], vec![0, 5])));
        assert_eq!(two.sides(Pinning::Both), Ok((vec![0, 5], vec![5])));
        assert_eq!(two.describe(Pinning::Apart), "client on CPU 0, server on CPU 5");
        assert_eq!(two.describe(Pinning::Alone), "on CPU 0");
    }

    #[test]
    fn many_cpus_are_divided() {
        let four = Placement { all: (0..4).collect(), near: 0, far: Some(2), order: vec![0, 2, 1, 3] };
        let split = |clients, servers| four.sides(Pinning::Split { clients, servers });
        assert_eq!(split(2, 2), Ok((vec![0, 2], vec![1, 3])));
        assert_eq!(split(1, 0), Ok((vec![0], vec![0])));
        assert!(split(2, 3).unwrap_err().contains("needs 5 CPUs"));
    }

    #[test]
    fn the_chosen_ones_are_allowed() {
        let chosen = Placement::choose().unwrap();
        assert!(chosen.order[0] == chosen.near && chosen.order.len() == chosen.all.len());
        assert!(chosen.far.is_none_or(|far| far != chosen.near && chosen.all.contains(&far)));
    }
}
