//! How large an A-stack a procedure wants, and how many (LRPC, 5.2): the part of a procedure
//! descriptor that follows from the types, which the compiler works out.

use crate::{Schema, fixed};

/// Bytes that arguments or a result are given whose size isn't fixed.
pub const DEFAULT: usize = 32 * 1024;

/// Bytes that an error is given whose size isn't fixed, beside a result that is: a sentence or
/// some.
pub const ERROR: usize = 512;

/// The most bytes of an A-stack. What is always larger travels out of band, and needs none.
pub const LARGEST: usize = 4 << 20;

/// How many calls of a procedure are expected at once, unless the interface says otherwise.
pub const CALLS: u32 = 5;

/// The most calls at once over a channel.
pub const MOST_CALLS: u32 = 64;

/// What a procedure's arguments and result take in bytes: constants of the program that has its
/// interface.
///
/// # Examples
/// ```
/// use underpass_wire::{Encode, Sizes};
///
/// const READ: Sizes = Sizes::of::<Result<[u8; 512], u32>>(&[u64::FIXED], None);
/// const _: () = assert!(READ.astack == 513, "a result that went well, behind a byte that says so");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sizes {
    /// All arguments together, if that is always the same.
    pub arguments: Option<usize>,
    /// The result, if that is always the same.
    pub result: Option<usize>,
    /// The A-stack: what the procedure [`wants`](wanted), or what its author says.
    pub astack: usize,
    /// What its author says of it.
    pub(crate) stated: Option<usize>,
    /// A result that went well, if that is always the same.
    pub(crate) value: Option<usize>,
}

impl Sizes {
    /// Those of a procedure with arguments of these [`FIXED`](crate::Encode::FIXED) sizes that
    /// returns an `R`, with the A-stack that follows, or one of `stated` bytes.
    ///
    /// # Panics
    /// If more than [`LARGEST`] bytes are stated, while it is compiled; `#[interface]` refuses
    /// those before.
    pub const fn of<R: Schema>(arguments: &[Option<usize>], stated: Option<usize>) -> Self {
        let (arguments, [value, error]) = (fixed::sum(arguments), R::EITHER);
        let astack = match stated {
            Some(bytes) => bytes,
            None => wanted(arguments, value, error),
        };
        assert!(astack <= LARGEST, "an A-stack is too large");
        Self { arguments, result: R::FIXED, astack, stated, value }
    }

    /// The largest A-stack of them, which is that of an interface with these procedures.
    pub const fn largest(of: &[Self]) -> usize {
        let (mut most, mut i) = (0, 0);
        while i < of.len() {
            if of[i].astack > most {
                most = of[i].astack;
            }
            i += 1;
        }
        most
    }
}

/// The A-stack that arguments and a result of these sizes want: exact where they are fixed. `value`
/// and `error` are what the result is one of.
///
/// # Examples
/// ```
/// use underpass_wire::astack;
///
/// // The result says in a byte which of both it is.
/// assert_eq!(astack::wanted(Some(200), Some(400), Some(1)), 401);
/// assert_eq!(astack::wanted(Some(0), Some(0), None), astack::ERROR);
/// assert_eq!(astack::wanted(None, Some(0), Some(1)), astack::DEFAULT);
/// assert_eq!(astack::wanted(Some(usize::MAX), Some(0), Some(1)), 2, "always out of band");
/// ```
pub const fn wanted(arguments: Option<usize>, value: Option<usize>, error: Option<usize>) -> usize {
    let parts = [part(arguments, DEFAULT, 0), part(value, DEFAULT, 1), part(error, ERROR, 1)];
    let mut most = 0;
    let mut i = 0;
    while i < parts.len() {
        if parts[i] > most {
            most = parts[i];
        }
        i += 1;
    }
    most
}

const fn part(fixed: Option<usize>, otherwise: usize, tag: usize) -> usize {
    match fixed {
        Some(size) if size <= LARGEST - tag => size + tag,
        Some(_) => 0,
        None => otherwise,
    }
}
