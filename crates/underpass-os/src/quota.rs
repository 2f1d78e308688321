//! How many CPUs' worth of time the control groups of this process grant it.

mod mounts;

use mounts::{Mount, Version};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The CPUs' worth of time that this process may use, rounded up: the least that its control group
/// and all groups above it grant.
///
/// Nothing if none sets a quota, or none can be read.
///
/// # Examples
/// ```
/// assert!(underpass_os::quota::processors().is_none_or(|n| n > 0));
/// ```
pub fn processors() -> Option<usize> {
    processors_at(Path::new("/proc/self"), Path::new("/"))
}

/// As [`processors`], with `proc_self` in the place of `/proc/self`, and mount points looked for
/// below `root`.
pub fn processors_at(proc_self: &Path, root: &Path) -> Option<usize> {
    let groups = fs::read_to_string(proc_self.join("cgroup")).ok()?;
    let mounts = fs::read_to_string(proc_self.join("mountinfo")).ok()?;
    let mounts: Vec<Mount> = mounts.lines().filter_map(mounts::parse).collect();
    let least = |at: fn(&Path, &Path) -> Option<PathBuf>| {
        mounts.iter().filter_map(|mount| least(mount, &groups, root, at)).min()
    };
    let seen = mounts
        .iter()
        .any(|mount| group(&groups, mount.version).is_some_and(|ours| inside(ours, &mount.root).is_some()));
    // Where a container sees paths of its host, our group lies below no mount: the tops are the
    // nearest that we can see.
    if seen { least(inside) } else { least(|_, _| Some(PathBuf::new())) }
}

/// The least that the groups grant that lie on the way from ours, which is `at` that place below
/// `mount`, up to the mount point.
fn least(mount: &Mount, groups: &str, root: &Path, at: fn(&Path, &Path) -> Option<PathBuf>) -> Option<usize> {
    let below = at(group(groups, mount.version)?, &mount.root)?;
    let top = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
    // A path is its own first ancestor; above the mount point there are no groups any more.
    below.ancestors().filter_map(|group| granted(&top.join(group), mount.version)).min()
}

/// The path of our group in the hierarchy of `version`: a line is `ID:CONTROLLERS:PATH`.
fn group(groups: &str, version: Version) -> Option<&Path> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let wanted = match version {
            Version::Two => id == "0" && controllers.is_empty(),
            Version::One => controllers.split(',').any(|name| name == "cpu"),
        };
        wanted.then(|| Path::new(path))
    })
}

/// Where the group `ours` lies below a mount whose top is the group `root`, if it does.
fn inside(ours: &Path, root: &Path) -> Option<PathBuf> {
    let below = ours.strip_prefix(root).ok()?;
    below.components().all(|part| matches!(part, Component::Normal(_))).then(|| below.to_path_buf())
}

/// What the group of this directory grants by itself.
fn granted(group: &Path, version: Version) -> Option<usize> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let (quota, period) = match version {
        Version::Two => {
            let both = read("cpu.max")?;
            let mut words = both.split_whitespace();
            // "max" is no number, and no quota.
            (words.next()?.parse::<u64>().ok()?, words.next()?.parse::<u64>().ok()?)
        }
        Version::One => {
            // -1 is no quota.
            let quota = read("cpu.cfs_quota_us")?.trim().parse::<u64>().ok()?;
            (quota, read("cpu.cfs_period_us")?.trim().parse::<u64>().ok()?)
        }
    };
    let processors = quota.checked_add(period.checked_sub(1)?)? / period;
    Some(usize::try_from(processors).ok()?.max(1))
}

#[cfg(test)]
mod tests;
