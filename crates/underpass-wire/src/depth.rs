//! How deep values may be nested: a stranger's bytes must not overflow our stack.

use crate::DecodeError;
use std::cell::Cell;

/// How many boxes, lists, maps and sets may stand one inside the other in a message.
///
/// Small, because handlers run on stacks that are small.
pub const DEEPEST: u32 = 64;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Decodes something that may hold others of its own type: everything behind a pointer passes through here.
///
/// `Box`, the collections and `Serde` do so; a type with a pointer of its own (`Rc`, an arena) has to. The depth is counted
/// for each kernel thread, so `decode` must not wait for anything: it takes bytes that are there.
///
/// # Errors
/// [`DecodeError::TooDeep`] inside [`DEEPEST`] others; else as `decode`.
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
    let _level = Level::enter()?;
    decode()
}

/// One level, left when it is dropped: an implementation by hand may panic.
struct Level {
    outer: u32,
}

impl Level {
    #[inline]
    fn enter() -> Result<Self, DecodeError> {
        let outer = DEPTH.get();
        if outer >= DEEPEST {
            return Err(DecodeError::TooDeep);
        }
        DEPTH.set(outer + 1);
        Ok(Self { outer })
    }
}

impl Drop for Level {
    #[inline]
    fn drop(&mut self) {
        DEPTH.set(self.outer);
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
