//! Values without parts, from JSON.

use super::mismatch::{Mismatch, unlike};
use super::shape::Address;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::str::FromStr;
use std::time::Duration;
use underpass::inspect::UntypedMessage;
use underpass::{CallError, Decode, Encode, Outcome};
use underpass_wire::Sink;

pub(super) fn text(value: &Value) -> Result<&str, Mismatch> {
    value.as_str().ok_or_else(|| unlike("a string", value))
}

pub(super) fn character(value: &Value) -> Result<char, Mismatch> {
    let mut letters = value.as_str().unwrap_or_default().chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => Ok(letter),
        _ => Err(unlike("a string of one character", value)),
    }
}

/// The bytes of an integer, of which those beyond `bytes` continue the sign.
pub(super) fn integer(value: &Value, signed: bool, bytes: usize, zero: bool) -> Result<[u8; 16], Mismatch> {
    let bits = 8 * bytes as u32;
    let (least, most) = match signed {
        true => (i128::MIN >> (128 - bits), (i128::MAX >> (128 - bits)) as u128),
        false => (0, u128::MAX >> (128 - bits)),
    };
    let wrong = || unlike(format_args!("an integer from {least} to {most}"), value);
    let digits = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.trim().to_owned(),
        _ => return Err(wrong()),
    };
    let number = match (digits.parse::<i128>(), digits.parse::<u128>()) {
        (Ok(number), _) if number < 0 && number >= least => number.to_le_bytes(),
        (_, Ok(number)) if number <= most => number.to_le_bytes(),
        _ => return Err(wrong()),
    };
    if !zero && number == [0; 16] {
        return Err("expected an integer other than 0".to_owned().into());
    }
    Ok(number)
}

pub(super) fn float(value: &Value) -> Result<f64, Mismatch> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
    number.ok_or_else(|| unlike("a number, \"NaN\", \"inf\" or \"-inf\"", value))
}

/// Seconds and nanoseconds, or a number of seconds.
fn seconds(value: &Value) -> Option<(i64, u32)> {
    if let Some(object) = value.as_object().filter(|object| object.len() == 2) {
        let nanos = object.get("nanos")?.as_u64().filter(|nanos| *nanos < 1_000_000_000)?;
        return Some((object.get("secs")?.as_i64()?, nanos as u32));
    }
    if let Some(whole) = value.as_i64() {
        return Some((whole, 0));
    }
    let seconds = value.as_f64().filter(|seconds| seconds.abs() < 1e15)?;
    let whole = seconds.floor();
    Some((whole as i64, ((seconds - whole) * 1e9) as u32))
}

pub(super) fn duration(value: &Value) -> Result<Duration, Mismatch> {
    let (secs, nanos) = seconds(value)
        .filter(|(secs, _)| *secs >= 0)
        .ok_or_else(|| unlike("a number of seconds, or {\"secs\": .., \"nanos\": ..}", value))?;
    Ok(Duration::new(secs as u64, nanos))
}

/// A point in time: as `SystemTime` travels.
pub(super) fn point(value: &Value, to: &mut dyn Sink) -> Result<(), Mismatch> {
    let expected = "seconds since 1970, or {\"secs\": .., \"nanos\": ..}";
    seconds(value).ok_or_else(|| unlike(expected, value))?.encode(to);
    Ok(())
}

pub(super) fn address(which: Address, value: &Value, to: &mut dyn Sink) -> Result<(), Mismatch> {
    fn put<T: FromStr + Encode>(what: &str, value: &Value, to: &mut dyn Sink) -> Result<(), Mismatch> {
        let address: Option<T> = value.as_str().and_then(|text| text.parse().ok());
        address.ok_or_else(|| unlike(what, value))?.encode(to);
        Ok(())
    }
    match which {
        Address::V4 => put::<Ipv4Addr>("an address such as \"127.0.0.1\"", value, to),
        Address::V6 => put::<Ipv6Addr>("an address such as \"::1\"", value, to),
        Address::Ip => put::<IpAddr>("an address such as \"127.0.0.1\" or \"::1\"", value, to),
        Address::SocketV4 => put::<SocketAddrV4>("an address such as \"127.0.0.1:80\"", value, to),
        Address::SocketV6 => put::<SocketAddrV6>("an address such as \"[::1]:80\"", value, to),
        Address::Socket => put::<SocketAddr>("an address such as \"127.0.0.1:80\"", value, to),
    }
}

pub(super) fn error_kind(value: &Value) -> Result<ErrorKind, Mismatch> {
    let mut kinds = (0..=u8::MAX).map_while(|number| underpass_wire::from_bytes::<ErrorKind>(&[number]).ok());
    let named = value.as_str().and_then(|name| kinds.find(|kind| format!("{kind:?}") == name));
    named.ok_or_else(|| unlike("the name of an io::ErrorKind, such as \"NotFound\"", value))
}

pub(super) fn io_error(value: &Value) -> Result<io::Error, Mismatch> {
    let other = || unlike("{\"os\": NUMBER} or {\"kind\": NAME, \"text\": ..}", value);
    let object = value.as_object().ok_or_else(other)?;
    if let Some(code) = object.get("os") {
        let code = code.as_i64().and_then(|code| i32::try_from(code).ok());
        return Ok(io::Error::from_raw_os_error(code.ok_or_else(other)?));
    }
    let kind = error_kind(object.get("kind").ok_or_else(other)?)?;
    match object.get("text").and_then(Value::as_str) {
        None | Some("") => Ok(kind.into()),
        Some(text) => Ok(io::Error::new(kind, text)),
    }
}

/// As [`Decoder`](super::Decoder) shows it: its number and its text.
pub(super) fn call_error(value: &Value) -> Result<CallError, Mismatch> {
    let other = || unlike("{\"number\": .., \"text\": ..}, or \"Overloaded\" or \"Closed\"", value);
    match value {
        Value::String(name) if name == "Overloaded" => Ok(CallError::Overloaded),
        Value::String(name) if name == "Closed" => Ok(CallError::Closed(Outcome::Unknown)),
        Value::Object(object) => {
            let number = object.get("number").and_then(Value::as_u64).and_then(|n| u8::try_from(n).ok());
            let text = object.get("text").and_then(Value::as_str).unwrap_or_default();
            let mut bytes = UntypedMessage::default();
            (number.ok_or_else(other)?, text).encode(&mut bytes);
            CallError::decode(&mut bytes).map_err(|_| other())
        }
        _ => Err(other()),
    }
}

/// The file that a path names, or `{"path": .., "mode": "r" | "w" | "a" | "rw"}`.
pub(super) fn open(value: &Value) -> Result<File, Mismatch> {
    let other = || unlike("a path, or {\"path\": .., \"mode\": \"r\", \"w\", \"a\" or \"rw\"}", value);
    let part = |name: &str| value.as_object().and_then(|object| object.get(name)?.as_str());
    let (path, mode) = match value.as_str() {
        Some(path) => (path, "r"),
        None => (part("path").ok_or_else(other)?, part("mode").unwrap_or("r")),
    };
    let mut options = OpenOptions::new();
    match mode {
        "r" => options.read(true),
        "w" => options.write(true).create(true).truncate(true),
        "a" => options.append(true).create(true),
        "rw" => options.read(true).write(true).create(true).truncate(false),
        _ => return Err(other()),
    };
    options.open(path).map_err(|e| format!("{path} can't be opened: {e}").into())
}
