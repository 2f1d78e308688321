//! Copies many numbers at once: a few large copies replace many small ones.

use crate::{DecodeError, Sink, Source};

/// The buffer that collects numbers. It is small enough to stay in the first-level cache.
const CHUNK: usize = 4096;

/// Up to this many bytes, copying number by number is faster, because it compiles to plain moves.
const FEW: usize = 64;

#[inline]
pub(crate) fn encode<const N: usize, T: Copy, S: Sink + ?Sized>(
    items: &[T],
    bytes: impl Fn(T) -> [u8; N],
    to: &mut S,
) {
    if size_of_val(items) <= FEW {
        for &item in items {
            to.put(&bytes(item));
        }
    } else {
        encode_many(items, bytes, to);
    }
}

#[inline(never)]
fn encode_many<const N: usize, T: Copy, S: Sink + ?Sized>(
    items: &[T],
    bytes: impl Fn(T) -> [u8; N],
    to: &mut S,
) {
    let mut chunk = [0; CHUNK];
    for some in items.chunks(CHUNK / N) {
        let chunk = &mut chunk[..some.len() * N];
        for (place, &item) in chunk.as_chunks_mut::<N>().0.iter_mut().zip(some) {
            *place = bytes(item);
        }
        to.put(chunk);
    }
}

#[inline]
pub(crate) fn decode<const N: usize, T: Copy, S: Source + ?Sized>(
    items: &mut [T],
    value: impl Fn([u8; N]) -> T,
    from: &mut S,
) -> Result<(), DecodeError> {
    if size_of_val(items) <= FEW {
        for item in items {
            let mut bytes = [0; N];
            from.take(&mut bytes)?;
            *item = value(bytes);
        }
        Ok(())
    } else {
        decode_many(items, value, from)
    }
}

#[inline(never)]
fn decode_many<const N: usize, T: Copy, S: Source + ?Sized>(
    items: &mut [T],
    value: impl Fn([u8; N]) -> T,
    from: &mut S,
) -> Result<(), DecodeError> {
    let mut chunk = [0; CHUNK];
    for some in items.chunks_mut(CHUNK / N) {
        let chunk = &mut chunk[..some.len() * N];
        from.take(chunk)?;
        for (item, bytes) in some.iter_mut().zip(chunk.as_chunks::<N>().0) {
            *item = value(*bytes);
        }
    }
    Ok(())
}

/// Refuses a count for which there are not enough bytes, before room is made for it.
#[inline]
pub(crate) fn check<S: Source + ?Sized>(count: usize, size: usize, from: &S) -> Result<(), DecodeError> {
    if count > from.remaining() / size { Err(DecodeError::Truncated) } else { Ok(()) }
}
