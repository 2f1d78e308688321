//! From the bytes of a value to JSON. The bytes come from an untrusted server.

use super::saved_files::{self, SavedFiles};
use super::shape::{Address, Catalog, JsonShape};
use super::{DEEPEST, buffers};
use serde_json::{Map, Value, json};
use std::io;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;
use underpass::inspect::{FieldsView, StructureView, UntypedMessage};
use underpass::stream::{Stream, StreamError};
use underpass::{CallError, Decode, Sealed};
use underpass_wire::added::AddedSource;
use underpass_wire::{DecodeError, Source, tag};

/// How many values may take no bytes, beside one for each byte that came.
const WEIGHTLESS: u64 = 4096;

/// Decodes values of an interface's types.
#[derive(Debug)]
pub struct Decoder<'a> {
    types: &'a Catalog,
    /// Where open files are saved, if they are.
    save: Option<SavedFiles>,
    files: usize,
    streams: Vec<UntypedStream>,
    depth: u32,
    /// How many values may still take no bytes.
    weightless: u64,
}

/// A stream that was among the values.
#[derive(Debug)]
pub struct UntypedStream {
    stream: Stream<UntypedMessage, UntypedMessage>,
    item: Arc<JsonShape>,
    error: Arc<JsonShape>,
}

impl<'a> Decoder<'a> {
    /// A decoder of these types. Open files are copied as `save` says, if it is there.
    pub fn new(types: &'a Catalog, save: Option<SavedFiles>) -> Self {
        Self { types, save, files: 0, streams: Vec::new(), depth: 0, weightless: 0 }
    }

    /// The value of type `shape` that is all of the message.
    ///
    /// # Errors
    /// The bytes are none of the type.
    pub fn whole(&mut self, shape: &JsonShape, message: &mut UntypedMessage) -> Result<Value, String> {
        self.weightless = WEIGHTLESS.saturating_add(message.remaining() as u64);
        let value = self.take(shape, message)?;
        match (message.remaining(), message.files()) {
            (0, 0) => Ok(value),
            (bytes, files) => Err(format!("{bytes} bytes and {files} files are left over after the value")),
        }
    }

    /// The streams that were among the values.
    pub fn into_streams(self) -> Vec<UntypedStream> {
        self.streams
    }

    fn take(&mut self, shape: &JsonShape, from: &mut dyn Source) -> Result<Value, String> {
        if self.depth >= DEEPEST {
            return Err("the values are nested too deeply to be shown".to_owned());
        }
        self.depth += 1;
        let before = from.remaining();
        let value = self.take_inner(shape, from);
        self.depth -= 1;
        // Values that take bytes are bounded by them, and by the depth. The others are counted, all
        // together: lists of lists of nothing multiply.
        if value.is_ok() && from.remaining() == before {
            let left = self.weightless.checked_sub(1);
            self.weightless = left.ok_or("there are too many values that take no bytes")?;
        }
        value
    }

    fn take_inner(&mut self, shape: &JsonShape, from: &mut dyn Source) -> Result<Value, String> {
        Ok(match shape {
            JsonShape::Unit => Value::Null,
            JsonShape::Bool => json!(take::<bool>(from)?),
            JsonShape::Char => json!(take::<char>(from)?.to_string()),
            JsonShape::Integer { signed, bytes, zero } => integer(*signed, *bytes, *zero, from)?,
            JsonShape::F32 => float(f64::from(take::<f32>(from)?)),
            JsonShape::F64 => float(take::<f64>(from)?),
            JsonShape::Text => json!(take::<String>(from)?),
            JsonShape::OsText => {
                let bytes = take::<Vec<u8>>(from)?;
                String::from_utf8(bytes).map_or_else(|e| buffers::to_json(e.as_bytes()), Value::String)
            }
            JsonShape::Buffer => buffers::to_json(&take::<Vec<u8>>(from)?),
            JsonShape::Sealed => buffers::to_json(&take::<Sealed>(from)?),
            JsonShape::Optional(inner) => self.optional(inner, from)?,
            JsonShape::Either(fine, error) => match take::<bool>(from)? {
                false => json!({ "ok": self.take(fine, from)? }),
                true => json!({ "err": self.take(error, from)? }),
            },
            JsonShape::List(element) => {
                let length = length(from)?;
                let elements = (0..length).map(|_| self.take(element, from)).collect::<Result<_, _>>()?;
                Value::Array(elements)
            }
            JsonShape::Map(key, of) => self.map(key, of, from)?,
            JsonShape::Tuple(parts) => {
                Value::Array(parts.iter().map(|part| self.take(part, from)).collect::<Result<_, _>>()?)
            }
            JsonShape::Array(element, length) => self.array(element, *length, from)?,
            JsonShape::Range(bound) => {
                json!({ "start": self.take(bound, from)?, "end": self.take(bound, from)? })
            }
            JsonShape::Duration => {
                let time = take::<Duration>(from)?;
                json!({ "secs": time.as_secs(), "nanos": time.subsec_nanos() })
            }
            JsonShape::SystemTime => {
                let (secs, nanos) = take::<(i64, u32)>(from)?;
                json!({ "secs": secs, "nanos": nanos })
            }
            JsonShape::Address(which) => address(*which, from)?,
            JsonShape::ErrorKind => json!(format!("{:?}", take::<ErrorKind>(from)?)),
            JsonShape::IoError => io_error(&take::<io::Error>(from)?),
            JsonShape::CallError => call_error(&take::<CallError>(from)?),
            JsonShape::OpenFile => {
                let number = self.files;
                self.files += 1;
                saved_files::to_json(take(from)?, number, self.save.as_mut())?
            }
            JsonShape::Stream(item, error) => {
                let stream = take(from)?;
                self.streams.push(UntypedStream { stream, item: item.clone(), error: error.clone() });
                json!({ "stream": self.streams.len() - 1 })
            }
            JsonShape::Named(name) => self.structure(name, from)?,
            JsonShape::Interface(name) => json!({ "interface": name.trim_start_matches("interface ") }),
        })
    }

    fn optional(&mut self, inner: &JsonShape, from: &mut dyn Source) -> Result<Value, String> {
        if !take::<bool>(from)? {
            return Ok(Value::Null);
        }
        let value = self.take(inner, from)?;
        let wrapped = matches!(inner, JsonShape::Optional(_) | JsonShape::Unit);
        Ok(if wrapped { json!({ "some": value }) } else { value })
    }

    fn array(&mut self, element: &JsonShape, length: usize, from: &mut dyn Source) -> Result<Value, String> {
        if length as u64 > WEIGHTLESS.max(from.remaining() as u64) {
            return Err(said(DecodeError::Truncated));
        }
        Ok(Value::Array((0..length).map(|_| self.take(element, from)).collect::<Result<_, _>>()?))
    }

    fn map(&mut self, key: &JsonShape, of: &JsonShape, from: &mut dyn Source) -> Result<Value, String> {
        let length = length(from)?;
        let pairs = (0..length).map(|_| Ok::<_, String>((self.take(key, from)?, self.take(of, from)?)));
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        let name = |key: &Value| match key {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(bit) => Some(bit.to_string()),
            _ => None,
        };
        let named = pairs.iter().map(|(key, value)| Some((name(key)?, value.clone())));
        Ok(match named.collect::<Option<Map<_, _>>>() {
            Some(object) => Value::Object(object),
            None => Value::Array(pairs.into_iter().map(|(key, value)| json!([key, value])).collect()),
        })
    }

    fn structure(&mut self, name: &str, from: &mut dyn Source) -> Result<Value, String> {
        let types = self.types;
        match types.structure(name) {
            Some(StructureView::Struct(fields)) => self.fields(fields, from),
            Some(StructureView::Extensible { first, added }) => {
                let mut object = Map::new();
                for (name, of) in first {
                    let shape = types.shape(of)?;
                    object.insert(name.clone(), self.take(&shape, from)?);
                }
                let mut source = AddedSource::begin(from).map_err(said)?;
                for (name, of) in added {
                    if source.has_next() {
                        let shape = types.shape(of)?;
                        object.insert(name.clone(), self.take(&shape, &mut source)?);
                    }
                }
                source.end().map_err(said)?;
                Ok(Value::Object(object))
            }
            Some(StructureView::Enum(variants)) => {
                let index = tag::decode(variants.len(), from).map_err(said)?;
                let variant = variants.get(index as usize);
                let variant = variant.ok_or_else(|| format!("{name} has no variant {index}"))?;
                Ok(match &variant.fields {
                    FieldsView::Unit => Value::String(variant.name.clone()),
                    fields => json!({ &variant.name: self.fields(fields, from)? }),
                })
            }
            _ => Err(format!("the server does not say what {name} is")),
        }
    }

    fn fields(&mut self, fields: &FieldsView, from: &mut dyn Source) -> Result<Value, String> {
        let types = self.types;
        let mut part = |of: &String| {
            let shape = types.shape(of)?;
            self.take(&shape, from)
        };
        Ok(match fields {
            FieldsView::Unit => Value::Null,
            FieldsView::Tuple(of) => match &of[..] {
                [one] => part(one)?,
                _ => Value::Array(of.iter().map(part).collect::<Result<_, _>>()?),
            },
            FieldsView::Named(fields) => {
                let fields = fields.iter().map(|(name, of)| Ok::<_, String>((name.clone(), part(of)?)));
                Value::Object(fields.collect::<Result<_, _>>()?)
            }
        })
    }
}

impl UntypedStream {
    /// The next item. `None` at the end of the stream.
    ///
    /// # Errors
    /// The stream has ended with an error, which the text says, or an item is no value of the type.
    pub fn next(&mut self, types: &Catalog) -> Result<Option<Value>, String> {
        let mut decoder = Decoder::new(types, None);
        match self.stream.recv() {
            Ok(None) => Ok(None),
            Ok(Some(mut item)) => decoder.whole(&self.item, &mut item).map(Some),
            Err(StreamError::Failed(mut error)) => {
                let error = decoder.whole(&self.error, &mut error)?;
                Err(format!("the stream ended with the error {error}"))
            }
            Err(e) => Err(format!("the stream ended: {e:?}")),
        }
    }
}

fn said(e: DecodeError) -> String {
    e.to_string()
}

fn take<T: Decode>(from: &mut dyn Source) -> Result<T, String> {
    T::decode(from).map_err(said)
}

/// How many elements follow. If they take no bytes, there are few.
fn length(from: &mut dyn Source) -> Result<u64, String> {
    let length = match take::<u8>(from)? {
        u8::MAX => take::<u64>(from)?,
        short => u64::from(short),
    };
    if length > WEIGHTLESS.max(from.remaining() as u64) {
        return Err(said(DecodeError::Truncated));
    }
    Ok(length)
}

fn integer(signed: bool, bytes: usize, zero: bool, from: &mut dyn Source) -> Result<Value, String> {
    let mut number = [0; 16];
    from.take(&mut number[..bytes]).map_err(said)?;
    if !zero && number == [0; 16] {
        return Err("the bytes are no value of a NonZero".to_owned());
    }
    if signed && number[bytes - 1] & 0x80 != 0 {
        number[bytes..].fill(0xff);
        let number = i128::from_le_bytes(number);
        return Ok(i64::try_from(number).map_or_else(|_| json!(number.to_string()), |small| json!(small)));
    }
    let number = u128::from_le_bytes(number);
    Ok(u64::try_from(number).map_or_else(|_| json!(number.to_string()), |small| json!(small)))
}

fn float(number: f64) -> Value {
    match number.is_finite() {
        true => json!(number),
        false => json!(number.to_string()),
    }
}

fn address(which: Address, from: &mut dyn Source) -> Result<Value, String> {
    Ok(json!(match which {
        Address::V4 => take::<Ipv4Addr>(from)?.to_string(),
        Address::V6 => take::<Ipv6Addr>(from)?.to_string(),
        Address::Ip => take::<IpAddr>(from)?.to_string(),
        Address::SocketV4 => take::<SocketAddrV4>(from)?.to_string(),
        Address::SocketV6 => take::<SocketAddrV6>(from)?.to_string(),
        Address::Socket => take::<SocketAddr>(from)?.to_string(),
    }))
}

fn io_error(error: &io::Error) -> Value {
    match error.raw_os_error() {
        Some(code) => json!({ "os": code, "text": error.to_string() }),
        None => json!({ "kind": format!("{:?}", error.kind()), "text": error.to_string() }),
    }
}

/// Its number, by which it comes back, its own text, and what it means.
fn call_error(error: &CallError) -> Value {
    let bytes = underpass_wire::to_bytes(error);
    let (number, text): (u8, String) = underpass_wire::from_bytes(&bytes).unwrap_or_default();
    json!({ "number": number, "text": text, "means": error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::super::encode::Encoder;
    use super::super::shape::tests::catalog;
    use super::*;
    use underpass::inspect::VariantView;

    /// What becomes of a value that is encoded and decoded.
    fn round(types: &Catalog, name: &str, value: &Value) -> Result<Value, String> {
        let shape = types.shape(name)?;
        let mut message = UntypedMessage::default();
        Encoder::new(types).put(&shape, value, &mut message).map_err(|e| e.to_string())?;
        Decoder::new(types, None).whole(&shape, &mut message)
    }

    fn types() -> Catalog {
        let field = |name: &str, of: &str| (name.to_owned(), of.to_owned());
        let variant = |name: &str, fields| VariantView { name: name.to_owned(), fields };
        catalog(&[
            ("Id", StructureView::Struct(FieldsView::Tuple(vec!["u32".to_owned()]))),
            (
                "Row",
                StructureView::Struct(FieldsView::Named(vec![
                    field("id", "Id"),
                    field("note", "Option<String>"),
                ])),
            ),
            (
                "Any",
                StructureView::Enum(vec![
                    variant("None", FieldsView::Unit),
                    variant("Pair", FieldsView::Tuple(vec!["i8".to_owned(), "i8".to_owned()])),
                    variant("Rows", FieldsView::Named(vec![field("rows", "Vec<Row>")])),
                    variant("Again", FieldsView::Tuple(vec!["Option<Any>".to_owned()])),
                ]),
            ),
            (
                "Grows",
                StructureView::Extensible {
                    first: vec![field("a", "u8")],
                    added: vec![field("b", "String"), field("c", "u16")],
                },
            ),
        ])
    }

    /// Structs of which each has two of the next one, and the last one nothing.
    fn doubling() -> Catalog {
        let names: Vec<String> = (0..=40).map(|number| format!("T{number}")).collect();
        let of = |number: usize| match names.get(number + 1) {
            Some(next) => FieldsView::Named(["a", "b"].map(|name| (name.to_owned(), next.clone())).into()),
            None => FieldsView::Unit,
        };
        let types = names.iter().enumerate();
        let types: Vec<_> =
            types.map(|(number, name)| (name.as_str(), StructureView::Struct(of(number)))).collect();
        catalog(&types)
    }

    #[test]
    fn values_of_every_type_come_back() {
        let types = types();
        for (name, value) in [
            ("()", json!(null)),
            ("bool", json!(true)),
            ("char", json!("ß")),
            ("i8", json!(-128)),
            ("u64", json!(u64::MAX)),
            ("u128", json!(u128::MAX.to_string())),
            ("i128", json!(i128::MIN.to_string())),
            ("NonZero<i16>", json!(-1)),
            ("f32", json!(0.5)),
            ("f64", json!("NaN")),
            ("String", json!("text")),
            ("PathBuf", json!("/tmp/a")),
            ("Option<u8>", json!(null)),
            ("Option<Option<u8>>", json!({ "some": null })),
            ("Option<Option<u8>>", json!({ "some": 7 })),
            ("Result<u8, String>", json!({ "err": "no" })),
            ("Vec<u8>", json!({ "base64": "AAE=" })),
            ("Vec<u16>", json!((0..300).collect::<Vec<_>>())),
            ("Map<String, u8>", json!({ "a": 1, "b": 2 })),
            ("Map<u8, bool>", json!({ "1": true })),
            ("Map<bool, u8>", json!({ "true": 1 })),
            ("Map<(u8, u8), u8>", json!([[[1, 2], 3]])),
            ("(u8, String)", json!([1, "x"])),
            ("[u8; 3]", json!([1, 2, 3])),
            ("Range<u64>", json!({ "start": 1, "end": 9 })),
            ("Duration", json!({ "secs": 1, "nanos": 5 })),
            ("SystemTime", json!({ "secs": -1, "nanos": 5 })),
            ("IpAddr", json!("::1")),
            ("SocketAddrV4", json!("127.0.0.1:80")),
            ("io::ErrorKind", json!("NotFound")),
            ("io::Error", json!({ "kind": "NotFound", "text": "no such jar" })),
            ("Id", json!(7)),
            ("Row", json!({ "id": 7, "note": null })),
            ("Any", json!("None")),
            ("Any", json!({ "Pair": [1, -1] })),
            ("Any", json!({ "Rows": { "rows": [{ "id": 1, "note": "x" }] } })),
            ("Any", json!({ "Again": { "Again": null } })),
            ("Grows", json!({ "a": 1 })),
            ("Grows", json!({ "a": 1, "b": "x" })),
            ("Grows", json!({ "a": 1, "b": "x", "c": 9 })),
        ] {
            assert_eq!(round(&types, name, &value), Ok(value), "{name}");
        }
        let died = call_error(&CallError::Panicked("on purpose".to_owned()));
        assert_eq!(round(&types, "CallError", &died), Ok(died));
        assert_eq!(round(&types, "Duration", &json!(1.5)), Ok(json!({ "secs": 1, "nanos": 500_000_000 })));
    }

    #[test]
    fn an_error_names_the_place_and_what_was_expected() {
        let types = types();
        for (name, value, said) in [
            ("u8", json!(256), "expected an integer from 0 to 255, found 256"),
            ("i8", json!(-129), "expected an integer from -128 to 127, found -129"),
            ("NonZero<u8>", json!(0), "expected an integer other than 0"),
            ("Vec<u16>", json!([1, "x"]), "element 1: expected an integer from 0 to 65535, found \"x\""),
            ("Row", json!({ "note": null }), "the field `id` is missing"),
            ("Row", json!({ "id": 1, "nope": 2 }), "there is no field `nope`, but id, note"),
            (
                "Any",
                json!({ "Rows": { "rows": [{ "id": -1 }] } }),
                "variant `Rows`: field `rows`: element 0: field `id`: expected an integer from 0 to \
                 4294967295, found -1",
            ),
            ("Any", json!("Some"), "Any has no variant \"Some\", but None, Pair, Rows, Again"),
            ("Grows", json!({ "a": 1, "c": 1 }), "the field `b` is missing"),
            ("Option<()>", json!(1), "expected null or {\"some\": ..}, found 1"),
        ] {
            assert_eq!(round(&types, name, &value), Err(said.to_owned()));
        }
    }

    #[test]
    fn bytes_of_a_hostile_server_are_refused() {
        let (types, doubling) = (types(), doubling());
        let decoded = |name: &str, bytes: &[u8]| {
            let mut message = UntypedMessage::default();
            underpass_wire::Sink::put(&mut message, bytes);
            let types = if name == "T0" { &doubling } else { &types };
            Decoder::new(types, None).whole(&types.shape(name).unwrap(), &mut message)
        };
        let endless = [&[255][..], &u64::MAX.to_le_bytes()].concat();
        let full = [&[255][..], &4096_u64.to_le_bytes()].concat();
        for (name, bytes) in [
            ("Vec<u16>", &endless[..]),
            ("Vec<()>", &endless),
            ("String", &endless),
            ("Map<u8, u8>", &endless),
            ("[(); 1000000000]", &[]),
            ("Any", &[4]),
            ("Any", &[3; 1000]),
            ("Option<u8>", &[2]),
            ("char", &[255; 4]),
            ("u8", &[1, 2]),
            ("OwnedFd", &[]),
            ("Grows", &[1, 200]),
            // Nothing, very often.
            ("[[[(); 4096]; 4096]; 4096]", &[]),
            ("Vec<[(); 4096]>", &full),
            ("T0", &[]),
        ] {
            assert!(decoded(name, bytes).is_err(), "{name}");
        }
        assert!(decoded("[(); 4000]", &[]).is_ok());
        let many: Vec<u8> = [&[255][..], &20_000_u64.to_le_bytes(), &[0; 20_000]].concat();
        assert!(decoded("Vec<Result<(), String>>", &many).is_ok(), "one for each byte");
    }
}
