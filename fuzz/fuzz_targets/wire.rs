//! Any bytes decode to a value or an error, and a value survives encoding and decoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::num::NonZero;
use std::time::Duration;
use underpass_fuzz::{Extended, Fields, Shape, Tree};
use underpass_wire::{Decode, Encode, from_bytes, to_bytes};

/// Decodes the bytes as a `T`, encodes it, and decodes it again.
fn decode<T: Encode + Decode>(bytes: &[u8]) {
    let mut left = bytes;
    let Ok(value) = T::decode(&mut left) else { return };
    let taken = bytes.len() - left.len();
    let again = to_bytes(&value);
    assert_eq!(again.len(), value.size());
    assert!(T::LEAST <= taken && T::FIXED.is_none_or(|fixed| fixed == taken && fixed == again.len()));
    let back = from_bytes::<T>(&again).unwrap_or_else(|e| panic!("what was encoded: {e}"));
    // The order of a map's elements may differ.
    assert_eq!(to_bytes(&back).len(), again.len());
}

/// The decoder that `number` chooses.
macro_rules! one_of {
    ($number:expr, $bytes:expr; $($type:ty),* $(,)?) => {{
        let decoders: &[fn(&[u8])] = &[$(decode::<$type>),*];
        decoders[usize::from($number) % decoders.len()]($bytes);
    }};
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&number, bytes)) = bytes.split_first() else { return };
    one_of!(number, bytes;
        Fields, Shape, Tree, Extended, Vec<Extended>, Option<Box<Extended>>,
        u8, u16, i32, u64, i128, usize, isize, f32, f64, bool, char, (), Duration, NonZero<u32>,
        [u8; 7], [u32; 40], [bool; 3], [String; 2], (u8, char), (String, Vec<u8>, Option<u64>),
        Option<String>, Result<u16, String>, String, Box<str>, Box<[u16]>, Box<u8>,
        Vec<u8>, Vec<i64>, Vec<usize>, Vec<()>, Vec<Vec<()>>, Vec<String>, Vec<Option<[u8; 100]>>, VecDeque<bool>,
        HashMap<u8, u8>, HashMap<String, Vec<u8>>, BTreeMap<u16, ()>, HashSet<()>, HashSet<char>, BTreeSet<String>,
        Vec<BTreeMap<u8, Vec<Option<Box<u8>>>>>, Vec<Fields>, Option<Box<Fields>>, BTreeMap<Vec<u8>, Shape>,
        Vec<[(); 9]>, Vec<Option<[u64; 8192]>>, [[Vec<u8>; 3]; 2], Result<(), Shape>,
        Vec<(u8, Vec<(u8, Vec<(u8, Vec<u8>)>)>)>, Vec<[u16; 3]>, Vec<bool>, Vec<char>, Vec<f64>, Vec<Duration>,
    );
});
