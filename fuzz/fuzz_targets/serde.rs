//! The format of serde values. Any bytes decode to a value or an error, and a value survives
//! encoding and decoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use underpass_wire::{Serde, from_bytes, to_bytes};

/// An enum with each kind of variant, distinguished by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Named {
    Unit,
    New(Box<Named>),
    Tuple(u8, String),
    Fields { a: Option<u32>, b: Vec<Named> },
}

/// An enum whose variants are distinguished by their content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(u64),
    Text(String),
    List(Vec<Untagged>),
    Fields { x: i8, y: Option<Box<Untagged>> },
    Nothing,
}

/// An enum whose variant name is one of its fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value")]
enum Adjacent {
    A(u16),
    B { c: (char, bool) },
}

/// A struct with everything that serde does with fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Odd {
    #[serde(default)]
    missing: u128,
    #[serde(rename = "other name", skip_serializing_if = "Option::is_none")]
    renamed: Option<[i16; 3]>,
    adjacent: Option<Adjacent>,
    #[serde(flatten)]
    rest: BTreeMap<String, Untagged>,
}

/// Decodes the bytes as a `T`, encodes it, and decodes it again.
fn decode<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(value) = from_bytes::<Serde<T>>(bytes) else { return };
    let again = to_bytes(&value);
    let back = from_bytes::<Serde<T>>(&again).unwrap_or_else(|e| panic!("what was encoded: {e}"));
    assert_eq!(to_bytes(&back).len(), again.len());
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&number, bytes)) = bytes.split_first() else { return };
    match number % 8 {
        0 => {
            // `Value` is compared where the type is one: it has no NaN, and its maps are sorted.
            if let Ok(Serde(value)) = from_bytes::<Serde<Value>>(bytes) {
                let Serde(back) = from_bytes::<Serde<Value>>(&to_bytes(&Serde(&value))).expect("a value");
                assert_eq!(back, value);
            }
        }
        1 => decode::<Named>(bytes),
        2 => decode::<Untagged>(bytes),
        3 => decode::<Odd>(bytes),
        4 => decode::<Vec<Adjacent>>(bytes),
        5 => decode::<HashMap<String, (u8, Option<f64>)>>(bytes),
        6 => decode::<(u8, i64, char, String, [bool; 2], Option<()>)>(bytes),
        _ => drop(from_bytes::<Vec<Serde<Named>>>(bytes)),
    }
});
