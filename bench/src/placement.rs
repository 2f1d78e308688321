//! Chooses the CPUs of client and server.

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
    /// Both on any CPU that this process may use. There are at least two.
    Floating,
    /// Both on any CPU that this process may use, even if there is only one.
    Any,
    /// The client on one CPU. The server does nothing in such a scenario.
    Alone,
    /// The client on two CPUs.
    Both,
    /// Each side has that many CPUs of its own. If the servers have none, the server runs on the
    /// client's.
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
    /// All usable CPUs, ascending.
    pub all: Vec<usize>,
    /// The client's CPU, where it is pinned.
    pub near: usize,
    /// The server's CPU, where it is pinned to another one. `None` if there is only one CPU.
    pub far: Option<usize>,
    /// All CPUs in the order in which they are taken: first one of each core, and first those of
    /// the same package.
    pub order: Vec<usize>,
}

impl Placement {
    /// Takes the first CPU that this process may use. As the other CPU it takes the first one of
    /// the same package that shares no core with it, if there is one.
    ///
    /// # Errors
    /// If the kernel does not say which CPUs may be used.
    pub fn choose() -> Result<Self, BenchError> {
        let all = cpu::allowed()?;
        let &near = all.first().ok_or("the kernel allows this process no CPU; see `taskset -p $$`")?;
        let core = |cpu| topology(cpu, "thread_siblings_list");
        let package = |cpu| topology(cpu, "physical_package_id");
        let shares = |a, b| core(a).is_some() && core(a) == core(b);
        let mut order = all.clone();
        // The sort is stable: among equals the lower number comes first, and so `near` comes first.
        order.sort_by_cached_key(|&cpu| {
            let earlier = all.iter().filter(|&&other| other < cpu && shares(other, cpu)).count();
            (earlier, package(cpu) != package(near))
        });
        Ok(Self { near, far: order.get(1).copied(), all, order })
    }

    /// The CPUs of the client and of the server.
    ///
    /// # Errors
    /// The reason, if the placement needs two CPUs and there is one.
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

    /// The reason for skipping what needs two CPUs.
    pub fn one_only(&self) -> String {
        format!("needs two CPUs, and this process may use CPU {} only (see `taskset -p $$`)", self.near)
    }

    fn describe_split(&self, clients: usize, servers: usize) -> String {
        let count = |count: usize| if count == 1 { "1 CPU".into() } else { format!("{count} CPUs") };
        let Some(taken) = self.order.get(..clients + servers) else {
            return format!("client on {}, server on {}", count(clients), count(servers));
        };
        let (near, far) = taken.split_at(clients);
        let cores = cores(taken, |cpu| topology(cpu, "thread_siblings_list"));
        match servers {
            0 => format!("both on {}{cores}", named(near)),
            _ => format!("client on {}, server on {}{cores}", named(near), named(far)),
        }
    }

    /// Describes the placement.
    pub fn describe(&self, pinning: Pinning) -> String {
        match (pinning, self.far) {
            (Pinning::Apart, Some(far)) => format!("client on CPU {}, server on CPU {far}", self.near),
            (Pinning::Floating | Pinning::Any, Some(_)) => format!("both on any of {} CPUs", self.all.len()),
            (Pinning::Split { clients, servers }, _) => self.describe_split(clients, servers),
            (Pinning::Both, Some(far)) => format!("on CPUs {} and {far}", self.near),
            (Pinning::Alone, _) => format!("on CPU {}", self.near),
            (Pinning::Together, _) | (_, None) => format!("both on CPU {}", self.near),
        }
    }
}

/// The CPUs by their numbers.
fn named(cpus: &[usize]) -> String {
    match cpus {
        [cpu] => format!("CPU {cpu}"),
        cpus => {
            let cpus: Vec<_> = cpus.iter().map(usize::to_string).collect();
            format!("CPUs {}", cpus.join(", "))
        }
    }
}

/// Whether each of several CPUs has a core to itself, where `core` knows the core of each.
fn cores(cpus: &[usize], core: impl Fn(usize) -> Option<String>) -> String {
    let all: Option<Vec<String>> = cpus.iter().map(|&cpu| core(cpu)).collect();
    let Some(mut all) = all.filter(|_| cpus.len() > 1) else { return String::new() };
    all.sort_unstable();
    all.dedup();
    match all.len() {
        cores if cores == cpus.len() => ", a core each".into(),
        1 => ", threads of one core".into(),
        cores => format!(", threads of {cores} cores"),
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
    fn the_cpus_of_each_side_are_named() {
        let four = Placement { all: (0..4).collect(), near: 0, far: Some(2), order: vec![0, 2, 1, 3] };
        let split = |clients, servers| four.describe(Pinning::Split { clients, servers });
        assert!(split(1, 0).starts_with("both on CPU 0"), "{}", split(1, 0));
        assert!(split(2, 1).starts_with("client on CPUs 0, 2, server on CPU 1"), "{}", split(2, 1));
        assert_eq!(split(8, 1), "client on 8 CPUs, server on 1 CPU", "there are too few");
        let core = |cpu: usize| Some(format!("{}", cpu % 2));
        assert_eq!(cores(&[0, 1], core), ", a core each");
        assert_eq!(cores(&[0, 2], core), ", threads of one core");
        assert_eq!(cores(&[0, 1, 2], core), ", threads of 2 cores");
        assert_eq!((cores(&[0, 1], |_| None), cores(&[0], core)), (String::new(), String::new()));
    }

    #[test]
    fn the_chosen_ones_are_allowed() {
        let chosen = Placement::choose().unwrap();
        assert!(chosen.order[0] == chosen.near && chosen.order.len() == chosen.all.len());
        assert!(chosen.far.is_none_or(|far| far != chosen.near && chosen.all.contains(&far)));
    }
}
