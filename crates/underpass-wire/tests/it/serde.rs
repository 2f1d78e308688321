//! Every type of serde travels.
#![cfg(feature = "serde")]

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Debug;
use underpass_wire::{DecodeError, Encode, Schema, Serde, Types, from_bytes, to_bytes};

fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
    let bytes = to_bytes(&Serde(&value));
    assert_eq!(bytes.len(), Serde(&value).size());
    assert_eq!(from_bytes::<Serde<T>>(&bytes).as_ref().map(|Serde(back)| back), Ok(&value));
    for cut in 0..bytes.len() {
        assert!(from_bytes::<Serde<T>>(&bytes[..cut]).is_err(), "{cut} bytes of {value:?}");
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Everything {
    numbers: (u8, i8, u16, i16, u32, i32, u64, i64, u128, i128, f32, f64),
    text: (char, String, Box<str>),
    nothing: ((), Unit, Option<()>, Option<Option<u8>>),
    many: (Vec<u8>, [u16; 3], BTreeMap<u32, Newtype>),
    variants: Vec<Variants>,
    boxed: Option<Box<Everything>>,
    result: Result<bool, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unit;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Newtype(String);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Variants {
    Unit,
    Newtype(Newtype),
    Tuple(u8, Vec<Variants>),
    Struct { a: u8, b: Option<u8> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Internal {
    Unit,
    Struct { a: u8 },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(u64),
    Text(String),
    Struct { a: Variants },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<u8>,
    #[serde(default)]
    defaulted: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

fn everything(text: String, numbers: Vec<u8>, n: i128) -> Everything {
    Everything {
        numbers: (1, -1, 2, -2, 3, -3, 4, -4, n as u128, n, 0.5, n as f64),
        text: ('ü', text.clone(), text.clone().into()),
        nothing: ((), Unit, Some(()), Some(None)),
        many: (numbers.clone(), [1, 2, 3], [(7, Newtype(text.clone()))].into()),
        variants: vec![
            Variants::Unit,
            Variants::Newtype(Newtype(text.clone())),
            Variants::Tuple(1, vec![Variants::Unit]),
            Variants::Struct { a: 1, b: None },
        ],
        boxed: None,
        result: Err(text),
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..6).prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn derived_types_come_back(text in any::<String>(), numbers in vec(any::<u8>(), 0..9), n in any::<i128>()) {
        let inner = everything(text.clone(), numbers.clone(), n);
        comes_back(Everything { boxed: Some(Box::new(inner)), ..everything(text, numbers, n) });
    }

    #[test]
    fn json_comes_back(value in json()) {
        comes_back(value);
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in vec(prop_oneof![any::<u8>(), 0u8..24, Just(1)], 0..100)) {
        let bytes = [&[1][..], &bytes].concat();
        let _ = from_bytes::<Serde<Everything>>(&bytes);
        let _ = from_bytes::<Serde<Value>>(&bytes);
        let _ = from_bytes::<Serde<Vec<()>>>(&bytes);
        let _ = from_bytes::<Serde<Untagged>>(&bytes);
        let _ = from_bytes::<Serde<Variants>>(&bytes);
    }
}

#[test]
fn enums_of_every_representation_come_back() {
    comes_back(vec![Internal::Unit, Internal::Struct { a: 1 }]);
    comes_back(vec![
        Untagged::Number(7),
        Untagged::Text("seven".into()),
        Untagged::Struct { a: Variants::Tuple(1, vec![Variants::Unit]) },
    ]);
}

#[test]
fn fields_that_are_skipped_or_flattened_come_back() {
    let rest = [("x".to_owned(), json!([1, { "y": null }]))].into();
    comes_back(Flat { missing: None, defaulted: 3, rest });
}

/// As deep as it is told to be.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Nest(Vec<Nest>);

#[test]
fn a_recursive_value_has_a_bottom() {
    let small = std::thread::Builder::new().stack_size(256 * 1024);
    let decoding = small.spawn(|| {
        // The kinds of sequence and of some, a million times.
        for kind in [20, 21] {
            let bytes = [&[1][..], &vec![kind; 1_000_000]].concat();
            assert!(from_bytes::<Serde<Nest>>(&bytes).is_err());
            assert_eq!(from_bytes::<Serde<Value>>(&bytes), Err(DecodeError::TooDeep));
        }
        let bytes = [&[1][..], &[21; 1_000_000]].concat();
        assert_eq!(from_bytes::<Serde<Nest>>(&bytes), Err(DecodeError::TooDeep));
    });
    decoding.unwrap().join().unwrap();
}

struct Refuses;

impl Serialize for Refuses {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("no"))
    }
}

#[test]
fn a_value_that_serde_refuses_is_an_error_at_the_other_side() {
    let bytes = to_bytes(&(Serde((1, Refuses)), 7u8));
    assert_eq!(bytes, [0, 7]);
    assert_eq!(from_bytes::<(Serde<u8>, u8)>(&bytes), Err(DecodeError::Serde));
}

#[test]
fn the_schema_has_the_types_name() {
    let name = <Vec<Serde<BTreeMap<u8, Everything>>>>::schema(&mut Types::new());
    assert_eq!(name.as_str(), "Vec<Serde<BTreeMap<u8, Everything>>>");
}
