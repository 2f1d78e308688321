//! Derived types come back as they were, and say what they are.

use proptest::prelude::*;
use std::fmt::Debug;
use std::marker::PhantomData;
use underpass_macros::Wire;
use underpass_wire::{Decode, DecodeError, Encode, Schema, Types, from_bytes, to_bytes};

/// Where generated code finds the wire crate.
mod mock {
    pub mod __private {
        pub use underpass_wire as wire;
    }
}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
struct Stat {
    size: u64,
    r#type: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = crate::mock)]
struct FileId(u64);

#[derive(Clone, Copy, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
struct Nothing;

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
struct Empty {}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
enum Shape {
    Unit,
    Tuple(u8, Vec<Shape>),
    Named { to: String, from: Box<Shape>, size: Nothing },
    Braces {},
}

#[derive(Clone, Copy, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
enum Colour {
    Red = 10,
    Green = 20,
}

#[derive(Clone, Copy, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
enum Equal {
    A(u32),
    B { bytes: [u8; 4] },
}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
struct Pair<T: Clone, U = u8, const N: usize = 2>
where
    U: PartialEq,
{
    first: [T; N],
    second: (U, PhantomData<T>),
}

/// Recursive by way of another.
#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
struct Directory {
    files: Vec<FileId>,
    entries: Option<Box<Entry>>,
}

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
enum Entry {
    Directory(Box<Directory>),
    Link(Box<Entry>),
    End,
}

#[allow(dead_code)]
#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
enum Never {}

fn comes_back<T: Encode + Decode + PartialEq + Debug>(value: T) {
    let bytes = to_bytes(&value);
    assert_eq!(bytes.len(), value.size());
    assert!(T::FIXED.is_none_or(|size| size == bytes.len()) && T::LEAST <= bytes.len());
    for cut in 0..bytes.len() {
        assert!(from_bytes::<T>(&bytes[..cut]).is_err(), "{cut} bytes of {value:?}");
    }
    assert_eq!(from_bytes(&bytes), Ok(value));
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![Just(Shape::Unit), Just(Shape::Braces {})];
    leaf.prop_recursive(8, 64, 6, |inner| {
        prop_oneof![
            (any::<u8>(), prop::collection::vec(inner.clone(), 0..6))
                .prop_map(|(n, all)| Shape::Tuple(n, all)),
            (any::<String>(), inner).prop_map(|(to, from)| Shape::Named {
                to,
                from: Box::new(from),
                size: Nothing
            }),
        ]
    })
}

proptest! {
    #[test]
    fn every_shape_comes_back(shape in shapes(), size in any::<u64>(), kind in any::<Option<String>>()) {
        comes_back(shape);
        comes_back(Stat { size, r#type: kind });
        comes_back(Pair::<_, String, 3> { first: [size; 3], second: (size.to_string(), PhantomData) });
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(0u8..4, 0..100)) {
        let _ = from_bytes::<Shape>(&bytes);
        let _ = from_bytes::<Directory>(&bytes);
        let _ = from_bytes::<Vec<Never>>(&bytes);
    }
}

#[test]
fn small_shapes_come_back() {
    comes_back(FileId(7));
    comes_back((Nothing, Empty {}, Colour::Red, Colour::Green));
    comes_back((Equal::A(1), Equal::B { bytes: *b"abcd" }));
    let inner = Directory { files: vec![FileId(1)], entries: None };
    let link = Entry::Link(Box::new(Entry::Directory(Box::new(inner))));
    comes_back(Directory { files: vec![], entries: Some(Box::new(link)) });
    comes_back(Entry::End);
}

#[test]
fn sizes_that_are_fixed_are_known() {
    assert_eq!(FileId::FIXED, Some(8));
    assert_eq!(Nothing::FIXED, Some(0));
    assert_eq!(Colour::FIXED, Some(1));
    assert_eq!(Equal::FIXED, Some(5));
    assert_eq!(<Pair<u16>>::FIXED, Some(5));
    assert_eq!((Stat::FIXED, Shape::FIXED, Entry::FIXED), (None, None, None));
}

#[test]
fn an_invalid_value_is_an_error() {
    assert_eq!(from_bytes::<Colour>(&[2]), Err(DecodeError::BadTag { of: "Colour", tag: 2 }));
    assert_eq!(from_bytes::<Never>(&[0]), Err(DecodeError::BadTag { of: "Never", tag: 0 }));
    assert_eq!(from_bytes::<Entry>(&[1; 1000]), Err(DecodeError::TooDeep));
    assert_eq!(from_bytes::<Vec<Nothing>>(&[255; 9]), Err(DecodeError::TooLong));
}

#[test]
fn recursive_types_have_a_schema() {
    let mut types = Types::new();
    <(Shape, Pair<FileId, Colour>, Directory, Never, Empty)>::schema(&mut types);
    let text: Vec<String> = types.finish().iter().map(ToString::to_string).collect();
    let expected = [
        "enum Colour { Red, Green }",
        "struct Directory { files: Vec<FileId>, entries: Option<Entry> }",
        "struct Empty {}",
        "enum Entry { Directory(Directory), Link(Entry), End }",
        "struct FileId(u64)",
        "enum Never {}",
        "struct Nothing",
        "struct Pair<FileId, Colour, 2> { first: [FileId; 2], second: (Colour, ()) }",
        "enum Shape { Unit, Tuple(u8, Vec<Shape>), Named { to: String, from: Shape, size: Nothing }, Braces {} }",
    ];
    assert_eq!(text, expected);
}
