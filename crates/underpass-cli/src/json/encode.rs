//! From JSON to the bytes of a value.

use super::feed::StreamFeed;
use super::mismatch::{Mismatch, unlike};
use super::scalars::{
    address, call_error, character, duration, error_kind, float, integer, io_error, open, point, text,
};
use super::shape::{Catalog, JsonShape};
use super::{DEEPEST, buffers};
use serde_json::{Map, Value};
use std::sync::Arc;
use underpass::inspect::{FieldsView, StructureView, UntypedMessage};
use underpass::{Encode, Sealed};
use underpass_wire::{Sink, added, tag};

/// Encodes values of an interface's types.
#[derive(Debug)]
pub struct Encoder<'a> {
    types: &'a Catalog,
    /// The streams among the values, and what is to be sent over them.
    streams: Vec<StreamFeed>,
    depth: u32,
}

impl<'a> Encoder<'a> {
    /// An encoder of these types.
    pub fn new(types: &'a Catalog) -> Self {
        Self { types, streams: Vec::new(), depth: 0 }
    }

    /// Puts a value of type `shape`.
    ///
    /// # Errors
    /// The value is none of the type.
    pub fn put(&mut self, shape: &JsonShape, value: &Value, to: &mut dyn Sink) -> Result<(), Mismatch> {
        if self.depth >= DEEPEST {
            return Err("the value is nested too deeply to be sent".to_owned().into());
        }
        self.depth += 1;
        let put = self.put_inner(shape, value, to);
        self.depth -= 1;
        put
    }

    fn put_inner(&mut self, shape: &JsonShape, value: &Value, to: &mut dyn Sink) -> Result<(), Mismatch> {
        match shape {
            JsonShape::Unit if value.is_null() => {}
            JsonShape::Unit => return Err(unlike("null", value)),
            JsonShape::Bool => value.as_bool().ok_or_else(|| unlike("true or false", value))?.encode(to),
            JsonShape::Char => character(value)?.encode(to),
            JsonShape::Integer { signed, bytes, zero } => {
                to.put(&integer(value, *signed, *bytes, *zero)?[..*bytes])
            }
            JsonShape::F32 => (float(value)? as f32).encode(to),
            JsonShape::F64 => float(value)?.encode(to),
            JsonShape::Text => text(value)?.encode(to),
            JsonShape::OsText | JsonShape::Buffer => buffers::of_json(value)?.encode(to),
            JsonShape::Sealed => {
                let bytes = buffers::of_json(value)?;
                let sealed = Sealed::new(&bytes).map_err(|e| format!("there is no memory to seal: {e}"))?;
                sealed.encode(to);
            }
            JsonShape::Optional(inner) => self.optional(inner, value, to)?,
            JsonShape::Either(fine, error) => self.either(fine, error, value, to)?,
            JsonShape::List(element) => self.list(element, value, to)?,
            JsonShape::Map(key, of) => self.map(key, of, value, to)?,
            JsonShape::Tuple(parts) => self.parts(parts, value, to)?,
            JsonShape::Array(element, length) => self.array(element, *length, value, to)?,
            JsonShape::Range(bound) => {
                self.named(&[("start", bound.clone()), ("end", bound.clone())], value, to)?
            }
            JsonShape::Duration => duration(value)?.encode(to),
            JsonShape::SystemTime => point(value, to)?,
            JsonShape::Address(which) => address(*which, value, to)?,
            JsonShape::ErrorKind => error_kind(value)?.encode(to),
            JsonShape::IoError => io_error(value)?.encode(to),
            JsonShape::CallError => call_error(value)?.encode(to),
            JsonShape::OpenFile => open(value)?.encode(to),
            JsonShape::Stream(item, _) => self.streams.push(StreamFeed::put(item, value, to)?),
            JsonShape::Named(name) => self.structure(name, value, to)?,
            JsonShape::Interface(name) => {
                return Err(format!(
                    "an argument of type {name} can't be given: JSON has no implementations"
                )
                .into());
            }
        }
        Ok(())
    }

    /// The streams that were put, to be [fed](StreamFeed::start).
    pub fn into_streams(self) -> Vec<StreamFeed> {
        self.streams
    }

    fn optional(&mut self, inner: &JsonShape, value: &Value, to: &mut dyn Sink) -> Result<(), Mismatch> {
        let wrapped = matches!(inner, JsonShape::Optional(_) | JsonShape::Unit);
        let value = match value {
            Value::Null => None,
            Value::Object(object) if wrapped && object.len() == 1 => object.get("some"),
            value if wrapped => return Err(unlike("null or {\"some\": ..}", value)),
            value => Some(value),
        };
        value.is_some().encode(to);
        value.map_or(Ok(()), |value| self.put(inner, value, to))
    }

    fn either(
        &mut self,
        fine: &JsonShape,
        error: &JsonShape,
        value: &Value,
        to: &mut dyn Sink,
    ) -> Result<(), Mismatch> {
        let object = value.as_object().filter(|object| object.len() == 1);
        let found = object.and_then(|object| object.iter().next());
        let (bit, shape, inner) = match found {
            Some((name, inner)) if name == "ok" => (false, fine, inner),
            Some((name, inner)) if name == "err" => (true, error, inner),
            _ => return Err(unlike("{\"ok\": ..} or {\"err\": ..}", value)),
        };
        bit.encode(to);
        self.put(shape, inner, to)
    }

    fn list(&mut self, element: &JsonShape, value: &Value, to: &mut dyn Sink) -> Result<(), Mismatch> {
        let items = value.as_array().ok_or_else(|| unlike("an array", value))?;
        put_length(items.len(), to);
        items.iter().enumerate().try_for_each(|(index, item)| {
            self.put(element, item, to).map_err(|e| e.within(format!("element {index}")))
        })
    }

    fn map(
        &mut self,
        key: &JsonShape,
        of: &JsonShape,
        value: &Value,
        to: &mut dyn Sink,
    ) -> Result<(), Mismatch> {
        match value {
            Value::Object(entries) => {
                put_length(entries.len(), to);
                entries.iter().try_for_each(|(name, value)| {
                    let as_text = Value::String(name.clone());
                    let as_key = match key {
                        JsonShape::Bool => serde_json::from_str(name).unwrap_or(as_text),
                        _ => as_text,
                    };
                    self.put(key, &as_key, to).map_err(|e| e.within(format!("key {name:?}")))?;
                    self.put(of, value, to).map_err(|e| e.within(format!("entry {name:?}")))
                })
            }
            Value::Array(pairs) => {
                put_length(pairs.len(), to);
                pairs.iter().enumerate().try_for_each(|(index, pair)| {
                    let [name, value] = pair
                        .as_array()
                        .and_then(|pair| pair.as_slice().first_chunk::<2>().filter(|_| pair.len() == 2))
                        .ok_or_else(|| unlike("a pair", pair))?;
                    let put = self.put(key, name, to).and_then(|()| self.put(of, value, to));
                    put.map_err(|e| e.within(format!("pair {index}")))
                })
            }
            _ => Err(unlike("an object, or an array of pairs", value)),
        }
    }

    /// The length comes from the server, so nothing is reserved for it.
    fn array(
        &mut self,
        element: &JsonShape,
        length: usize,
        value: &Value,
        to: &mut dyn Sink,
    ) -> Result<(), Mismatch> {
        let items = value.as_array().filter(|items| items.len() == length);
        let items = items.ok_or_else(|| unlike(format_args!("an array of {length}"), value))?;
        items.iter().enumerate().try_for_each(|(index, item)| {
            self.put(element, item, to).map_err(|e| e.within(format!("element {index}")))
        })
    }

    /// Parts with positions.
    fn parts(&mut self, parts: &[Arc<JsonShape>], value: &Value, to: &mut dyn Sink) -> Result<(), Mismatch> {
        let items = value.as_array().filter(|items| items.len() == parts.len());
        let items = items.ok_or_else(|| unlike(format_args!("an array of {}", parts.len()), value))?;
        parts.iter().zip(items).enumerate().try_for_each(|(index, (part, item))| {
            self.put(part, item, to).map_err(|e| e.within(format!("element {index}")))
        })
    }

    /// Fields with names. An optional field may be left out.
    fn named(
        &mut self,
        fields: &[(&str, Arc<JsonShape>)],
        value: &Value,
        to: &mut dyn Sink,
    ) -> Result<(), Mismatch> {
        let object = fields_of(fields.iter().map(|(name, _)| *name), value)?;
        fields.iter().try_for_each(|(name, shape)| self.field(name, shape, object, to))
    }

    fn field(
        &mut self,
        name: &str,
        shape: &JsonShape,
        object: &Map<String, Value>,
        to: &mut dyn Sink,
    ) -> Result<(), Mismatch> {
        let value = match (object.get(name), shape) {
            (Some(value), _) => value,
            (None, JsonShape::Optional(_) | JsonShape::Unit) => &Value::Null,
            (None, _) => return Err(format!("the field `{name}` is missing").into()),
        };
        self.put(shape, value, to).map_err(|e| e.within(format!("field `{name}`")))
    }

    fn structure(&mut self, name: &str, value: &Value, to: &mut dyn Sink) -> Result<(), Mismatch> {
        match self.types.structure(name) {
            Some(StructureView::Struct(fields)) => self.fields(fields, value, to),
            Some(StructureView::Extensible { first, added }) => self.extensible(first, added, value, to),
            Some(StructureView::Enum(variants)) => {
                let (variant, content) = match value {
                    Value::String(variant) => (variant, &Value::Null),
                    Value::Object(object) if object.len() == 1 => {
                        object.iter().next().ok_or_else(|| unlike("a variant", value))?
                    }
                    _ => return Err(unlike(format_args!("a variant of {name}"), value)),
                };
                let Some(index) = variants.iter().position(|known| known.name == *variant) else {
                    let known: Vec<_> = variants.iter().map(|variant| variant.name.as_str()).collect();
                    let known = known.join(", ");
                    return Err(format!("{name} has no variant {variant:?}, but {known}").into());
                };
                tag::encode(index as u32, variants.len(), to);
                self.fields(&variants[index].fields, content, to)
                    .map_err(|e| e.within(format!("variant `{variant}`")))
            }
            _ => Err(format!("the server does not say what {name} is").into()),
        }
    }

    fn fields(&mut self, fields: &FieldsView, value: &Value, to: &mut dyn Sink) -> Result<(), Mismatch> {
        match fields {
            FieldsView::Unit if value.is_null() => Ok(()),
            FieldsView::Unit => Err(unlike("no fields", value)),
            FieldsView::Tuple(types) => {
                let shapes: Vec<_> = types.iter().map(|of| self.types.shape(of)).collect::<Result<_, _>>()?;
                match &shapes[..] {
                    [one] => self.put(one, value, to),
                    _ => self.parts(&shapes, value, to),
                }
            }
            FieldsView::Named(fields) => {
                let shapes: Vec<_> = self.shapes(fields)?;
                self.named(&shapes, value, to)
            }
        }
    }

    fn shapes<'f>(&self, fields: &'f [(String, String)]) -> Result<Vec<(&'f str, Arc<JsonShape>)>, Mismatch> {
        let shapes =
            fields.iter().map(|(name, of)| Ok::<_, Mismatch>((name.as_str(), self.types.shape(of)?)));
        shapes.collect()
    }

    /// A struct to which fields were added. Those at the end may be left out: the server then fills
    /// in its defaults.
    fn extensible(
        &mut self,
        first: &[(String, String)],
        added: &[(String, String)],
        value: &Value,
        to: &mut dyn Sink,
    ) -> Result<(), Mismatch> {
        let object = fields_of(first.iter().chain(added).map(|(name, _)| name.as_str()), value)?;
        for (name, shape) in self.shapes(first)? {
            self.field(name, &shape, object, to)?;
        }
        let given = added.iter().rposition(|(name, _)| object.contains_key(name)).map_or(0, |last| last + 1);
        let mut envelope = UntypedMessage::default();
        for (name, shape) in self.shapes(&added[..given])? {
            self.field(name, &shape, object, &mut envelope)?;
        }
        let count = u8::try_from(given).map_err(|_| "the server describes too many fields".to_owned())?;
        added::encode(count, envelope.size(), to, |to| envelope.encode(to));
        Ok(())
    }
}

/// The object that has no other fields than `known`.
fn fields_of<'v, 'k>(
    known: impl Iterator<Item = &'k str> + Clone,
    value: &'v Value,
) -> Result<&'v Map<String, Value>, Mismatch> {
    let names = || known.clone().collect::<Vec<_>>().join(", ");
    let object =
        value.as_object().ok_or_else(|| unlike(format_args!("an object with {}", names()), value))?;
    match object.keys().find(|name| !known.clone().any(|known| known == name.as_str())) {
        Some(name) => Err(format!("there is no field `{name}`, but {}", names()).into()),
        None => Ok(object),
    }
}

/// How many elements follow.
fn put_length(length: usize, to: &mut dyn Sink) {
    match u8::try_from(length) {
        Ok(short) if short < u8::MAX => short.encode(to),
        _ => (u8::MAX, length as u64).encode(to),
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::tests::catalog;
    use super::*;

    #[test]
    fn a_value_of_a_type_that_contains_itself_ends() {
        let of = |name: &str| StructureView::Struct(FieldsView::Tuple(vec![name.to_owned()]));
        let types = catalog(&[("A", of("A")), ("Next", of("Option<Next>"))]);
        let put = |name: &str, value: &Value| {
            let mut message = UntypedMessage::default();
            Encoder::new(&types).put(&types.shape(name).unwrap(), value, &mut message)
        };
        for (name, value) in [("A", Value::Null), ("A", 1.into()), ("Next", 1.into())] {
            let refused = put(name, &value).unwrap_err().to_string();
            assert!(refused.contains("nested too deeply"), "{name}: {refused}");
        }
        assert_eq!(put("Next", &Value::Null), Ok(()));
    }
}
