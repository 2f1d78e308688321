//! A stranger's bytes overflow no stack whose bounds are known, whatever the type is.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use underpass_macros::Wire;
use underpass_wire::{DEEPEST, Decode, DecodeError, Encode, from_bytes, to_bytes, watch_stacks};

/// Where generated code finds the wire crate.
mod mock {
    pub mod __private {
        pub use underpass_wire as wire;
    }
}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
struct Boxed<const N: usize> {
    load: [u8; N],
    inner: Option<Box<Boxed<N>>>,
}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
struct Listed<const N: usize> {
    load: [u8; N],
    inner: Vec<Listed<N>>,
}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
enum Mapped<const N: usize> {
    None,
    Some { load: [u8; N], inner: BTreeMap<u8, Mapped<N>> },
}

thread_local! {
    static BOUNDS: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Runs `body` on a kernel thread with a stack of so many bytes, which is known.
fn on<T: Send>(bytes: usize, body: impl FnOnce() -> T + Send) -> T {
    watch_stacks(|| BOUNDS.get());
    let known = || {
        let here = 0u8;
        let high = (&raw const here).addr();
        BOUNDS.set(Some((high - bytes, high)));
        body()
    };
    std::thread::scope(|scope| {
        // What the harness has used already, and the guard.
        let thread = std::thread::Builder::new().stack_size(bytes + (8 << 10)).spawn_scoped(scope, known);
        thread.unwrap().join().unwrap()
    })
}

/// How many levels of a type have room on a stack of so many bytes: those are encoded and dropped
/// there too.
fn levels<T: Encode + Decode + Debug + PartialEq + Send>(bytes: usize, of: impl Fn(u32) -> T + Sync) -> u32 {
    let mut most = 0;
    for levels in 1..=DEEPEST {
        let message = on(64 << 20, || to_bytes(&of(levels)));
        let same = on(bytes, || match from_bytes::<T>(&message) {
            Ok(value) => Some(to_bytes(&value)),
            Err(e) => {
                assert_eq!(e, DecodeError::NoStack { size: bytes });
                None
            }
        });
        match same {
            Some(same) => {
                assert_eq!((same, most), (message, levels - 1), "what has room, has less of it too")
            }
            None => continue,
        }
        most = levels;
    }
    most
}

/// As many as have room, and no more.
fn all_kinds<const N: usize>(bytes: usize) -> [u32; 3] {
    const LOAD: u8 = 7;
    let load = [LOAD; N];
    let boxed = |levels| {
        let outer = |inner, _| Boxed { load, inner: Some(Box::new(inner)) };
        (1..levels).fold(Boxed { load, inner: None }, outer)
    };
    let listed = |levels| {
        let outer = |inner, _| Listed { load, inner: vec![inner] };
        (1..levels).fold(Listed { load, inner: vec![] }, outer)
    };
    let mapped = |levels| {
        let outer = |inner, _| Mapped::Some { load, inner: BTreeMap::from([(1, inner)]) };
        (1..levels).fold(Mapped::None, outer)
    };
    [levels(bytes, boxed), levels(bytes, listed), levels(bytes, mapped)]
}

#[test]
fn small_values_may_be_as_deep_as_any() {
    assert_eq!(all_kinds::<8>(256 << 10), [DEEPEST; 3]);
}

#[test]
fn larger_ones_end_where_the_stack_does() {
    for (bytes, found) in [
        (128 << 10, all_kinds::<2_600>(128 << 10)),
        (256 << 10, all_kinds::<2_600>(256 << 10)),
        (2 << 20, all_kinds::<20_000>(2 << 20)),
    ] {
        println!("{bytes} bytes of stack: {found:?} levels");
        assert!(found.iter().all(|levels| (1..DEEPEST).contains(levels)), "{bytes}: {found:?}");
    }
    assert_eq!(all_kinds::<2_600>(4 << 20), [DEEPEST; 3]);
}
