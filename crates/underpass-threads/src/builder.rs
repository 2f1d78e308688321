//! Starting a thread.

use crate::handle::{Info, JoinHandle, Packet, Thread};
use crate::outside::{self, Start};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A thread to be started.
///
/// # Examples
/// ```
/// let thread = underpass_threads::Builder::new().name("editor").spawn(|| 1 + 1)?;
/// assert_eq!(thread.thread().name(), Some("editor"));
/// assert_eq!(thread.join().unwrap(), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
}

impl Builder {
    /// A thread without a name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names it; [`current`](crate::current) and panics tell the name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Starts it on one of this domain's activations. URPC's `FORK` (section 4.1).
    ///
    /// It gets its stack when it first runs. Until then any activation may take it; from then on it stays where it is.
    ///
    /// # Errors
    /// None at present; the signature is that of `std`.
    pub fn spawn<F, T>(self, body: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let info = Info::new(self.name);
        let packet = Packet::new();
        let filled = packet.clone();
        let run = Box::new(move || filled.fill(catch_unwind(AssertUnwindSafe(body))));
        outside::submit(Start { info: Arc::clone(&info), run });
        Ok(JoinHandle { packet, thread: Thread { info } })
    }
}

/// Starts a thread without a name. See [`Builder::spawn`].
///
/// # Panics
/// Never at present; `std`'s does where no thread can be had.
///
/// # Examples
/// ```
/// let threads: Vec<_> = (0..10).map(|i| underpass_threads::spawn(move || i * i)).collect();
/// let squares: Vec<i32> = threads.into_iter().map(|t| t.join().unwrap()).collect();
/// assert_eq!(squares[9], 81);
/// ```
pub fn spawn<F, T>(body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new().spawn(body).expect("a thread can be started")
}
