//! The activations of a domain: kernel threads that run what threads implement.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass_os::cpu;

/// What runs on an activation.
pub trait Upcall: Send + Sync {
    /// Runs on the activation of this number for ever.
    fn activate(&self, number: usize);
}

/// The activations of this domain.
#[derive(Debug)]
pub struct Pool {
    most: usize,
    /// Activations that aren't asleep. Each counts itself.
    running: AtomicU32,
}

static WANTED: AtomicU32 = AtomicU32::new(0);
static POOL: OnceLock<Pool> = OnceLock::new();

impl Pool {
    /// Asks for `processors` activations instead of one for each CPU that this domain may use.
    ///
    /// Effective only before the first thread is spawned or the first interface is exported; says whether it was.
    pub fn configure(processors: u32) -> bool {
        WANTED.store(processors, Ordering::Relaxed);
        POOL.get().is_none()
    }

    /// This domain's; starts the activations if they aren't yet.
    ///
    /// The number is [`configure`](Self::configure)d, else `$UNDERPASS_PROCESSORS`, else that of the CPUs in the affinity of
    /// the kernel thread that comes here first.
    ///
    /// # Panics
    /// If the kernel gives no kernel thread.
    pub fn start(upcall: &'static dyn Upcall) -> &'static Pool {
        let mut new = false;
        let pool = POOL.get_or_init(|| {
            new = true;
            let most = wanted();
            Pool { most, running: AtomicU32::new(most as u32) }
        });
        if new {
            for number in 0..pool.most {
                std::thread::Builder::new()
                    .name(format!("activation-{number}"))
                    .spawn(move || {
                        // Threads that live here would never run again, and others wait for them.
                        let ended = catch_unwind(AssertUnwindSafe(|| upcall.activate(number)));
                        eprintln!(
                            "underpass: activation {number} ended ({}); aborting",
                            if ended.is_ok() { "returned" } else { "panicked" }
                        );
                        std::process::abort();
                    })
                    .expect("the kernel gives no kernel thread for an activation; see `ulimit -u`");
            }
        }
        pool
    }

    /// Whether the activations were started.
    pub fn started() -> bool {
        POOL.get().is_some()
    }

    /// Activations in all.
    pub fn most(&self) -> usize {
        self.most
    }

    /// An activation goes to sleep; says whether it was the last that ran.
    pub fn retire(&self) -> bool {
        // SYNC with `running` fetch_add in `resume`: of two that retire, one knows that it is the last.
        self.running.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// An activation runs again.
    pub fn resume(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }
}

fn wanted() -> usize {
    let configured = WANTED.load(Ordering::Relaxed) as usize;
    let set = || std::env::var("UNDERPASS_PROCESSORS").ok()?.parse::<usize>().ok();
    let allowed = || cpu::allowed().map_or(1, |cpus| cpus.len());
    match configured {
        0 => set().filter(|&n| n > 0).unwrap_or_else(allowed).max(1),
        n => n,
    }
}
