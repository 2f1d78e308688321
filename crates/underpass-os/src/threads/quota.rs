//! The processor time that the control groups of this process grant, in CPUs.

mod mounts;

use mounts::{Mount, Version};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The processor time that this process may use, in CPUs and rounded up. This is the least that its
/// control group and all groups above it grant.
///
/// `None` if no group sets a quota, or none can be read.
///
/// # Examples
/// ```
/// assert!(underpass_os::quota::processors().is_none_or(|n| n > 0));
/// ```
pub fn processors() -> Option<usize> {
    processors_at(Path::new("/proc/self"), Path::new("/"))
}

/// As [`processors`], with `proc_self` in the place of `/proc/self`. Mount points are looked up
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
    // In a container that sees paths of its host, our group lies below no mount. The mounted tops
    // are then the nearest groups that we can see.
    if seen { least(inside) } else { least(|_, _| Some(PathBuf::new())) }
}

/// The least quota of the groups from ours up to the mount point. `at` says where our group lies
/// below `mount`.
fn least(mount: &Mount, groups: &str, root: &Path, at: fn(&Path, &Path) -> Option<PathBuf>) -> Option<usize> {
    let below = at(group(groups, mount.version)?, &mount.root)?;
    let top = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
    // A path is its own first ancestor. Above the mount point there are no groups.
    below.ancestors().filter_map(|group| granted(&top.join(group), mount.version)).min()
}

/// The path of our group in the hierarchy of `version`. A line is `ID:CONTROLLERS:PATH`.
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

/// The place of the group `ours` below a mount whose top is the group `root`, if it lies below it.
fn inside(ours: &Path, root: &Path) -> Option<PathBuf> {
    let below = ours.strip_prefix(root).ok()?;
    below.components().all(|part| matches!(part, Component::Normal(_))).then(|| below.to_path_buf())
}

/// The quota that the group of this directory sets itself.
fn granted(group: &Path, version: Version) -> Option<usize> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let (quota, period) = match version {
        Version::Two => {
            let both = read("cpu.max")?;
            let mut words = both.split_whitespace();
            // "max" is not a number, and means no quota.
            (words.next()?.parse::<u64>().ok()?, words.next()?.parse::<u64>().ok()?)
        }
        Version::One => {
            // -1 means no quota.
            let quota = read("cpu.cfs_quota_us")?.trim().parse::<u64>().ok()?;
            (quota, read("cpu.cfs_period_us")?.trim().parse::<u64>().ok()?)
        }
    };
    let processors = quota.checked_add(period.checked_sub(1)?)? / period;
    Some(usize::try_from(processors).ok()?.max(1))
}

#[cfg(test)]
mod tests;
