//! A control group that limits the memory of its processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass_tests::until;

/// The names of the files of a group, in either version.
#[derive(Debug)]
struct Files {
    limit: &'static str,
    usage: &'static str,
    /// The file in which a line says how many processes were killed.
    events: &'static str,
}

const ONE: Files =
    Files { limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes", events: "memory.oom_control" };
const TWO: Files = Files { limit: "memory.max", usage: "memory.current", events: "memory.events" };

/// A group. It is removed when dropped, once its processes have ended.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    files: &'static Files,
}

impl Group {
    /// A group of at most `bytes`. `None` if this user cannot make one.
    pub fn new(bytes: u64) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        own.lines().find_map(|line| {
            let (_, line) = line.split_once(':')?;
            let (controllers, own) = line.split_once(':')?;
            let (mount, files) = match controllers {
                "" => ("/sys/fs/cgroup", &TWO),
                "memory" => ("/sys/fs/cgroup/memory", &ONE),
                _ => return None,
            };
            let own = Path::new(mount).join(own.trim_start_matches('/'));
            // In version 2, a group has either processes or limited child groups, so a sibling is
            // made if needed.
            own.ancestors().take(2).find_map(|above| Self::inside(above, files, bytes))
        })
    }

    fn inside(above: &Path, files: &'static Files, bytes: u64) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = above.join(format!("underpass-test-{}-{next}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self { path, files };
        // Only where there is swap, and the group counts it.
        let _ = fs::write(group.path.join("memory.swap.max"), "0");
        // A file that does not exist cannot be created there.
        fs::write(group.path.join(files.limit), bytes.to_string()).ok().map(|()| group)
    }

    /// `program`, to be run in this group.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let procs = self.path.join("cgroup.procs");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(procs).arg(program);
        command
    }

    /// The bytes that are charged to the group.
    pub fn usage(&self) -> u64 {
        fs::read_to_string(self.path.join(self.files.usage)).unwrap().trim().parse().unwrap()
    }

    /// The processes of the group that the kernel has killed for their memory.
    pub fn killed(&self) -> u64 {
        let events = fs::read_to_string(self.path.join(self.files.events)).unwrap();
        events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            until("the group to be empty", || fs::remove_dir(&self.path).is_ok().then_some(()));
        }
    }
}
