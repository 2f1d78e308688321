//! Task signals: the smallest message between two domains (Raven, section 2).
//!
//! A signal has two words, its *kind* and its *datum*. The receiving domain has one handler for
//! each kind. A signal never blocks its sender, and none is lost:
//!
//! * A *queued* kind has credits. Its signals come one by one, in the order in which they were
//!   sent. Without a credit the sender is told so.
//! * A *coalescing* kind is a count. It is never full: the handler learns by how much the count has
//!   grown.
//!
//! The right to signal is a binding. The receiver mints it by exporting the service under a name,
//! and can revoke it.
//!
//! # Examples
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use underpass::port::signal::{SignalHandlers, SignalSender};
//!
//! /// Kinds on which both sides agree.
//! const RELOAD: u64 = 1;
//! const HITS: usize = 0;
//!
//! static TOTAL: AtomicU64 = AtomicU64::new(0);
//!
//! # let dir = std::env::temp_dir().join(format!("underpass-doc-signal-{}", std::process::id()));
//! # // SAFETY: no other thread has been started yet.
//! # unsafe { std::env::set_var("UNDERPASS_DIR", &dir) };
//! // In the receiver's process:
//! let (service, signals) = SignalHandlers::new()
//!     .on(RELOAD, |signal| println!("reload number {}", signal.datum))
//!     .on_count(HITS, |_, more| {
//!         TOTAL.fetch_add(more, Ordering::Relaxed);
//!     })
//!     .start();
//! let running = underpass::Server::new().export("signals", service).start()?;
//!
//! // In the sender's:
//! let sender = SignalSender::connect("signals")?;
//! sender.signal(RELOAD, 7)?;
//! (0..1_000).for_each(|_| drop(sender.count(HITS, 1)));
//!
//! # // The handlers run when they can.
//! while TOTAL.load(Ordering::Relaxed) < 1_000 {
//!     underpass::thread::yield_now();
//! }
//! # drop((running, signals));
//! # std::fs::remove_dir_all(dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Handlers
//! The handlers of a domain run on a user-level thread of their own, between two others, and with
//! preemption off. Each runs to its end before the next one begins. So a handler should be short,
//! and must not wait: it notes what has happened, and wakes a thread, as by
//! [`Semaphore::release`](underpass_sync::Semaphore::release). A handler that panics is reported by
//! the panic hook, and the next one runs.
//!
//! # Delivery
//! A signal goes one of Raven's three ways, and [`SignalSender::ways`] counts them:
//!
//! | the receiving domain | way |
//! |---|---|
//! | runs its handlers, or is about to look again | [`Way::Silent`]: it looks by itself. No system call |
//! | waits | [`Way::Woken`]: the sender rings, and the kernel wakes it where a processor is idle |
//! | waits, and has no processor but the sender's own | [`Way::Given`]: the sender rings, and then gives way |

mod handlers;
mod sender;
mod ways;

pub use handlers::{SignalHandlers, Signals, TaskSignal};
pub use sender::SignalSender;
pub use ways::{Way, Ways};
