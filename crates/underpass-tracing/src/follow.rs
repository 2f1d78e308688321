//! The layer that records which spans are entered.

use crate::entered::{self, Entered};
use std::sync::OnceLock;
use tracing::dispatcher::WeakDispatch;
use tracing::span::Id;
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The way to a subscriber. There is one for each [`Follow`], for ever.
pub(crate) type Link = OnceLock<WeakDispatch>;

/// A layer that makes the spans of a subscriber follow the user-level thread. See the documentation
/// of the [crate].
///
/// Other layers see each switch: the spans of the thread that is switched out are exited, innermost
/// first, and are entered again when it continues. The scheduler waits meanwhile. If a layer then
/// waits for a lock, a channel or a call of Underpass, or panics, the process ends with a message;
/// see [`Switches`](underpass_threads::Switches). *Remedy:* use a lock of `std` that is held
/// briefly, or a queue that is emptied elsewhere.
///
/// [`blocking`](underpass_threads::blocking) calls that run on a spare kernel thread see no spans.
/// A subscriber that is the default only of a scope (`with_default`) belongs to its kernel thread:
/// use a global one.
#[derive(Debug)]
pub struct Follow {
    link: &'static Link,
}

impl Follow {
    /// A layer for one subscriber. From now on the scheduler reports each switch, which makes
    /// switches more expensive.
    ///
    /// # Panics
    /// If the program watches switches in another way already
    /// (`underpass_threads::watch_switches`).
    pub fn new() -> Self {
        entered::watch();
        // A subscriber mostly lives as long as the program. If it does not, this leaks a few bytes.
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
        // The layer is registered once.
        let _ = self.link.set(subscriber.downgrade());
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        entered::push(Entered { link: self.link, id: id.clone() });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        entered::remove(self.link, id);
    }
}
