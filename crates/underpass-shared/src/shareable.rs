//! Data that can lie in shared memory.

use crate::error::SyncError;
use crate::words::RegionWords;
use std::mem::MaybeUninit;
use std::slice;
use underpass_os::fork;

/// Data with a fixed layout, without pointers and without padding, of which some patterns of bytes
/// may be no value. `#[derive(underpass::Shareable)]` implements it for structs with `#[repr(C)]`
/// and for enums without fields.
///
/// # Safety
/// * No byte of a value is uninitialized: the type has no padding.
/// * Bytes for which [`is_valid`](Self::is_valid) is true are a value of the type, in any process.
///
/// # Examples
/// ```
/// use underpass::shared::Shareable;
///
/// #[derive(Clone, Copy, Debug, PartialEq, underpass::Shareable)]
/// #[repr(u8)]
/// enum Side {
///     Buy,
///     Sell,
/// }
///
/// #[derive(Clone, Copy, Debug, PartialEq, underpass::Shareable)]
/// #[repr(C)]
/// struct Order {
///     price: u64,
///     amount: u32,
///     side: Side,
///     rest: [u8; 3],
/// }
///
/// assert!(Side::is_valid(&[1]) && !Side::is_valid(&[2]));
/// assert!(Order::is_valid(&[0; 16]));
/// assert!(!Order::is_valid(&[9; 16]));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't lie in shared memory",
    label = "it has no fixed layout that other domains may write",
    note = "write `#[derive(Clone, Copy, underpass::Shareable)]` and `#[repr(C)]`; its fields can be numbers, `bool`, `char`, arrays and such structs, but nothing with pointers, as `String` and `Vec` are"
)]
pub unsafe trait Shareable: Copy + Send + Sync + 'static {
    /// Differs between types that differ in their layout, as far as possible.
    const SHAPE: u64;

    /// Whether `bytes`, as many as the type has, are a value of it.
    fn is_valid(bytes: &[u8]) -> bool;
}

/// Combines shapes: FNV-1a over the bytes of `next`.
pub const fn mix(shape: u64, next: u64) -> u64 {
    let bytes = next.to_le_bytes();
    let mut shape = shape;
    let mut at = 0;
    while at < bytes.len() {
        shape = (shape ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    shape
}

/// The shape of a name.
pub const fn shape_of(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let mut shape = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        shape = mix(shape, bytes[at] as u64);
        at += 1;
    }
    shape
}

macro_rules! any_bytes {
    ($($type:ty)*) => {$(
        // SAFETY: a number has no padding, and all its bytes are a value.
        unsafe impl Shareable for $type {
            const SHAPE: u64 = shape_of(stringify!($type));
            fn is_valid(_: &[u8]) -> bool {
                true
            }
        }
    )*};
}
any_bytes!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

// SAFETY: one byte, which is 0 or 1.
unsafe impl Shareable for bool {
    const SHAPE: u64 = shape_of("bool");
    fn is_valid(bytes: &[u8]) -> bool {
        matches!(bytes, [0 | 1])
    }
}

// SAFETY: four bytes, which are checked.
unsafe impl Shareable for char {
    const SHAPE: u64 = shape_of("char");
    fn is_valid(bytes: &[u8]) -> bool {
        let number = bytes.try_into().map(u32::from_ne_bytes);
        number.is_ok_and(|number| char::from_u32(number).is_some())
    }
}

// SAFETY: elements lie one behind the other, without padding, and each is checked.
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {
    const SHAPE: u64 = mix(mix(shape_of("array"), T::SHAPE), N as u64);
    fn is_valid(bytes: &[u8]) -> bool {
        size_of::<T>() == 0 || bytes.chunks_exact(size_of::<T>()).all(T::is_valid)
    }
}

/// The bytes of a value.
#[inline]
pub fn bytes_of<T: Shareable>(value: &T) -> &[u8] {
    // SAFETY: all bytes of a value are initialized, as `Shareable` promises.
    unsafe { slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

/// A value whose bytes `fill` copies from memory that others write. It returns the place that it
/// was given, with the bytes in it. `None` if they are no value.
///
/// # Errors
/// What `fill` returns.
///
/// # Panics
/// If `fill` returns another place.
#[inline]
pub fn value_from<T: Shareable, E>(
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&[u8], E>,
) -> Result<Option<T>, E> {
    with_value_from(fill, |value: &T| *value)
}

/// As [`value_from`], but lends the value where it was copied to: a large one is copied once.
///
/// # Errors
/// What `fill` returns.
///
/// # Panics
/// If `fill` returns another place.
#[inline]
pub fn with_value_from<T: Shareable, E, R>(
    fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<&[u8], E>,
    work: impl FnOnce(&T) -> R,
) -> Result<Option<R>, E> {
    let mut copy = MaybeUninit::<T>::uninit();
    let place = copy.as_mut_ptr().cast::<MaybeUninit<u8>>();
    // SAFETY: as many bytes as the value has, which are borrowed alone.
    let bytes = fill(unsafe { slice::from_raw_parts_mut(place, size_of::<T>()) })?;
    let whole = (bytes.as_ptr().addr(), bytes.len()) == (place.addr(), size_of::<T>());
    assert!(whole, "the bytes lie elsewhere");
    if !T::is_valid(bytes) {
        return Ok(None);
    }
    // SAFETY: all bytes are initialized, as a slice of them shows, and they are a value, as
    // `Shareable` promises.
    Ok(Some(work(unsafe { copy.assume_init_ref() })))
}

/// Copies a value out of shared memory, and checks the copy.
pub(crate) fn read<T: Shareable>(words: &RegionWords, at: usize) -> Result<T, SyncError> {
    if fork::is_forked() {
        return Err(SyncError::Ended);
    }
    value_from(|place| Ok::<_, SyncError>(words.read(at, place)))?.ok_or(SyncError::Invalid)
}

/// Copies a value into shared memory.
pub(crate) fn write<T: Shareable>(words: &RegionWords, at: usize, value: &T) {
    // A forked child has no such memory.
    if !fork::is_forked() {
        words.write(at, bytes_of(value));
    }
}
