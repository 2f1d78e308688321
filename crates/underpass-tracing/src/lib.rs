//! Spans of [`tracing`] that follow the user-level thread.
//!
//! Subscribers keep the spans that are entered by kernel thread. User-level threads share one, so
//! without help the spans of one thread would be another's as soon as they are switched.
//! [`Follow`], a layer beside any others, exits a thread's spans when it is switched out and enters
//! them again when it goes on, be it on another kernel thread:
//! [`Span::current`](tracing::Span::current), the spans of events, and times that a layer takes
//! between enter and exit are right.
//!
//! *Decides:* which spans are whose, and moves them at each switch.
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
