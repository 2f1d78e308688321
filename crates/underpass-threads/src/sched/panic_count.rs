//! Panics that are under way when their thread is suspended: moving `std`'s count of panics.
//!
//! `std` counts panics for each kernel thread. From that count it tells whether a thread unwinds,
//! which locks to poison and when to abort. So a thread that is suspended in a destructor while it
//! unwinds sets its count aside, and takes it up where it goes on. Between two threads every count
//! is zero.
//!
//! Only a panic changes the count, so it is moved by panics. A *token* is a context of our own that
//! panics, pauses in the middle of unwinding, and catches its panic when it goes on. The kernel
//! thread on which it panics counts one more. The one on which it catches its panic counts one
//! less. They need not be the same. The first panic of each token is on a kernel thread that does
//! nothing else.
//!
//! A thread that is suspended in the panic *hook* is not covered: `std` aborts the process if
//! another thread panics on its kernel thread meanwhile.

use crate::sched::no_preempt::critical;
use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use underpass_context::{Base, Context, Pause, Resume, Stacks};

/// Bytes of a token's stack: room for the unwinder and a signal handler.
const STACK: usize = 64 * 1024;

/// Whether the calling thread unwinds because of a panic. The same as `std::thread::panicking`,
/// which is right on user-level threads too.
///
/// # Examples
/// ```
/// assert!(!underpass::thread::panicking());
/// ```
#[inline]
pub fn panicking() -> bool {
    std::thread::panicking()
}

/// The caller is about to be suspended: sets its panics aside, and returns how many they are.
#[inline]
pub(crate) fn leave() -> u32 {
    if std::thread::panicking() { set_unpolled() } else { 0 }
}

/// The caller goes on: takes up the panics that it has set aside.
#[inline]
pub(crate) fn enter(panics: u32) {
    if panics != 0 {
        take_up(panics);
    }
}

/// Tokens in the middle of unwinding: each can take one off a count.
static CHARGED: Mutex<Vec<Token>> = Mutex::new(Vec::new());
/// Tokens that have caught their panic, or were never entered: each can add one to a count. There
/// is one for each panic that is set aside.
static SPENT: Mutex<Vec<Token>> = Mutex::new(Vec::new());

#[cold]
fn set_unpolled() -> u32 {
    let mut panics = 0;
    while std::thread::panicking() {
        // Without memory for a token, or a kernel thread for its first panic, the count stays where
        // it is.
        let Some(token) = pop(&CHARGED).or_else(Token::charged_elsewhere) else { break };
        token.switch();
        push(&SPENT, token);
        panics += 1;
    }
    panics
}

#[cold]
fn take_up(panics: u32) {
    for _ in 0..panics {
        let token = pop(&SPENT).expect("a token was spent for each panic that was set aside");
        token.switch();
        push(&CHARGED, token);
    }
}

fn pop(of: &Mutex<Vec<Token>>) -> Option<Token> {
    let _held = critical();
    of.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn push(to: &Mutex<Vec<Token>>, token: Token) {
    let _held = critical();
    to.lock().unwrap_or_else(PoisonError::into_inner).push(token);
}

/// A context that panics when it is entered, and catches its panic when it is entered again. It is
/// used again and again, and never freed.
struct Token(&'static Inner);

struct Inner {
    /// Set before anybody enters the context.
    context: OnceCell<Box<Context>>,
    base: Base,
}

// SAFETY: all that is inside belongs to the owner of the token, and there is one token for each
// `Inner`.
unsafe impl Send for Token {}

impl Token {
    /// A new token. Its first panic was on a kernel thread that has ended since.
    fn charged_elsewhere() -> Option<Self> {
        let token = Self::new()?;
        let charge = move || {
            // Captures the whole token, not the reference inside.
            let token = token;
            token.switch();
            token
        };
        std::thread::Builder::new().name("underpass-panics".into()).spawn(charge).ok()?.join().ok()
    }

    fn new() -> Option<Self> {
        let stack = Stacks::new(STACK, 0).take().ok()?;
        let inner: &'static Inner =
            Box::leak(Box::new(Inner { context: OnceCell::new(), base: Base::default() }));
        inner.context.get_or_init(|| Context::new(stack, move || inner.run()));
        Some(Self(inner))
    }

    /// Has it panic, or catch its panic.
    fn switch(&self) {
        let _held = critical();
        // SAFETY: it is paused or has not begun, and only the owner of the token enters it. The
        // base is used for nothing else.
        unsafe { self.0.base.enter(self.0.context(), Resume::GoOn) };
    }
}

impl Inner {
    fn context(&self) -> &Context {
        self.context.get().expect("a token is made with its context")
    }

    fn run(&'static self) -> &'static Base {
        loop {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let _pauses = OnUnwind(self);
                resume_unwind(Box::new(()));
            }));
            drop(caught);
            self.pause();
        }
    }

    fn pause(&self) {
        // SAFETY: the caller runs on this context's stack, entered from this base.
        unsafe { self.context().leave(&self.base, Pause::Yield) };
    }
}

/// Pauses in its destructor.
struct OnUnwind(&'static Inner);

impl Drop for OnUnwind {
    fn drop(&mut self) {
        self.0.pause();
    }
}
