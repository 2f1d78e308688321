//! The size and the number of a procedure's A-stacks (LRPC, 5.2). This is the part of a procedure
//! descriptor that follows from the types. The compiler computes it.

use crate::{Carried, Encode, fixed};

/// Bytes for arguments or a result without a fixed size.
pub const DEFAULT: usize = 32 * 1024;

/// Bytes for an error without a fixed size, beside a result with one: about a sentence.
pub const ERROR: usize = 512;

/// The most bytes of an A-stack. A message that is always larger travels out of band, and needs
/// none.
pub const LARGEST: usize = 4 << 20;

/// How many concurrent calls of a procedure are expected, unless the interface gives a number.
pub const CALLS: u32 = 5;

/// The most concurrent calls over a channel.
pub const MOST_CALLS: u32 = 64;

/// The bytes of a procedure's arguments and result. They are constants of a program with its
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
    /// All arguments together, if their size is fixed.
    pub arguments: Option<usize>,
    /// The result, if its size is fixed.
    pub result: Option<usize>,
    /// The A-stack: the one that the procedure [`wants`](wanted), or the size that its author
    /// gives.
    pub astack: usize,
    /// The size that its author gives.
    pub(crate) stated: Option<usize>,
    /// A successful result, if its size is fixed.
    pub(crate) value: Option<usize>,
}

impl Sizes {
    /// The sizes of a procedure that takes arguments of these [`FIXED`](crate::Encode::FIXED) sizes
    /// and returns an `R`. The A-stack follows from them, or has `stated` bytes.
    ///
    /// # Panics
    /// If `stated` is more than [`LARGEST`] bytes, at compile time. `#[interface]` refuses such
    /// sizes before.
    pub const fn of<R: Carried>(arguments: &[Option<usize>], stated: Option<usize>) -> Self {
        let (arguments, [value, error]) = (fixed::sum(arguments), R::Itself::EITHER);
        let astack = match stated {
            Some(bytes) => bytes,
            None => wanted(arguments, value, error),
        };
        assert!(astack <= LARGEST, "an A-stack is too large");
        Self { arguments, result: R::Itself::FIXED, astack, stated, value }
    }

    /// The largest A-stack among them, which is the size for an interface with these procedures.
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

/// The A-stack for arguments and a result of these sizes. It is exact where they are fixed. `value`
/// and `error` are the two forms of the result.
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
