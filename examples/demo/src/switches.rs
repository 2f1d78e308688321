//! How often kernel threads fell asleep, by the kernel's own count.

use std::fs;

/// The voluntary context switches of this kernel thread since its start. 0 where `/proc` does not
/// say.
pub fn of_this_thread() -> u64 {
    fs::read_to_string("/proc/thread-self/status").map_or(0, |status| voluntary(&status))
}

/// The same for all kernel threads of this process that are alive.
pub fn of_this_process() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok())
        .map(|status| voluntary(&status))
        .sum()
}

fn voluntary(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_sleep_is_counted() {
        let before = of_this_thread();
        std::thread::sleep(Duration::from_millis(2));
        assert!(of_this_thread() > before);
        assert!(of_this_process() > before);
    }

    #[test]
    fn the_line_is_found() {
        assert_eq!(voluntary("Name:\tx\nvoluntary_ctxt_switches:\t42\nnonvoluntary_ctxt_switches:\t7\n"), 42);
        assert_eq!(voluntary(""), 0);
    }
}
