//! Steps at which a process can be told to die, so that its peer's version of events can be checked
//! at each of them.
//!
//! They are there under `cfg(underpass_failpoints)` alone, which no build has that doesn't ask for
//! it; else [`failpoint!`](macro@crate::failpoint) is nothing at all.

/// Every step there is: `SIDE-STEP`.
pub const STEPS: &[&str] = &[
    "export-bound",
    "export-listening",
    "import-connected",
    "import-said",
    "import-mapped",
    "greet-heard",
    "greet-made",
    "greet-welcomed",
    "client-leased",
    "client-filled",
    "client-linked",
    "client-posted",
    "client-rung",
    "client-donated",
    "client-waiting",
    "client-delivered",
    "client-decoded",
    "client-given-back",
    "server-heard",
    "server-taken",
    "server-read",
    "server-before",
    "server-after",
    "server-filled",
    "server-replied",
    "server-rung",
    "server-returned",
    "file-made",
    "file-sent",
    "file-received",
];

/// A step of [`STEPS`] that this process has reached: where `$UNDERPASS_FAILPOINT` says `STEP:N`,
/// its Nth passing ends the process by `SIGKILL`.
#[macro_export]
macro_rules! failpoint {
    ($step:literal) => {
        #[cfg(underpass_failpoints)]
        $crate::failpoint::pass($step);
    };
}

/// The process has reached `step`.
///
/// # Panics
/// If there is no such step.
#[cfg(underpass_failpoints)]
pub fn pass(step: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    static PLAN: OnceLock<Option<(String, AtomicU64)>> = OnceLock::new();
    assert!(STEPS.contains(&step), "{step} is not among the steps");
    let plan = PLAN.get_or_init(|| {
        let plan = std::env::var("UNDERPASS_FAILPOINT").ok()?;
        let (step, times) = plan.split_once(':')?;
        Some((step.to_owned(), AtomicU64::new(times.parse().ok()?)))
    });
    // Relaxed: a count. Who comes after the last one finds another number, but not for long.
    if let Some((deadly, left)) = plan
        && deadly == step
        && left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        // It can't be refused: one's own process is there, and may be killed.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::hint::spin_loop();
        }
    }
}
