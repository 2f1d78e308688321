//! Whatever the bytes are, decoding ends soon, with a value or an error.

use proptest::collection::vec;
use proptest::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZero;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use underpass_wire::{DEEPEST, Decode, DecodeError, Encode, Source, from_bytes, to_bytes};

/// Decodes `bytes` as each of the types, and encodes again what came of it.
macro_rules! as_each {
    ($bytes:expr; $($type:ty),* $(,)?) => {$(
        if let Ok(value) = <$type>::decode(&mut &$bytes[..]) {
            let again = to_bytes(&value);
            prop_assert_eq!(again.len(), value.size());
            prop_assert!(from_bytes::<$type>(&again).is_ok(), "{} as {}", again.len(), stringify!($type));
        }
    )*};
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(prop_oneof![any::<u8>(), Just(0), Just(1), Just(255)], 0..200)) {
        as_each!(bytes;
            u8, u16, i32, u64, i128, usize, isize, f32, f64, bool, char, (), Duration, NonZero<u32>,
            [u8; 7], [u32; 40], [bool; 3], [String; 2], (u8, char), (String, Vec<u8>, Option<u64>),
            Option<String>, Result<u16, String>, String, Box<str>, Box<[u16]>, Box<u8>,
            Vec<u8>, Vec<i64>, Vec<usize>, Vec<()>, Vec<Vec<()>>, Vec<String>, Vec<Option<[u8; 100]>>, VecDeque<bool>,
            HashMap<u8, u8>, HashMap<String, Vec<u8>>, BTreeMap<u16, ()>, HashSet<()>, HashSet<char>, BTreeSet<String>,
            Vec<BTreeMap<u8, Vec<Option<Box<u8>>>>>, Tree,
            SystemTime, PathBuf, OsString, IpAddr, Ipv6Addr, SocketAddr, Range<u8>, RangeInclusive<String>, io::ErrorKind, io::Error,
            Arc<str>, Arc<[u16]>, Arc<u8>, Vec<Arc<(u8, SystemTime)>>, Cow<'static, str>, Cow<'static, [u32]>, SharedTree,
        );
    }
}

/// A length of the long form, and no elements.
fn announced(len: u64) -> Vec<u8> {
    [&[255][..], &len.to_le_bytes()].concat()
}

fn refused<T: Decode>(bytes: &[u8]) -> DecodeError {
    from_bytes::<T>(bytes).err().expect("refused")
}

#[test]
fn a_length_without_elements_allocates_nothing() {
    for len in [1, 255, 1 << 31, 1 << 40, 1 << 60, u64::MAX] {
        let bytes = announced(len);
        assert_eq!(refused::<Vec<u8>>(&bytes), DecodeError::Truncated);
        assert_eq!(refused::<String>(&bytes), DecodeError::Truncated);
        assert_eq!(refused::<Vec<[u64; 512]>>(&bytes), DecodeError::Truncated);
        assert_eq!(refused::<Vec<String>>(&bytes), DecodeError::Truncated);
        assert_eq!(refused::<PathBuf>(&bytes), DecodeError::Truncated);
        assert_eq!(refused::<Arc<[u64]>>(&bytes), DecodeError::Truncated);
        assert_eq!(refused::<Cow<'static, str>>(&bytes), DecodeError::Truncated);
        assert_eq!(refused::<HashMap<u64, String>>(&bytes), DecodeError::Truncated);
        assert_eq!(refused::<BTreeSet<u64>>(&bytes), DecodeError::Truncated);
    }
}

#[test]
fn a_million_small_elements_reserve_no_room_for_large_ones() {
    let mut bytes = announced(1 << 20);
    bytes.resize(bytes.len() + (1 << 20), 9);
    // This would be 64 GiB at once, but the first element is missing.
    assert_eq!(refused::<Vec<Option<[u64; 8192]>>>(&bytes), DecodeError::BadTag { of: "Option", tag: 9 });
}

#[test]
fn elements_without_bytes_end() {
    assert_eq!(refused::<Vec<()>>(&announced(u64::MAX)), DecodeError::TooLong);
    assert_eq!(refused::<Vec<[(); 1 << 40]>>(&announced(4097)), DecodeError::TooLong);
    assert_eq!(from_bytes::<Vec<()>>(&announced(4096)).map(|all| all.len()), Ok(4096));
    assert_eq!(refused::<HashSet<()>>(&[2]), DecodeError::BadValue { of: "HashSet" });
}

#[test]
fn an_invalid_value_is_an_error() {
    assert_eq!(refused::<bool>(&[2]), DecodeError::BadTag { of: "bool", tag: 2 });
    assert_eq!(refused::<Option<u8>>(&[2]), DecodeError::BadTag { of: "Option", tag: 2 });
    assert_eq!(refused::<Result<u8, u8>>(&[3]), DecodeError::BadTag { of: "Result", tag: 3 });
    assert_eq!(refused::<char>(&0xd800u32.to_le_bytes()), DecodeError::BadChar(0xd800));
    assert_eq!(refused::<String>(&[1, 0xff]), DecodeError::BadUtf8);
    assert_eq!(refused::<NonZero<u16>>(&[0, 0]), DecodeError::BadValue { of: "NonZero<u16>" });
    assert_eq!(refused::<Duration>(&[255; 12]), DecodeError::BadValue { of: "Duration" });
    let no_time = DecodeError::BadValue { of: "SystemTime" };
    for (seconds, nanos) in [(0, 1_000_000_000), (-1, u32::MAX), (i64::MAX, u32::MAX), (i64::MIN, 1 << 31)] {
        assert_eq!(refused::<SystemTime>(&to_bytes(&(seconds, nanos))), no_time);
    }
    assert_eq!(refused::<IpAddr>(&[4; 17]), DecodeError::BadTag { of: "IpAddr", tag: 4 });
    assert_eq!(refused::<SocketAddr>(&[1; 26]), DecodeError::Truncated);
    assert_eq!(refused::<Range<bool>>(&[1, 2]), DecodeError::BadTag { of: "bool", tag: 2 });
    assert_eq!(refused::<io::Error>(&[0, 1]), DecodeError::Truncated);
    assert_eq!(refused::<io::Error>(&[1, 200, 0]), DecodeError::BadTag { of: "io::ErrorKind", tag: 200 });
    assert_eq!(refused::<io::Error>(&[1, 0, 1, 0xff]), DecodeError::BadUtf8);
    assert_eq!(refused::<Arc<str>>(&[1, 0xff]), DecodeError::BadUtf8);
    assert_eq!(refused::<Cow<'static, str>>(&[1, 0xff]), DecodeError::BadUtf8);
    assert_eq!(refused::<HashMap<u8, ()>>(&[2, 7, 7]), DecodeError::BadValue { of: "HashMap" });
    assert_eq!(refused::<u64>(&[0; 7]), DecodeError::Truncated);
    assert_eq!(refused::<()>(&[0; 7]), DecodeError::LeftOver(7));
    assert!(refused::<bool>(&[2]).to_string().contains("bool"));
}

/// The smallest type that contains values of its own type.
#[derive(Debug, PartialEq)]
struct Tree(Vec<Tree>);

impl Encode for Tree {
    const FIXED: Option<usize> = None;
    fn size(&self) -> usize {
        self.0.size()
    }
    fn encode<S: underpass_wire::Sink + ?Sized>(&self, to: &mut S) {
        self.0.encode(to);
    }
}

impl Decode for Tree {
    const LEAST: usize = <Vec<Tree>>::LEAST;
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        Vec::decode(from).map(Self)
    }
}

/// The same, shared.
#[derive(Debug, PartialEq)]
struct SharedTree(Option<Arc<SharedTree>>);

impl Encode for SharedTree {
    const FIXED: Option<usize> = None;
    fn size(&self) -> usize {
        self.0.size()
    }
    fn encode<S: underpass_wire::Sink + ?Sized>(&self, to: &mut S) {
        self.0.encode(to);
    }
}

impl Decode for SharedTree {
    const LEAST: usize = 1;
    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        Option::decode(from).map(Self)
    }
}

#[test]
fn a_chain_of_arcs_has_a_bottom() {
    assert_eq!(refused::<SharedTree>(&[1; 1 << 20]), DecodeError::TooDeep);
}

#[test]
fn a_recursive_value_has_a_bottom() {
    // As in a handler: on a small stack.
    let small = std::thread::Builder::new().stack_size(128 * 1024);
    let decoding = small.spawn(|| {
        let tower = |levels: u32| [&vec![1; levels as usize - 1][..], &[0]].concat();
        let tallest = from_bytes::<Tree>(&tower(DEEPEST)).expect("as deep as allowed");
        assert_eq!(to_bytes(&tallest), tower(DEEPEST));
        assert_eq!(refused::<Tree>(&tower(DEEPEST + 1)), DecodeError::TooDeep);
        assert_eq!(refused::<Tree>(&[1; 1 << 20]), DecodeError::TooDeep);
        // An error leaves nothing behind.
        assert!(from_bytes::<Tree>(&tower(DEEPEST)).is_ok());
    });
    decoding.unwrap().join().unwrap();
}

/// A source with only the required methods, which is not known at compile time.
struct Drip(Vec<u8>);

impl Source for Drip {
    fn remaining(&self) -> usize {
        self.0.len()
    }
    fn take(&mut self, out: &mut [u8]) -> Result<(), DecodeError> {
        if out.len() > self.0.len() {
            return Err(DecodeError::Truncated);
        }
        out.copy_from_slice(&self.0[..out.len()]);
        self.0.drain(..out.len());
        Ok(())
    }
}

#[test]
fn any_source_will_do() {
    let value = (7u64, "seven".to_owned(), vec![vec![1u16; 100]; 3]);
    let mut source = Drip(to_bytes(&value));
    let source: &mut dyn Source = &mut source;
    assert_eq!(Decode::decode(source), Ok(value));
    assert_eq!(source.take_vec(1), Err(DecodeError::Truncated));
}
