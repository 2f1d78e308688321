//! Which processes are in which pinned domain.

use std::collections::{HashMap, HashSet};
use underpass_os::ProcessEntry;

/// The processes of one survey, by number and by parent.
#[derive(Debug, Default)]
pub(crate) struct ProcessTree {
    by_pid: HashMap<u32, ProcessEntry>,
    children: HashMap<u32, Vec<u32>>,
}

impl ProcessTree {
    pub(crate) fn new(table: Vec<ProcessEntry>) -> Self {
        let mut tree = Self::default();
        for process in table {
            tree.children.entry(process.parent).or_default().push(process.pid);
            tree.by_pid.insert(process.pid, process);
        }
        tree
    }

    pub(crate) fn find(&self, pid: u32) -> Option<&ProcessEntry> {
        self.by_pid.get(&pid)
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.by_pid.keys().copied()
    }

    /// The processes below these ones, without themselves. Those in `walls` and what is below them
    /// are left out.
    fn below(&self, roots: impl IntoIterator<Item = u32>, walls: &HashSet<u32>) -> HashSet<u32> {
        let mut found = HashSet::new();
        let mut next: Vec<u32> = roots.into_iter().collect();
        while let Some(pid) = next.pop() {
            for &child in self.children.get(&pid).into_iter().flatten() {
                if !walls.contains(&child) && found.insert(child) {
                    next.push(child);
                }
            }
        }
        found
    }

    /// Those of `pids` above which there is none of them.
    pub(crate) fn topmost(&self, pids: &HashSet<u32>) -> usize {
        pids.iter().filter(|&&pid| !self.is_below_one(pid, pids)).count()
    }

    fn is_below_one(&self, pid: u32, pids: &HashSet<u32>) -> bool {
        let mut at = pid;
        // A table that was read while processes began and ended may have a circle.
        for _ in 0..self.by_pid.len() {
            let Some(process) = self.by_pid.get(&at) else { return false };
            at = process.parent;
            if pids.contains(&at) {
                return true;
            }
        }
        false
    }
}

/// The processes of a pinned domain, each with its start: the number alone may be a later one's.
#[derive(Debug, Default)]
pub(crate) struct DomainMembers(HashMap<u32, u64>);

impl DomainMembers {
    /// Finds them anew: those that were there and live, and all below them and below `roots`.
    /// `walls` are other domains. With `with_roots`, the roots are members themselves.
    pub(crate) fn find(
        &mut self,
        tree: &ProcessTree,
        roots: &HashSet<u32>,
        with_roots: bool,
        walls: &HashSet<u32>,
    ) {
        self.0.retain(|pid, started| {
            tree.find(*pid).is_some_and(|now| now.started == *started) && !walls.contains(pid)
        });
        let tops: HashSet<u32> = self.0.keys().chain(roots).copied().collect();
        let mut found = tree.below(tops, walls);
        if with_roots {
            found.extend(roots.iter().filter(|pid| !walls.contains(pid)));
        }
        let named = found.into_iter().filter_map(|pid| Some((pid, tree.find(pid)?.started)));
        self.0.extend(named);
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }

    pub(crate) fn contains(&self, pid: u32) -> bool {
        self.0.contains_key(&pid)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Those that are the same processes still.
    pub(crate) fn living(&self) -> impl Iterator<Item = u32> {
        let lives = |pid: u32, started: u64| {
            underpass_os::process_table::find(pid).is_some_and(|now| now.started == started)
        };
        self.0.iter().filter(move |&(&pid, &started)| lives(pid, started)).map(|(&pid, _)| pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(parents: &[(u32, u32)]) -> ProcessTree {
        let entry = |&(pid, parent)| ProcessEntry {
            pid,
            parent,
            started: u64::from(pid) * 10,
            threads: 1,
            is_first_ready: false,
        };
        ProcessTree::new(parents.iter().map(entry).collect())
    }

    fn sorted(members: &DomainMembers) -> Vec<u32> {
        let mut pids: Vec<u32> = members.pids().collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn members_stay_until_they_end_whatever_their_parents_do() {
        let (mut members, none) = (DomainMembers::default(), HashSet::new());
        let root = HashSet::from([5]);
        members.find(&tree(&[(5, 1), (6, 5), (7, 6), (8, 1)]), &root, false, &none);
        assert_eq!(sorted(&members), [6, 7]);
        // The root and 6 have ended: 7 is another's child now, and has begun 9.
        members.find(&tree(&[(7, 1), (8, 1), (9, 7)]), &root, false, &none);
        assert_eq!(sorted(&members), [7, 9]);
        // Another process has the number 9.
        let mut later = tree(&[(7, 1)]);
        later.by_pid.insert(9, ProcessEntry { started: 1, ..*tree(&[(9, 1)]).find(9).unwrap() });
        members.find(&later, &root, false, &none);
        assert_eq!(sorted(&members), [7]);
    }

    #[test]
    fn another_domain_is_a_wall() {
        let mut members = DomainMembers::default();
        let processes = tree(&[(5, 1), (6, 5), (7, 6), (8, 5)]);
        members.find(&processes, &HashSet::from([5]), true, &HashSet::from([6]));
        assert_eq!(sorted(&members), [5, 8]);
        members.find(&processes, &HashSet::from([5]), true, &HashSet::from([5]));
        assert_eq!(sorted(&members), [6, 7, 8], "what was below it stays");
    }

    #[test]
    fn clients_that_others_have_started_are_not_counted() {
        let processes = tree(&[(5, 1), (6, 5), (7, 6), (8, 1), (9, 9)]);
        assert_eq!(processes.topmost(&HashSet::from([5, 7, 8])), 2);
        assert_eq!(processes.topmost(&HashSet::from([9])), 0, "a circle ends");
    }
}
