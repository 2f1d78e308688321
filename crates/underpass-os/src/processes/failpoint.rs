//! Steps at which a process can be told to die, so that tests can check how its peer reacts at each
//! of them.
//!
//! They exist only under `cfg(underpass_failpoints)`, which a build must ask for. Without it
//! [`failpoint!`](macro@crate::failpoint) expands to nothing.

/// All steps, named `SIDE-STEP`.
pub const STEPS: &[&str] = &[
    "export-bound",
    "export-listening",
    "import-connected",
    "import-said",
    "import-mapped",
    "import-joined",
    "import-released",
    "greet-heard",
    "greet-made",
    "greet-welcomed",
    "greet-joined",
    "greet-told-row",
    "greet-row-closed",
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
    "interface-asked",
    "interface-opened",
    "interface-served",
    "interface-made",
    "interface-given",
    "interface-filled",
    "interface-taken",
    "interface-home",
    "interface-dropped",
    "shared-pending",
    "shared-locked",
    "shared-enrolled",
    "shared-waits",
    "shared-woken",
    "shared-unlocked",
    "shared-taken",
    "shared-signalled",
];

/// Marks a step of [`STEPS`]. If `$UNDERPASS_FAILPOINT` is `STEP:N`, the Nth pass of that step ends
/// the process by `SIGKILL`.
#[macro_export]
macro_rules! failpoint {
    ($step:literal) => {
        #[cfg(underpass_failpoints)]
        $crate::failpoint::pass($step);
    };
}

/// Records that the process has reached `step`.
///
/// # Panics
/// If `step` is not in [`STEPS`].
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
    // Relaxed: a count. A thread that passes after the deadly pass finds another number, and the
    // process is about to die.
    if let Some((deadly, left)) = plan
        && deadly == step
        && left.fetch_sub(1, Ordering::Relaxed) == 1
    {
        // A process may always kill itself, so this cannot be refused.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::hint::spin_loop();
        }
    }
}
