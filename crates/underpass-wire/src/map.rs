//! Maps and sets of both kinds. The other side may read a `HashMap` as a `BTreeMap`.

use crate::{Decode, DecodeError, Encode, Schema, Sink, Source, TypeName, Types, deeper_to, length};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

/// The bytes of what an iterator over references or pairs of them yields.
macro_rules! encode_elements {
    ($elements:ident, $($part:ident),+) => {
        const FIXED: Option<usize> = None;

        #[inline]
        fn size(&self) -> usize {
            length::size(self.len()) + self.iter().map(|$elements!($($part),+)| 0 $(+ $part.size())+).sum::<usize>()
        }

        #[inline]
        fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
            length::encode(self.len(), to);
            for $elements!($($part),+) in self {
                $($part.encode(to);)+
            }
        }
    };
}

macro_rules! entry {
    ($key:ident, $value:ident) => {
        ($key, $value)
    };
}

macro_rules! element {
    ($element:ident) => {
        $element
    };
}

impl<K: Encode, V: Encode, H> Encode for HashMap<K, V, H> {
    encode_elements!(entry, key, value);
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    encode_elements!(entry, key, value);
}

impl<T: Encode, H> Encode for HashSet<T, H> {
    encode_elements!(element, item);
}

impl<T: Encode> Encode for BTreeSet<T> {
    encode_elements!(element, item);
}

/// Takes elements into a collection without duplicates.
fn decode_into<T: Decode, C, S: Source + ?Sized>(
    of: &'static str,
    from: &mut S,
    make: impl FnOnce(usize) -> C,
    mut insert: impl FnMut(&mut C, T) -> bool,
) -> Result<C, DecodeError> {
    let len = length::decode::<T, S>(from)?;
    deeper_to::<T, _>(|| {
        let mut all = make(length::capacity::<T>(len, from.remaining()));
        for _ in 0..len {
            if !insert(&mut all, T::decode(from)?) {
                return Err(DecodeError::BadValue { of });
            }
        }
        Ok(all)
    })
}

impl<K: Decode + Eq + Hash, V: Decode, H: BuildHasher + Default> Decode for HashMap<K, V, H> {
    const LEAST: usize = 1;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let make = |capacity| Self::with_capacity_and_hasher(capacity, H::default());
        decode_into("HashMap", from, make, |all, (key, value)| all.insert(key, value).is_none())
    }
}

impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    const LEAST: usize = 1;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        decode_into("BTreeMap", from, |_| Self::new(), |all, (key, value)| all.insert(key, value).is_none())
    }
}

impl<T: Decode + Eq + Hash, H: BuildHasher + Default> Decode for HashSet<T, H> {
    const LEAST: usize = 1;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        let make = |capacity| Self::with_capacity_and_hasher(capacity, H::default());
        decode_into("HashSet", from, make, Self::insert)
    }
}

impl<T: Decode + Ord> Decode for BTreeSet<T> {
    const LEAST: usize = 1;

    fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
        decode_into("BTreeSet", from, |_| Self::new(), Self::insert)
    }
}

fn map<K: Schema, V: Schema>(types: &mut Types) -> TypeName {
    TypeName::generic("Map", &[K::schema(types), V::schema(types)])
}

fn set<T: Schema>(types: &mut Types) -> TypeName {
    TypeName::generic("Set", &[T::schema(types)])
}

impl<K: Schema + Eq + Hash, V: Schema, H: BuildHasher + Default> Schema for HashMap<K, V, H> {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        map::<K, V>(types)
    }
}

impl<K: Schema + Ord, V: Schema> Schema for BTreeMap<K, V> {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        map::<K, V>(types)
    }
}

impl<T: Schema + Eq + Hash, H: BuildHasher + Default> Schema for HashSet<T, H> {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        set::<T>(types)
    }
}

impl<T: Schema + Ord> Schema for BTreeSet<T> {
    type Itself = Self;

    fn schema(types: &mut Types) -> TypeName {
        set::<T>(types)
    }
}
