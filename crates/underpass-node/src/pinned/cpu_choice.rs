//! Which CPUs a pinned domain gets.

/// The CPUs of a domain that has `current` and is to have `processors` of `base`. It keeps those
/// that it has. What it needs beyond them are those of which `uses` says the least. A domain that
/// is to have none waits on one.
pub(crate) fn choose(
    base: &[usize],
    current: &[usize],
    processors: u32,
    uses: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let wanted = (processors.max(1) as usize).min(base.len());
    let mut chosen: Vec<usize> = base.iter().copied().filter(|cpu| current.contains(cpu)).collect();
    if chosen.len() > wanted {
        // The least used ones stay.
        chosen.sort_by_key(|&cpu| (uses(cpu), cpu));
        chosen.truncate(wanted);
    }
    let mut others: Vec<usize> = base.iter().copied().filter(|cpu| !chosen.contains(cpu)).collect();
    others.sort_by_key(|&cpu| (uses(cpu), cpu));
    chosen.extend(others.into_iter().take(wanted - chosen.len()));
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_keeps_its_cpus_and_gets_the_least_used() {
        let base = [0, 1, 2, 5];
        let uses = |cpu| if cpu == 0 { 2 } else { usize::from(cpu == 1) };
        assert_eq!(choose(&base, &base, 0, uses), [2], "it waits on one");
        assert_eq!(choose(&base, &base, 2, uses), [2, 5]);
        assert_eq!(choose(&base, &[0], 2, uses), [0, 2]);
        assert_eq!(choose(&base, &[1], 9, uses), base, "there are no more");
        assert_eq!(choose(&[], &[], 2, uses), [0; 0]);
    }
}
