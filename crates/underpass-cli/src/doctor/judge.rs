//! What a reading means: a judgement for each check, its consequence, and its remedy.

use super::reading::{NameDirectory, Reading};
use serde::Serialize;

/// How a system does in one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Judgement {
    Good,
    /// Calls work, and take longer.
    Slower,
    /// Calls work, and something protects less or holds less.
    Weaker,
    /// Calls don't work.
    Broken,
}

/// What one check has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) judgement: Judgement,
    pub(super) found: String,
    pub(super) consequence: Option<String>,
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn new(check: &'static str, judgement: Judgement, found: String) -> Self {
        Self { check, judgement, found, consequence: None, remedy: None }
    }

    pub(super) fn with(mut self, consequence: impl Into<String>, remedy: impl Into<String>) -> Self {
        (self.consequence, self.remedy) = (Some(consequence.into()), Some(remedy.into()));
        self
    }
}

/// The oldest kernel with which Underpass is tested to be whole.
const OLDEST: (u32, u32) = (5, 16);
/// Enough open files for some thousand connections, as doc/guides/deployment.md proposes.
const FILES: u64 = 8192;
/// The version of Landlock that refuses networks too (Linux 6.7).
const LANDLOCK: u32 = 4;

/// Judges a reading, check by check.
pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    vec![
        kernel(&reading.kernel),
        processors(reading.cpus, reading.quota),
        memory(&reading.memory),
        process_handles(&reading.process_handles),
        several_words(reading.several_words),
        barrier(reading.barrier),
        refuses_files(reading.refuses_files),
        namespaces(&reading.namespaces),
        landlock(&reading.landlock),
        files(reading.files),
        names(&reading.names),
    ]
}

fn kernel(release: &str) -> Finding {
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let version = parts.next().flatten().zip(parts.next().flatten());
    let good = version.is_some_and(|version| version >= OLDEST);
    let judgement = if good { Judgement::Good } else { Judgement::Weaker };
    let finding = Finding::new("kernel", judgement, format!("Linux {release}"));
    match good {
        true => finding,
        false => finding.with("Underpass is not tested here", "a kernel of 5.16 or later"),
    }
}

fn processors(cpus: usize, quota: Option<usize>) -> Finding {
    let used = quota.map_or(cpus, |quota| quota.min(cpus));
    let limited =
        if used < cpus { format!(", of {cpus} by the quota of the control group") } else { String::new() };
    let finding = |judgement| Finding::new("processors", judgement, format!("{used}{limited}"));
    match used {
        0 | 1 => finding(Judgement::Slower).with(
            "each call is two hand-overs of the processor, a few microseconds",
            "allow more CPUs (`taskset -p`, `cpu.max` of the control group), or call less often with more",
        ),
        _ => finding(Judgement::Good),
    }
}

fn memory(memory: &Result<(), String>) -> Finding {
    match memory {
        Ok(()) => Finding::new("memory", Judgement::Good, "memfd_create with seals".to_owned()),
        Err(e) => Finding::new("memory", Judgement::Broken, e.clone()).with(
            "no connection can be made",
            "allow memfd_create and fcntl(F_ADD_SEALS) in the seccomp profile, and raise `ulimit -n`",
        ),
    }
}

fn process_handles(handles: &Result<(), String>) -> Finding {
    match handles {
        Ok(()) => Finding::new("processes", Judgement::Good, "pidfd_open".to_owned()),
        Err(e) => Finding::new("processes", Judgement::Weaker, e.clone()).with(
            "a peer's process is known by its number alone, which another one may get",
            "allow pidfd_open in the seccomp profile",
        ),
    }
}

fn several_words(can: bool) -> Finding {
    match can {
        true => Finding::new("futex_waitv", Judgement::Good, "a sleep can watch several words".to_owned()),
        false => Finding::new("futex_waitv", Judgement::Slower, "a sleep can watch one word only".to_owned())
            .with(
                "a listener takes no donated processor, and a control thread looks for replies",
                "Linux 5.16 or later, and futex_waitv in the seccomp profile",
            ),
    }
}

fn barrier(has: bool) -> Finding {
    match has {
        true => Finding::new("membarrier", Judgement::Good, "barriers reach other processes".to_owned()),
        false => {
            Finding::new("membarrier", Judgement::Slower, "no barrier reaches other processes".to_owned())
                .with("each message is posted with a fence", "allow membarrier in the seccomp profile")
        }
    }
}

fn refuses_files(can: bool) -> Finding {
    match can {
        true => Finding::new("SO_PASSRIGHTS", Judgement::Good, "sockets can refuse files".to_owned()),
        false => Finding::new("SO_PASSRIGHTS", Judgement::Weaker, "sockets take any files".to_owned()).with(
            "a peer can send files that nobody asked for; a thread for its user closes them",
            "Linux 6.16 or later",
        ),
    }
}

fn namespaces(may: &Result<(), String>) -> Finding {
    match may {
        Ok(()) => Finding::new("namespaces", Judgement::Good, "this user may create them".to_owned()),
        Err(e) => Finding::new("namespaces", Judgement::Weaker, e.clone()).with(
            "a sandboxed domain keeps the namespaces of its starter, and its kernel threads are not bounded",
            "`sysctl kernel.unprivileged_userns_clone=1`, or \
             `kernel.apparmor_restrict_unprivileged_userns=0`; in a container, unshare in the seccomp profile",
        ),
    }
}

fn landlock(version: &Result<u32, String>) -> Finding {
    const REMEDY: &str = "Linux 6.7 or later with `landlock` among `lsm=` of the kernel's command line";
    match version {
        Ok(version @ LANDLOCK..) => Finding::new("landlock", Judgement::Good, format!("version {version}")),
        Ok(version) => Finding::new("landlock", Judgement::Weaker, format!("version {version}"))
            .with("only seccomp refuses sockets to a sandboxed domain", REMEDY),
        Err(e) => Finding::new("landlock", Judgement::Weaker, e.clone())
            .with("only seccomp refuses files and sockets to a sandboxed domain", REMEDY),
    }
}

fn files(most: u64) -> Finding {
    let judgement = if most < FILES { Judgement::Weaker } else { Judgement::Good };
    let finding = Finding::new("open files", judgement, format!("{most} for each process"));
    match judgement {
        Judgement::Good => finding,
        _ => finding.with(
            "each connection takes one, so a server has room for fewer clients than that",
            format!("`ulimit -n {FILES}`, or LimitNOFILE={FILES} in the systemd unit"),
        ),
    }
}

fn names(names: &NameDirectory) -> Finding {
    let place = format!("{} ({})", names.path.display(), names.why);
    match &names.sound {
        None => Finding::new("names", Judgement::Good, format!("{place}: the first server makes it")),
        Some(Ok(())) => Finding::new("names", Judgement::Good, format!("{place}: {} names", names.count)),
        Some(Err(e)) => Finding::new("names", Judgement::Broken, place).with(
            format!("no name is exported or looked up there: {e}"),
            "a directory that belongs to this user or to root, and that nobody else can write; \
             $UNDERPASS_DIR names it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn good() -> Reading {
        let path = PathBuf::from("/run/underpass");
        Reading {
            kernel: "6.18.4-generic".to_owned(),
            cpus: 4,
            quota: None,
            several_words: true,
            barrier: true,
            memory: Ok(()),
            process_handles: Ok(()),
            refuses_files: true,
            namespaces: Ok(()),
            landlock: Ok(7),
            files: 65_536,
            names: NameDirectory { path, why: "it is root's", sound: Some(Ok(())), count: 3 },
        }
    }

    /// The findings that are not good.
    fn odd(change: impl FnOnce(&mut Reading)) -> Vec<(&'static str, Judgement)> {
        let mut reading = good();
        change(&mut reading);
        let odd: Vec<_> =
            findings(&reading).into_iter().filter(|of| of.judgement != Judgement::Good).collect();
        assert!(odd.iter().all(|of| of.consequence.is_some() && of.remedy.is_some()), "{odd:?}");
        odd.iter().map(|of| (of.check, of.judgement)).collect()
    }

    #[test]
    fn each_lack_has_its_verdict_and_a_remedy() {
        let refused = || Err::<(), _>("Operation not permitted".to_owned());
        assert_eq!(odd(|_| {}), []);
        assert_eq!(odd(|of| of.kernel = "5.15.0".to_owned()), [("kernel", Judgement::Weaker)]);
        assert_eq!(odd(|of| of.kernel = "unknown: none".to_owned()), [("kernel", Judgement::Weaker)]);
        assert_eq!(odd(|of| of.cpus = 1), [("processors", Judgement::Slower)]);
        assert_eq!(odd(|of| of.quota = Some(1)), [("processors", Judgement::Slower)]);
        assert_eq!(odd(|of| of.several_words = false), [("futex_waitv", Judgement::Slower)]);
        assert_eq!(odd(|of| of.barrier = false), [("membarrier", Judgement::Slower)]);
        assert_eq!(odd(|of| of.memory = refused()), [("memory", Judgement::Broken)]);
        assert_eq!(odd(|of| of.process_handles = refused()), [("processes", Judgement::Weaker)]);
        assert_eq!(odd(|of| of.refuses_files = false), [("SO_PASSRIGHTS", Judgement::Weaker)]);
        assert_eq!(odd(|of| of.namespaces = refused()), [("namespaces", Judgement::Weaker)]);
        assert_eq!(odd(|of| of.landlock = Ok(3)), [("landlock", Judgement::Weaker)]);
        assert_eq!(odd(|of| of.landlock = Err("none".to_owned())), [("landlock", Judgement::Weaker)]);
        assert_eq!(odd(|of| of.files = 1024), [("open files", Judgement::Weaker)]);
        assert_eq!(odd(|of| of.names.sound = Some(refused())), [("names", Judgement::Broken)]);
        assert_eq!(odd(|of| of.names.sound = None), []);
    }

    #[test]
    fn a_quota_is_told_beside_the_cpus() {
        assert_eq!(processors(4, Some(2)).found, "2, of 4 by the quota of the control group");
        assert_eq!(processors(4, Some(8)).found, "4");
    }
}
