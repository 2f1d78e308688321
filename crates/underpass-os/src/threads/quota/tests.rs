//! Quotas in made trees.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory in the place of `/`, with `proc/self` in it.
struct Tree {
    root: PathBuf,
}

impl Tree {
    fn new(cgroup: &str, mountinfo: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("underpass-quota-{}-{number}", std::process::id()));
        let tree = Self { root };
        tree.write("proc/self/cgroup", cgroup);
        tree.write("proc/self/mountinfo", mountinfo);
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn processors(&self) -> Option<usize> {
        processors_at(&self.root.join("proc/self"), &self.root)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).unwrap();
    }
}

const TWO: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

#[test]
fn a_quota_is_rounded_up() {
    let tree = Tree::new("0::/app\n", TWO);
    for (text, processors) in [
        ("150000 100000\n", Some(2)),
        ("200000 100000\n", Some(2)),
        ("200001 100000\n", Some(3)),
        ("1000 100000\n", Some(1)),
        ("0 100000\n", Some(1)),
        ("max 100000\n", None),
        ("100000 0\n", None),
        ("100000\n", None),
        ("nonsense\n", None),
        ("", None),
    ] {
        tree.write("sys/fs/cgroup/app/cpu.max", text);
        assert_eq!(tree.processors(), processors, "{text:?}");
    }
}

#[test]
fn every_group_above_counts() {
    let tree = Tree::new("0::/a/b/c\n", TWO);
    tree.write("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    assert_eq!(tree.processors(), None);
    tree.write("sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
    assert_eq!(tree.processors(), Some(8));
    tree.write("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
    assert_eq!(tree.processors(), Some(3));
    tree.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_eq!(tree.processors(), Some(2));
    tree.write("sys/fs/cgroup/a/b/c/cpu.max", "50000 100000\n");
    assert_eq!(tree.processors(), Some(1));
    // Beside the way up.
    tree.write("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    tree.write("sys/fs/cgroup/a/x/cpu.max", "100000 100000\n");
    tree.write("cpu.max", "100000 100000\n");
    assert_eq!(tree.processors(), Some(2));
}

#[test]
fn version_one() {
    let tree = Tree::new(
        "5:cpuset:/other\n3:cpu,cpuacct:/app/one\n",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
         32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
         33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
    );
    assert_eq!(tree.processors(), None);
    let groups = "sys/fs/cgroup/cpu,cpuacct/app";
    tree.write(&format!("{groups}/one/cpu.cfs_quota_us"), "-1\n");
    tree.write(&format!("{groups}/one/cpu.cfs_period_us"), "100000\n");
    assert_eq!(tree.processors(), None);
    tree.write(&format!("{groups}/cpu.cfs_quota_us"), "250000\n");
    assert_eq!(tree.processors(), None, "without a period it is no quota");
    tree.write(&format!("{groups}/cpu.cfs_period_us"), "100000\n");
    assert_eq!(tree.processors(), Some(3));
    tree.write(&format!("{groups}/one/cpu.cfs_quota_us"), "50000\n");
    assert_eq!(tree.processors(), Some(1));
}

#[test]
fn hybrid() {
    // The controller is in version 1, and the hierarchy of version 2 has none of its files.
    let tree = Tree::new(
        "4:cpu:/v1\n0::/v2\n",
        "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
    );
    tree.write("sys/fs/cgroup/unified/v2/cgroup.procs", "1\n");
    tree.write("sys/fs/cgroup/cpu/v1/cpu.cfs_quota_us", "400000\n");
    tree.write("sys/fs/cgroup/cpu/v1/cpu.cfs_period_us", "100000\n");
    assert_eq!(tree.processors(), Some(4));
}

#[test]
fn a_namespace_hides_what_is_above() {
    let tree = Tree::new("0::/\n", TWO);
    tree.write("sys/fs/cgroup/cpu.max", "150000 50000\n");
    assert_eq!(tree.processors(), Some(3));
}

#[test]
fn a_container_without_a_namespace_sees_its_hosts_paths() {
    let mounts = "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n";
    let tree = Tree::new("0::/docker/abc/inner\n", mounts);
    tree.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_eq!(tree.processors(), Some(2));
    tree.write("sys/fs/cgroup/inner/cpu.max", "100000 100000\n");
    assert_eq!(tree.processors(), Some(1));
    // Not seen: not even by its own path.
    tree.write("proc/self/cgroup", "0::/docker/xyz\n");
    tree.write("sys/fs/cgroup/docker/xyz/cpu.max", "100000 100000\n");
    assert_eq!(tree.processors(), Some(2));
}

#[test]
fn a_process_outside_of_its_namespace() {
    let tree = Tree::new("0::/../../other\n", TWO);
    tree.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
    tree.write("sys/other/cpu.max", "100000 100000\n");
    assert_eq!(tree.processors(), Some(2));
    tree.write("proc/self/mountinfo", "30 23 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    assert_eq!(tree.processors(), Some(2));
}

#[test]
fn a_mount_elsewhere_with_a_strange_name() {
    let mounts = "30 23 0:26 /my\\040group /mnt/c\\040g\\134 rw - cgroup2 none rw\n";
    let tree = Tree::new("0::/my group/a:b\n", mounts);
    tree.write("mnt/c g\\/a:b/cpu.max", "500000 100000\n");
    assert_eq!(tree.processors(), Some(5));
}

#[test]
fn groups_of_others_that_are_mounted_too_do_not_count() {
    let mounts = format!("{TWO}99 23 0:26 /docker/abc /mnt/abc rw - cgroup2 cgroup2 rw\n");
    let tree = Tree::new("0::/app\n", &mounts);
    tree.write("sys/fs/cgroup/app/cpu.max", "400000 100000\n");
    tree.write("mnt/abc/cpu.max", "100000 100000\n");
    assert_eq!(tree.processors(), Some(4));
}

#[test]
fn nothing_to_read_is_no_quota() {
    let tree = Tree::new("", "");
    assert_eq!(tree.processors(), None);
    assert_eq!(processors_at(&tree.root.join("nowhere"), &tree.root), None);
}
