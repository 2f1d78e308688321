//! Spans of [`tracing`] that follow the user-level thread.
//!
//! Subscribers keep the entered spans for each kernel thread. User-level threads share a kernel
//! thread, so without help a switch would hand one thread's spans to another. [`Follow`] is a layer
//! beside any others. It exits a thread's spans when the thread is switched out, and enters them
//! again when it continues, on whichever kernel thread. So
//! [`Span::current`](tracing::Span::current), the spans of events, and times between enter and exit
//! are right.
//!
//! *Decides:* which spans belong to which thread, and moves them at each switch.
//!
//! *Must not know:* what is done with spans and events; how threads are switched.
//!
//! *Read first:* `follow.rs`.
//!
//! # Examples
//! ```
//! use tracing_subscriber::prelude::*;
//! tracing_subscriber::registry().with(underpass_tracing::Follow::new()).init();
//! let thread = underpass_threads::spawn(|| {
//!     let _work = tracing::info_span!("work").entered();
//!     underpass_threads::yield_now();
//!     assert_eq!(tracing::Span::current().metadata().unwrap().name(), "work");
//! });
//! thread.join().unwrap();
//! assert!(tracing::Span::current().is_none());
//! ```

#![forbid(unsafe_code)]

mod entered;
mod follow;

pub use follow::Follow;
