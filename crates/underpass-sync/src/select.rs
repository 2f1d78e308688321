//! Select: waiting for the first of several channels.

use crate::mpmc::{Enrolled, Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};
use crate::runtime::{Awaited, Cancelled, Control, Wait, WaitLimit, Woken, me, suspend};
use crate::select_token::SelectToken;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A set of cases, each a receive or a send on a channel. The first case that is ready is executed.
/// It resembles crossbeam's `Select`, but each case has a function.
///
/// A case whose channel has lost its other end counts as ready. If several cases are ready at once,
/// any of them may be chosen, but none is passed over for ever.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use underpass::sync::{Select, mpmc};
///
/// let (numbers, from_numbers) = mpmc::unbounded();
/// let (words, from_words) = mpmc::bounded::<String>(0);
/// numbers.send(7).unwrap();
/// let what = Select::new()
///     .recv(&from_numbers, |number| format!("got {}", number.unwrap()))
///     .recv(&from_words, |word| format!("got {}", word.unwrap()))
///     .timeout(Duration::from_secs(60), || "nothing".to_owned())
///     .wait();
/// assert_eq!(what.unwrap(), "got 7");
/// let what = Select::new().send(&words, "hello".to_owned(), |_| "sent").or_else(|| "nobody listens").wait();
/// assert_eq!(what.unwrap(), "nobody listens");
/// ```
#[must_use = "nothing is done before `wait`"]
pub struct Select<'a, R> {
    cases: Vec<Box<dyn Case<R> + 'a>>,
    limit: WaitLimit,
    late: Option<Box<dyn FnOnce() -> R + 'a>>,
}

/// A receive or a send on a channel.
trait Case<R> {
    /// Executes the case if it is ready. Returns whether it did.
    fn attempt(&mut self) -> bool;
    /// Waits as case `number` of the select of `token` while `then` runs. Returns `false` without
    /// waiting if the case is ready.
    fn enroll(&mut self, token: &Arc<SelectToken>, number: usize, then: &mut dyn FnMut()) -> bool;
    /// The case was executed: calls its function with the result.
    fn finish(self: Box<Self>) -> R;
}

struct ReceiveCase<'a, T, F> {
    receiver: &'a Receiver<T>,
    result: Option<Result<T, RecvError>>,
    then: F,
}

struct SendCase<'a, T, F> {
    sender: &'a Sender<T>,
    message: Option<T>,
    result: Option<Result<(), SendError<T>>>,
    then: F,
}

impl<'a, R> Select<'a, R> {
    /// A select without cases.
    pub fn new() -> Self {
        Self { cases: Vec::new(), limit: WaitLimit::Endless, late: None }
    }

    /// Adds a case that receives from `receiver` and then calls `then`.
    pub fn recv<T: 'a>(
        mut self,
        receiver: &'a (impl AsRef<Receiver<T>> + ?Sized),
        then: impl FnOnce(Result<T, RecvError>) -> R + 'a,
    ) -> Self {
        let receiver = receiver.as_ref();
        self.cases.push(Box::new(ReceiveCase { receiver, result: None, then }));
        self
    }

    /// Adds a case that sends `message` to `sender` and then calls `then`. If another case is
    /// executed, the message is dropped.
    pub fn send<T: 'a>(
        mut self,
        sender: &'a (impl AsRef<Sender<T>> + ?Sized),
        message: T,
        then: impl FnOnce(Result<(), SendError<T>>) -> R + 'a,
    ) -> Self {
        let sender = sender.as_ref();
        self.cases.push(Box::new(SendCase { sender, message: Some(message), result: None, then }));
        self
    }

    /// Calls `late` if no case becomes ready for `span`.
    pub fn timeout(self, span: Duration, late: impl FnOnce() -> R + 'a) -> Self {
        self.give_up(WaitLimit::of(span), late)
    }

    /// Calls `late` if no case becomes ready until `deadline`.
    pub fn deadline(self, deadline: Instant, late: impl FnOnce() -> R + 'a) -> Self {
        self.give_up(WaitLimit::until(deadline), late)
    }

    /// Calls `late` if no case is ready now.
    pub fn or_else(self, late: impl FnOnce() -> R + 'a) -> Self {
        self.give_up(WaitLimit::None, late)
    }

    fn give_up(mut self, limit: WaitLimit, late: impl FnOnce() -> R + 'a) -> Self {
        self.limit = limit;
        self.late = Some(Box::new(late));
        self
    }

    /// Waits until a case is ready, executes it, and returns the result of its function.
    ///
    /// # Errors
    /// If the thread is cancelled while it waits.
    ///
    /// # Panics
    /// If there is neither a case nor a deadline: it would wait for ever.
    pub fn wait(mut self) -> Result<R, Cancelled> {
        assert!(
            !self.cases.is_empty() || self.late.is_some(),
            "a select needs something to wait for: add a case or a deadline"
        );
        match self.choose() {
            Chosen::Case(number) => Ok(self.cases.swap_remove(number).finish()),
            Chosen::Cancelled => Err(Cancelled),
            Chosen::Late => Ok(self.late.take().expect("only a deadline makes it late")()),
        }
    }

    fn choose(&mut self) -> Chosen {
        // Relaxed: it only has to change. It makes each case the first in turn.
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let cases = self.cases.len();
        // Models have to begin alike each time.
        if cases > 1 && !cfg!(underpass_loom) {
            self.cases.rotate_left(TURN.fetch_add(1, Ordering::Relaxed) % cases);
        }
        loop {
            if let Some(number) = self.cases.iter_mut().position(|case| case.attempt()) {
                return Chosen::Case(number);
            }
            if self.limit == WaitLimit::None {
                return Chosen::Late;
            }
            let mut wait = Waits { me: me(), token: SelectToken::new(), limit: self.limit, ended: None };
            wait.enroll(&mut self.cases, 0);
            match (wait.ended, wait.token.chosen()) {
                (Some(Woken::Woken), Some(number)) => return Chosen::Case(number),
                (Some(Woken::Late), _) => return Chosen::Late,
                (Some(Woken::Cancelled), _) => return Chosen::Cancelled,
                // A case had become ready by then.
                _ => {}
            }
        }
    }
}

/// The end of a select.
enum Chosen {
    Case(usize),
    Late,
    Cancelled,
}

/// One attempt to wait for all cases at once.
struct Waits {
    me: &'static Control,
    token: Arc<SelectToken>,
    limit: WaitLimit,
    /// How the suspension ended, if there was one.
    ended: Option<Woken>,
}

impl Waits {
    /// Puts the thread into the lists of all `cases`, and then suspends it. `number` is the number
    /// of the first case.
    fn enroll<R>(&mut self, cases: &mut [Box<dyn Case<R> + '_>], number: usize) {
        let Some((first, others)) = cases.split_first_mut() else { return self.suspend() };
        let token = Arc::clone(&self.token);
        // A case may be ready although the token is decided already. Then a wake-up is under way,
        // and the thread has to wait for it.
        if !first.enroll(&token, number, &mut || self.enroll(others, number + 1)) && !token.abandon() {
            self.suspend();
        }
    }

    fn suspend(&mut self) {
        self.ended = Some(suspend(self.me, &*self.token, self.limit.deadline_ns(), true));
    }
}

impl Wait for SelectToken {
    fn abandon(&self, _who: &'static Control) -> bool {
        SelectToken::abandon(self)
    }

    fn describe(&self) -> Awaited {
        Awaited {
            kind: "the first of several channels",
            address: std::ptr::from_ref(self).addr(),
            holder: None,
        }
    }
}

impl<R, T, F: FnOnce(Result<T, RecvError>) -> R> Case<R> for ReceiveCase<'_, T, F> {
    fn attempt(&mut self) -> bool {
        self.result = match self.receiver.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Disconnected) => Some(Err(RecvError::Disconnected)),
            Err(TryRecvError::Empty) => None,
        };
        self.result.is_some()
    }

    fn enroll(&mut self, token: &Arc<SelectToken>, number: usize, then: &mut dyn FnMut()) -> bool {
        match self.receiver.channel().enroll_receiver(token, number, then) {
            Enrolled::Ready => return false,
            Enrolled::Chosen(message) => self.result = Some(message.ok_or(RecvError::Disconnected)),
            Enrolled::Passed(_) => {}
        }
        true
    }

    fn finish(self: Box<Self>) -> R {
        (self.then)(self.result.expect("it was done"))
    }
}

impl<R, T, F: FnOnce(Result<(), SendError<T>>) -> R> Case<R> for SendCase<'_, T, F> {
    fn attempt(&mut self) -> bool {
        let Some(message) = self.message.take() else { return false };
        match self.sender.try_send(message) {
            Ok(()) => self.result = Some(Ok(())),
            Err(TrySendError::Disconnected(message)) => {
                self.result = Some(Err(SendError::Disconnected(message)));
            }
            Err(TrySendError::Full(message)) => self.message = Some(message),
        }
        self.result.is_some()
    }

    fn enroll(&mut self, token: &Arc<SelectToken>, number: usize, then: &mut dyn FnMut()) -> bool {
        let Some(message) = self.message.take() else { return true };
        let (enrolled, kept) = self.sender.channel().enroll_sender(message, token, number, then);
        self.message = kept;
        match enrolled {
            Enrolled::Ready => return false,
            Enrolled::Chosen(unsent) => {
                self.result = Some(unsent.map_or(Ok(()), |message| Err(SendError::Disconnected(message))));
            }
            Enrolled::Passed(message) => self.message = message,
        }
        true
    }

    fn finish(self: Box<Self>) -> R {
        (self.then)(self.result.expect("it was done"))
    }
}

impl<R> Default for Select<'_, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> fmt::Debug for Select<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Select").field("cases", &self.cases.len()).finish_non_exhaustive()
    }
}
