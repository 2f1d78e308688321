//! Extensible structs, read by programs that know more fields or fewer.

use proptest::prelude::*;
use std::fmt::Debug;
use underpass_macros::Wire;
use underpass_wire::{Decode, DecodeError, Encode, Schema, Types, from_bytes, to_bytes};

/// Where generated code finds the wire crate.
mod mock {
    pub mod __private {
        pub use underpass_wire as wire;
    }
}

/// One struct in three versions.
mod first {
    use super::Wire;

    #[derive(Clone, Debug, PartialEq, Wire)]
    #[underpass(crate = super::mock, extensible)]
    pub struct Stat {
        pub size: u64,
        pub name: String,
    }
}

mod second {
    use super::Wire;

    #[derive(Clone, Debug, PartialEq, Wire)]
    #[underpass(crate = super::mock, extensible)]
    pub struct Stat {
        pub size: u64,
        pub name: String,
        #[underpass(since = 2)]
        pub parts: Vec<Stat>,
    }
}

mod third {
    use super::Wire;

    #[derive(Clone, Debug, PartialEq, Wire)]
    #[underpass(crate = super::mock, extensible)]
    pub struct Stat {
        pub size: u64,
        pub name: String,
        #[underpass(since = 2)]
        pub parts: Vec<Stat>,
        #[underpass(since = 3, default = Some(Box::new(super::Pair { value: 7, r#type: 8 })))]
        pub pair: Option<Box<super::Pair<u16>>>,
        #[underpass(since = 3)]
        pub nothing: (),
    }
}

/// A generic one, with a field whose name is a keyword.
#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock, extensible)]
struct Pair<T: Default> {
    value: T,
    #[underpass(since = 2)]
    r#type: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Wire)]
#[underpass(crate = mock, extensible)]
struct Empty {}

fn stat(depth: u32) -> BoxedStrategy<third::Stat> {
    let parts = match depth {
        0 => Just(Vec::new()).boxed(),
        _ => prop::collection::vec(stat(depth - 1), 0..4).boxed(),
    };
    let pair = any::<Option<(u16, u16)>>()
        .prop_map(|pair| pair.map(|(value, r#type)| Box::new(Pair { value, r#type })));
    (any::<u64>(), any::<String>(), parts, pair)
        .prop_map(|(size, name, parts, pair)| third::Stat { size, name, parts, pair, nothing: () })
        .boxed()
}

fn to_second(of: &third::Stat) -> second::Stat {
    let third::Stat { size, name, parts, .. } = of;
    second::Stat { size: *size, name: name.clone(), parts: parts.iter().map(to_second).collect() }
}

/// What a program of version 3 makes of a value of version 2.
fn with_defaults(of: &third::Stat) -> third::Stat {
    let third::Stat { size, name, parts, .. } = of;
    let pair = Some(Box::new(Pair { value: 7, r#type: 8 }));
    let parts = parts.iter().map(with_defaults).collect();
    third::Stat { size: *size, name: name.clone(), parts, pair, nothing: () }
}

proptest! {
    #[test]
    fn each_version_reads_each_other(third in stat(3), behind in any::<u32>()) {
        let second = to_second(&third);
        let first = first::Stat { size: third.size, name: third.name.clone() };
        let bare = second::Stat { parts: Vec::new(), ..second.clone() };
        // What follows the value is read from its place.
        let bytes = to_bytes(&(&third, behind));
        prop_assert_eq!(bytes.len(), (&third, behind).size());
        prop_assert_eq!(from_bytes(&bytes), Ok((third.clone(), behind)));
        prop_assert_eq!(from_bytes(&bytes), Ok((second.clone(), behind)));
        prop_assert_eq!(from_bytes(&bytes), Ok((first.clone(), behind)));
        let bytes = to_bytes(&vec![second.clone(), second.clone()]);
        prop_assert_eq!(from_bytes(&bytes), Ok(vec![second.clone(), second]));
        prop_assert_eq!(from_bytes(&bytes), Ok(vec![first.clone(), first.clone()]));
        prop_assert_eq!(from_bytes(&bytes), Ok(vec![with_defaults(&third), with_defaults(&third)]));
        let bytes = to_bytes(&(&first, behind));
        prop_assert_eq!(from_bytes(&bytes), Ok((first, behind)));
        prop_assert_eq!(from_bytes(&bytes), Ok((bare, behind)));
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        fn read<T: Debug + Decode + Encode>(bytes: &[u8]) {
            if let Ok(value) = from_bytes::<T>(bytes) {
                assert!(bytes.len() >= T::LEAST && to_bytes(&value).len() == value.size());
            }
        }
        read::<first::Stat>(&bytes);
        read::<second::Stat>(&bytes);
        read::<third::Stat>(&bytes);
        read::<Pair<u64>>(&bytes);
        read::<Empty>(&bytes);
    }

    #[test]
    fn damaged_bytes_are_a_value_or_an_error(of in stat(2), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = to_bytes(&of);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        // It ends, and takes no memory that the bytes do not pay for.
        drop(from_bytes::<third::Stat>(&bytes));
        drop(from_bytes::<second::Stat>(&bytes));
        drop(from_bytes::<first::Stat>(&bytes));
    }
}

#[test]
fn the_bytes_are_as_they_are_written_down() {
    assert_eq!(to_bytes(&Empty {}), [0]);
    assert_eq!(
        to_bytes(&first::Stat { size: 1, name: "ab".into() }),
        [1, 0, 0, 0, 0, 0, 0, 0, 2, b'a', b'b', 0]
    );
    // The envelope has five bytes: one field of two bytes, and no files.
    assert_eq!(to_bytes(&Pair { value: 1u16, r#type: 2 }), [1, 0, 5, 1, 2, 0, 0, 0]);
    assert_eq!(from_bytes(&[1, 0, 0]), Ok(Pair { value: 1u16, r#type: 0 }));
    assert_eq!((Pair::<u16>::FIXED, Pair::<u16>::LEAST, Empty::LEAST), (None, 3, 1));
    let hostile = [1, 0, 5, 1, 2, 0, 1, 0];
    assert_eq!(from_bytes::<Pair<u16>>(&hostile), Err(DecodeError::FilesLeftOver(1)));
}

#[test]
fn the_schema_says_what_was_added() {
    let text = |schema: fn(&mut Types) -> underpass_wire::TypeName| {
        let mut types = Types::new();
        schema(&mut types);
        types.finish().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(text(first::Stat::schema), ["struct Stat { size: u64, name: String, .. }"]);
    assert_eq!(text(second::Stat::schema), ["struct Stat { size: u64, name: String, .., parts: Vec<Stat> }"]);
    assert_eq!(text(Pair::<u8>::schema), ["struct Pair<u8> { value: u8, .., type: u8 }"]);
    assert_eq!(text(Empty::schema), ["struct Empty { .. }"]);
}
