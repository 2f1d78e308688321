//! Every type comes back unchanged, takes as many bytes as it says, and is refused with one byte
//! less or more.

use proptest::collection::{btree_map, btree_set, hash_map, hash_set, vec, vec_deque};
use proptest::prelude::*;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::ops::{Range, RangeInclusive};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use underpass_wire::{Decode, DecodeError, Encode, SliceSink, from_bytes, to_bytes};

fn comes_back<T: Encode + Decode + Debug>(value: &T, same: impl Fn(&T, &T) -> bool) {
    let bytes = to_bytes(value);
    assert_eq!(bytes.len(), value.size(), "the size of {value:?}");
    assert!(T::FIXED.is_none_or(|size| size == bytes.len()), "the fixed size of {value:?}");
    assert!(T::LEAST <= bytes.len(), "the least size of {value:?}");

    let mut exact = vec![0; bytes.len()];
    let mut sink = SliceSink::new(&mut exact);
    (&value).encode(&mut sink);
    assert!(sink.left() == 0 && !sink.overflowed(), "{value:?} into a slice");
    assert_eq!(exact, bytes);

    let back: T = from_bytes(&bytes).expect("what was encoded decodes");
    assert!(same(value, &back), "{value:?} came back as {back:?}");

    // Every shorter message, or a selection if there are many.
    for cut in (0..bytes.len()).step_by(1 + bytes.len() / 50) {
        assert!(from_bytes::<T>(&bytes[..cut]).is_err(), "{cut} bytes of {value:?}");
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(from_bytes::<T>(&longer).err(), Some(DecodeError::LeftOver(1)));
}

macro_rules! round_trips {
    ($($name:ident: $type:ty = $values:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(64))]
            $(#[test]
            fn $name(value in $values) {
                comes_back::<$type>(&value, |a, b| a == b);
            })*
        }
    };
}

round_trips! {
    u8_: u8 = any::<u8>();
    i8_: i8 = any::<i8>();
    u16_: u16 = any::<u16>();
    i16_: i16 = any::<i16>();
    u32_: u32 = any::<u32>();
    i32_: i32 = any::<i32>();
    u64_: u64 = any::<u64>();
    i64_: i64 = any::<i64>();
    u128_: u128 = any::<u128>();
    i128_: i128 = any::<i128>();
    usize_: usize = any::<usize>();
    isize_: isize = any::<isize>();
    bool_: bool = any::<bool>();
    char_: char = any::<char>();
    unit: () = Just(());
    non_zero: (NonZero<u8>, NonZero<i128>, NonZero<usize>) = (any::<NonZero<u8>>(), any::<NonZero<i128>>(), any::<NonZero<usize>>());
    duration: Duration = any::<Duration>();
    system_time: SystemTime = any::<(bool, u64, u32)>().prop_map(|(before, seconds, nanos)| {
        let distance = Duration::new(seconds >> 1, nanos % 1_000_000_000);
        if before { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    });
    path: PathBuf = vec(any::<u8>(), 0..300).prop_map(|bytes| OsString::from_vec(bytes).into());
    os_string: OsString = vec(any::<u8>(), 0..300).prop_map(OsString::from_vec);
    ip_address: IpAddr = any::<IpAddr>();
    socket_address: SocketAddr = any::<SocketAddr>();
    range: Range<u64> = any::<Range<u64>>();
    empty_range: Range<u8> = any::<(u8, u8)>().prop_map(|(start, end)| start..end);
    inclusive_range: RangeInclusive<char> = any::<RangeInclusive<char>>();
    range_of_strings: Range<String> = any::<(String, String)>().prop_map(|(start, end)| start..end);
    shared: Arc<(u8, String)> = any::<(u8, String)>().prop_map(Arc::new);
    shared_str: Arc<str> = any::<String>().prop_map(Arc::from);
    shared_slice: Arc<[u16]> = vec(any::<u16>(), 0..9).prop_map(Arc::from);
    cow_str: Cow<'static, str> = any::<String>().prop_map(Cow::Owned);
    cow_slice: Cow<'static, [u32]> = vec(any::<u32>(), 0..40).prop_map(Cow::Owned);
    cow_of_a_number: Cow<'static, u64> = any::<u64>().prop_map(Cow::Owned);
    array: [u16; 5] = any::<[u16; 5]>();
    array_of_bytes: [u8; 32] = any::<[u8; 32]>();
    array_of_strings: [String; 3] = any::<[String; 3]>();
    large_array: [u64; 32] = any::<[u64; 32]>();
    tuple_of_1: (u8,) = any::<(u8,)>();
    tuple_of_3: (u8, String, Option<bool>) = any::<(u8, String, Option<bool>)>();
    tuple_of_10: (u8, i8, u16, i16, u32, i32, u64, i64, bool, char) = any::<(u8, i8, u16, i16, u32, i32, u64, i64, bool, char)>();
    tuple_of_12: (u8, u8, u8, u8, u8, u8, u8, u8, u8, (), [u8; 2], String) = (any::<(u8, u8, u8, u8, u8, u8, u8, u8, u8)>(), any::<[u8; 2]>(), any::<String>())
        .prop_map(|((a, b, c, d, e, f, g, h, i), k, l)| (a, b, c, d, e, f, g, h, i, (), k, l));
    option: Option<Option<u32>> = any::<Option<Option<u32>>>();
    result: Result<String, u8> = any::<Result<String, u8>>();
    string: String = ".{0,600}";
    boxed: Box<(u8, String)> = any::<(u8, String)>().prop_map(Box::new);
    boxed_str: Box<str> = any::<String>().prop_map(String::into_boxed_str);
    boxed_slice: Box<[u16]> = vec(any::<u16>(), 0..9).prop_map(Vec::into_boxed_slice);
    bytes: Vec<u8> = vec(any::<u8>(), 0..1000);
    signed_bytes: Vec<i8> = vec(any::<i8>(), 0..6000);
    shorts: Vec<u16> = vec(any::<u16>(), 0..6000);
    longs: Vec<i64> = vec(any::<i64>(), 0..1500);
    giants: Vec<u128> = vec(any::<u128>(), 0..700);
    sizes: Vec<usize> = vec(any::<usize>(), 0..1500);
    strings: Vec<String> = vec(any::<String>(), 0..20);
    nested: Vec<Vec<(u8, Vec<u32>)>> = vec(vec((any::<u8>(), vec(any::<u32>(), 0..5)), 0..5), 0..5);
    units: Vec<()> = vec(Just(()), 0..300);
    deque: VecDeque<u32> = vec_deque(any::<u32>(), 0..100).prop_map(|mut all| {
        all.rotate_left(all.len() / 2);
        all
    });
    hash_map_: HashMap<String, Vec<u8>> = hash_map(any::<String>(), vec(any::<u8>(), 0..9), 0..20);
    btree_map_: BTreeMap<u32, (bool, char)> = btree_map(any::<u32>(), any::<(bool, char)>(), 0..300);
    hash_set_: HashSet<(u8, u8)> = hash_set(any::<(u8, u8)>(), 0..300);
    btree_set_: BTreeSet<String> = btree_set(any::<String>(), 0..20);
}

proptest! {
    #[test]
    fn floats(small in prop::num::f32::ANY, large in vec(prop::num::f64::ANY, 0..40)) {
        comes_back(&small, |a, b| a.to_bits() == b.to_bits());
        comes_back(&large, |a, b| a.iter().map(|n| n.to_bits()).eq(b.iter().map(|n| n.to_bits())));
    }

    #[test]
    fn a_borrowed_value_arrives_as_if_owned(text in any::<String>(), numbers in vec(any::<u32>(), 0..50), pair in any::<(u8, bool)>()) {
        let lent = to_bytes(&(text.as_str(), &numbers[..], &pair));
        prop_assert_eq!(&lent, &to_bytes(&(text.clone(), numbers.clone(), pair)));
        prop_assert_eq!(from_bytes(&lent), Ok((text, numbers, pair)));
    }

    #[test]
    fn one_kind_of_map_arrives_as_the_other(map in hash_map(any::<u16>(), any::<String>(), 0..20)) {
        let sorted: BTreeMap<u16, String> = from_bytes(&to_bytes(&map)).unwrap();
        let again: HashMap<u16, String> = from_bytes(&to_bytes(&sorted)).unwrap();
        prop_assert_eq!(map, again);
    }
}

#[test]
fn the_ends_of_time_come_back() {
    let last = UNIX_EPOCH + Duration::new(i64::MAX as u64, 999_999_999);
    let first = UNIX_EPOCH - Duration::from_secs(1 << 63);
    for time in [first, first + Duration::from_nanos(1), UNIX_EPOCH, SystemTime::now(), last] {
        comes_back(&time, |a, b| a == b);
    }
    let [before, after] = [UNIX_EPOCH - Duration::from_nanos(1), UNIX_EPOCH + Duration::from_nanos(1)];
    assert_eq!(to_bytes(&before), [&[255; 8][..], &999_999_999u32.to_le_bytes()].concat());
    assert_eq!(to_bytes(&after), [&[0; 8][..], &[1, 0, 0, 0]].concat());
}

#[test]
fn addresses_have_the_bytes_that_the_format_says() {
    let address: SocketAddr = "127.0.0.1:258".parse().unwrap();
    assert_eq!(to_bytes(&address), [0, 127, 0, 0, 1, 2, 1]);
    assert_eq!(to_bytes(&"::1".parse::<IpAddr>().unwrap()), [&[1][..], &[0; 15], &[1]].concat());
}

/// Errors cannot be compared as values, but their kind, code and text can.
#[test]
fn errors_of_the_system_come_back() {
    let same = |a: &io::Error, b: &io::Error| {
        (a.kind(), a.raw_os_error(), a.to_string()) == (b.kind(), b.raw_os_error(), b.to_string())
    };
    for error in [
        io::Error::from_raw_os_error(2),
        io::Error::from_raw_os_error(24),
        io::Error::from_raw_os_error(-1),
        io::ErrorKind::UnexpectedEof.into(),
        io::Error::new(io::ErrorKind::InvalidData, "the image has no header"),
        io::Error::other(DecodeError::BadUtf8),
    ] {
        comes_back(&error, same);
    }
    let kept: io::Error = from_bytes(&to_bytes(&io::Error::from(io::ErrorKind::NotFound))).unwrap();
    assert!(kept.get_ref().is_none(), "a kind alone stays one");
}

#[test]
fn a_borrowed_path_arrives_as_its_owned_type() {
    let path = std::path::Path::new("/etc/hosts");
    assert_eq!(from_bytes(&to_bytes(&(path, path.as_os_str()))), Ok((path.to_owned(), OsString::from(path))));
}

#[test]
fn a_long_list_is_longer_than_every_chunk() {
    let numbers: Vec<u32> = (0..100_003).collect();
    comes_back(&numbers, |a, b| a == b);
    let bytes: Vec<u8> = numbers.iter().map(|n| *n as u8).collect();
    comes_back(&bytes, |a, b| a == b);
}

#[test]
fn sizes_that_are_fixed_are_known() {
    assert_eq!(<(u32, u64, u32)>::FIXED, Some(16));
    assert_eq!(<[(bool, char); 3]>::FIXED, Some(15));
    assert_eq!(<()>::FIXED, Some(0));
    assert_eq!(<&Duration>::FIXED, Some(12));
    assert_eq!(<(SystemTime, Range<u32>, io::ErrorKind)>::FIXED, Some(21));
    assert_eq!(<(std::net::SocketAddrV6, std::net::Ipv4Addr)>::FIXED, Some(30));
    assert_eq!(Cow::<u64>::FIXED, Some(8));
    assert_eq!(Arc::<u64>::FIXED, None);
    assert_eq!(<(u32, &str)>::FIXED, None);
    assert_eq!(Option::<u8>::FIXED, None);
}
