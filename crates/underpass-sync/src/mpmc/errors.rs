//! The errors of sending and receiving.

use std::error::Error;
use std::fmt;

/// Gives an error its message, without requiring that the unsent message is `Debug`.
macro_rules! error {
    ($name:ident $(<$t:ident>)?: $($variant:pat => $text:literal),+ $(,)?) => {
        impl $(<$t>)? fmt::Display for $name $(<$t>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($variant => $text),+ })
            }
        }

        impl $(<$t>)? Error for $name $(<$t>)? where Self: fmt::Debug {}
    };
}

/// Gives an error that carries a message the function that returns it, and a `Debug` without it.
macro_rules! carrier {
    ($name:ident: $($variant:ident),+) => {
        impl<T> $name<T> {
            /// The message that was not sent.
            pub fn into_inner(self) -> T {
                match self { $(Self::$variant(message))|+ => message }
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant(_) => concat!(stringify!($variant), "(..)")),+ })
            }
        }
    };
}

/// A message could not be sent. The error contains it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendError<T> {
    /// All receivers are gone: no thread will ever receive it.
    Disconnected(T),
    /// The thread was asked to end while it waited: let it end.
    Cancelled(T),
}

/// A message could not be sent at once. The error contains it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room, or no receiver waits: try again, or wait with `send`.
    Full(T),
    /// All receivers are gone: no thread will ever receive it.
    Disconnected(T),
}

/// A message could not be sent in time. The error contains it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time is over: try again, or wait longer.
    Timeout(T),
    /// All receivers are gone: no thread will ever receive it.
    Disconnected(T),
    /// The thread was asked to end while it waited: let it end.
    Cancelled(T),
}

/// No message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// All senders are gone, and no message is left.
    Disconnected,
    /// The thread was asked to end while it waited: let it end.
    Cancelled,
}

/// No message was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// The channel is empty: try again, or wait with `recv`.
    Empty,
    /// All senders are gone, and no message is left.
    Disconnected,
}

/// No message was received in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// The time is over: try again, or wait longer.
    Timeout,
    /// All senders are gone, and no message is left.
    Disconnected,
    /// The thread was asked to end while it waited: let it end.
    Cancelled,
}

carrier!(SendError: Disconnected, Cancelled);
carrier!(TrySendError: Full, Disconnected);
carrier!(SendTimeoutError: Timeout, Disconnected, Cancelled);

error!(SendError<T>:
    Self::Disconnected(_) => "the message was not sent: the channel has no receivers any more",
    Self::Cancelled(_) => "the message was not sent: the thread was cancelled; let it end",
);
error!(TrySendError<T>:
    Self::Full(_) => "the message was not sent: the channel is full; wait with `send`",
    Self::Disconnected(_) => "the message was not sent: the channel has no receivers any more",
);
error!(SendTimeoutError<T>:
    Self::Timeout(_) => "the message was not sent: the channel was full all the time; wait longer",
    Self::Disconnected(_) => "the message was not sent: the channel has no receivers any more",
    Self::Cancelled(_) => "the message was not sent: the thread was cancelled; let it end",
);
error!(RecvError:
    Self::Disconnected => "no message: the channel is empty and has no senders any more",
    Self::Cancelled => "no message: the thread was cancelled; let it end",
);
error!(TryRecvError:
    Self::Empty => "no message: the channel is empty; wait with `recv`",
    Self::Disconnected => "no message: the channel is empty and has no senders any more",
);
error!(RecvTimeoutError:
    Self::Timeout => "no message: the channel was empty all the time; wait longer",
    Self::Disconnected => "no message: the channel is empty and has no senders any more",
    Self::Cancelled => "no message: the thread was cancelled; let it end",
);
