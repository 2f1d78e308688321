//! The layer that hears which spans are entered.

use crate::entered::{self, Entered};
use std::sync::OnceLock;
use tracing::dispatcher::WeakDispatch;
use tracing::span::Id;
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Where a subscriber is reached. One for each [`Follow`], for ever.
pub(crate) type Link = OnceLock<WeakDispatch>;

/// A layer by which the spans of a subscriber follow the user-level thread. See the [crate]'s
/// documentation.
///
/// The layers beside it see each switch: the spans of the thread that is switched out are exited,
/// the innermost first, and entered again when it goes on. The scheduler waits meanwhile. A layer
/// that then waits for a lock, a channel or a call of Underpass, or panics, ends the process with a
/// message; see [`Switches`](underpass_threads::Switches). *Remedy:* a lock of `std` that is held
/// for moments, or a queue that is emptied elsewhere.
///
/// Spans are not seen in [`blocking`](underpass_threads::blocking) calls that run on a spare kernel
/// thread, and a subscriber that is the default only of a scope (`with_default`) is that of its
/// kernel thread: use a global one.
#[derive(Debug)]
pub struct Follow {
    link: &'static Link,
}

impl Follow {
    /// One, for one subscriber. From now on the scheduler tells of each switch, which makes
    /// switches dearer.
    ///
    /// # Panics
    /// If the program watches switches in another way already
    /// (`underpass_threads::watch_switches`).
    pub fn new() -> Self {
        entered::watch();
        // A subscriber mostly lives as long as the program; of others a few bytes stay.
        Self { link: Box::leak(Box::default()) }
    }
}

impl Default for Follow {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Subscriber> Layer<S> for Follow {
    fn on_register_dispatch(&self, subscriber: &Dispatch) {
        // It is registered once.
        let _ = self.link.set(subscriber.downgrade());
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        entered::push(Entered { link: self.link, id: id.clone() });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        entered::remove(self.link, id);
    }
}
