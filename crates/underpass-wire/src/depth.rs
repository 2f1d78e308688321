//! Limits the nesting of values: foreign bytes must not overflow our stack.

use crate::DecodeError;
use std::cell::Cell;
use std::sync::OnceLock;

/// The most boxes, lists, maps and sets that may be nested in a message.
///
/// The stack on which a message is decoded may be too small for that many: see [`watch_stacks`].
pub const DEEPEST: u32 = 64;

/// Bytes of the stack that stay free for the decoding inside, but at most a quarter of a small
/// stack.
const ROOM: usize = 32 * 1024;
/// Bytes of the stack that stay free for each byte of the value that is decoded next. The functions
/// between two levels of derived types have up to 13 copies of it without optimization, and 4 with
/// some. Builds without optimization have debug assertions.
const FRAMES: usize = if cfg!(debug_assertions) { 16 } else { 6 };

/// Returns the bounds of the calling thread's stack.
type Bounds = fn() -> Option<(usize, usize)>;

static BOUNDS: OnceLock<Bounds> = OnceLock::new();

/// Makes [`deeper`] ask `bounds` for the bounds of the calling thread's stack, and refuse values
/// for which the stack has no room. `bounds` returns `None` where it does not know. Only the first
/// call counts.
///
/// # Examples
/// ```standalone_crate
/// use underpass_wire::{DecodeError, from_bytes, to_bytes, watch_stacks};
/// let bytes = to_bytes(&Box::new(1u64));
/// assert_eq!(from_bytes(&bytes), Ok(Box::new(1u64)));
///
/// // As if all but one KiB of this stack were used.
/// watch_stacks(|| {
///     let here = 0u8;
///     let low = (&raw const here).addr() - 1024;
///     Some((low, low + (1 << 20)))
/// });
/// assert_eq!(from_bytes::<Box<u64>>(&bytes), Err(DecodeError::NoStack { size: 1 << 20 }));
/// ```
pub fn watch_stacks(bounds: Bounds) {
    // A later call has no effect.
    let _ = BOUNDS.set(bounds);
}

thread_local! {
    static WHERE: Cell<Where> = const { Cell::new(Where { depth: 0, low: 0, size: 0 }) };
}

/// The state of decoding a message.
#[derive(Clone, Copy)]
struct Where {
    /// The number of levels that have been entered.
    depth: u32,
    /// The beginning and the size of the stack. Zeros if they are not known.
    low: usize,
    size: usize,
}

/// Decodes a value that may contain values of its own type. Everything behind a pointer passes
/// through here.
///
/// `Box`, the collections and `Serde` do so. A type with a pointer of its own (`Rc`, an arena) has
/// to. The depth is counted for each kernel thread, so `decode` must not wait: it takes bytes that
/// are there.
///
/// If the bounds of a thread's stack are known ([`watch_stacks`]), room for a value of type `T`
/// stays free on it. That is six times its size (16 times with debug assertions), and at least 32
/// KiB or a quarter of the stack, whichever is less. A hand-written decoder of `T` must not use
/// more before it comes here again.
///
/// # Errors
/// [`DecodeError::TooDeep`] inside [`DEEPEST`] others. [`DecodeError::NoStack`] if there is not
/// enough room. Otherwise the errors of `decode`.
///
/// # Examples
/// ```
/// use std::rc::Rc;
/// use underpass_wire::{Decode, DecodeError, Source, deeper};
///
/// struct Chain(Option<Rc<Chain>>);
///
/// impl Decode for Chain {
///     fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
///         Ok(Self(if bool::decode(from)? { Some(Rc::new(deeper(|| Self::decode(from))?)) } else { None }))
///     }
/// }
///
/// let endless = [1; 1_000_000];
/// assert!(matches!(underpass_wire::from_bytes::<Chain>(&endless), Err(DecodeError::TooDeep)));
/// ```
#[inline]
pub fn deeper<T>(decode: impl FnOnce() -> Result<T, DecodeError>) -> Result<T, DecodeError> {
    deeper_to::<T, T>(decode)
}

/// As [`deeper`], for a `T` that is put together of values of type `Part`.
#[inline]
pub(crate) fn deeper_to<Part, T>(decode: impl FnOnce() -> Result<T, DecodeError>) -> Result<T, DecodeError> {
    let _level = Level::enter(FRAMES * size_of::<Part>())?;
    decode()
}

/// One level. It is left when this is dropped, because a hand-written implementation may panic.
struct Level {
    outer: u32,
}

impl Level {
    /// Enters the next level, which needs `room`.
    #[inline]
    fn enter(room: usize) -> Result<Self, DecodeError> {
        let mut now = WHERE.get();
        let outer = now.depth;
        if outer >= DEEPEST {
            return Err(DecodeError::TooDeep);
        }
        if outer == 0 {
            (now.low, now.size) = stack();
        }
        let left = (&raw const now).addr().wrapping_sub(now.low);
        // If this is another stack than that of the outermost level, this is a very large number.
        // Nothing is known of that stack.
        if left < room.max(ROOM.min(now.size / 4)) {
            return Err(DecodeError::NoStack { size: now.size });
        }
        now.depth += 1;
        WHERE.set(now);
        Ok(Self { outer })
    }
}

/// Where the calling thread's stack begins, and its size.
#[inline(never)]
fn stack() -> (usize, usize) {
    let bounds = BOUNDS.get().and_then(|bounds| bounds());
    bounds.map_or((0, 0), |(low, high)| (low, high - low))
}

impl Drop for Level {
    #[inline]
    fn drop(&mut self) {
        WHERE.set(Where { depth: self.outer, ..WHERE.get() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_left_by_error_and_by_panic() {
        for _ in 0..2 * DEEPEST {
            assert!(deeper::<()>(|| Err(DecodeError::Truncated)).is_err());
            assert!(std::panic::catch_unwind(|| deeper::<()>(|| panic!("by hand"))).is_err());
        }
        assert_eq!(deeper(|| Ok(())), Ok(()));
    }

    #[test]
    fn as_many_levels_as_promised() {
        fn down(levels: u32) -> Result<(), DecodeError> {
            if levels == 0 { Ok(()) } else { deeper(|| down(levels - 1)) }
        }
        assert_eq!(down(DEEPEST), Ok(()));
        assert_eq!(down(DEEPEST + 1), Err(DecodeError::TooDeep));
    }
}
