//! Decodes serde's values from bytes.

use super::ValueKind;
use super::serde_error::SerdeError;
use crate::{Decode, DecodeError, Source, deeper};
use serde::de::value::StringDeserializer;
use serde::de::{self, DeserializeSeed, Error as _, IntoDeserializer, Unexpected, Visitor};

/// Reads one value after the other.
pub(super) struct Reader<'a, S: ?Sized> {
    from: &'a mut S,
    /// A kind that was read ahead and not used yet.
    ahead: Option<ValueKind>,
}

impl<'a, S: Source + ?Sized> Reader<'a, S> {
    pub(super) fn new(from: &'a mut S) -> Self {
        Self { from, ahead: None }
    }

    fn kind(&mut self) -> Result<ValueKind, SerdeError> {
        match self.ahead.take() {
            Some(kind) => Ok(kind),
            None => Ok(ValueKind::decode(self.from)?),
        }
    }

    /// Whether the values of a `Seq` or a `Map` have ended.
    fn at_end(&mut self) -> Result<bool, SerdeError> {
        let kind = self.kind()?;
        self.ahead = (kind != ValueKind::End).then_some(kind);
        Ok(kind == ValueKind::End)
    }

    /// Takes the end marker, which the visitor may have left.
    fn end(&mut self) -> Result<(), SerdeError> {
        if self.at_end()? { Ok(()) } else { Err(SerdeError::custom("more values than expected")) }
    }

    fn value<T: Decode>(&mut self) -> Result<T, SerdeError> {
        Ok(T::decode(self.from)?)
    }
}

/// Enters one level, with serde's kind of error.
fn inside<T>(read: impl FnOnce() -> Result<T, SerdeError>) -> Result<T, SerdeError> {
    Ok(deeper(|| Ok(read()?))?)
}

impl<'de, S: Source + ?Sized> de::Deserializer<'de> for &mut Reader<'_, S> {
    type Error = SerdeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        match self.kind()? {
            ValueKind::End => {
                Err(SerdeError(DecodeError::BadTag { of: "Serde", tag: ValueKind::End as u32 }))
            }
            ValueKind::Unit => visitor.visit_unit(),
            ValueKind::False => visitor.visit_bool(false),
            ValueKind::True => visitor.visit_bool(true),
            ValueKind::U8 => visitor.visit_u8(self.value()?),
            ValueKind::U16 => visitor.visit_u16(self.value()?),
            ValueKind::U32 => visitor.visit_u32(self.value()?),
            ValueKind::U64 => visitor.visit_u64(self.value()?),
            ValueKind::U128 => visitor.visit_u128(self.value()?),
            ValueKind::I8 => visitor.visit_i8(self.value()?),
            ValueKind::I16 => visitor.visit_i16(self.value()?),
            ValueKind::I32 => visitor.visit_i32(self.value()?),
            ValueKind::I64 => visitor.visit_i64(self.value()?),
            ValueKind::I128 => visitor.visit_i128(self.value()?),
            ValueKind::F32 => visitor.visit_f32(self.value()?),
            ValueKind::F64 => visitor.visit_f64(self.value()?),
            ValueKind::Char => visitor.visit_char(self.value()?),
            ValueKind::Str => visitor.visit_string(self.value()?),
            ValueKind::Bytes => visitor.visit_byte_buf(self.value()?),
            ValueKind::None => visitor.visit_none(),
            ValueKind::Some => inside(|| visitor.visit_some(self)),
            ValueKind::Seq => inside(|| {
                let mut parts = Parts { reader: self, ended: false };
                let value = visitor.visit_seq(&mut parts)?;
                parts.end()?;
                Ok(value)
            }),
            ValueKind::Map => inside(|| {
                let mut parts = Parts { reader: self, ended: false };
                let value = visitor.visit_map(&mut parts)?;
                parts.end()?;
                Ok(value)
            }),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        match self.kind()? {
            ValueKind::Str => {
                let name: StringDeserializer<SerdeError> = self.value::<String>()?.into_deserializer();
                visitor.visit_enum(name)
            }
            ValueKind::Map => inside(|| {
                let value = visitor.visit_enum(WithFields { reader: self })?;
                self.end()?;
                Ok(value)
            }),
            kind => Err(SerdeError(DecodeError::BadTag { of: "Serde", tag: kind as u32 })),
        }
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The parts of a `Seq` or a `Map`.
struct Parts<'r, 'a, S: ?Sized> {
    reader: &'r mut Reader<'a, S>,
    ended: bool,
}

impl<S: Source + ?Sized> Parts<'_, '_, S> {
    fn next<'de, T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, SerdeError> {
        if self.ended || self.reader.at_end()? {
            self.ended = true;
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn end(self) -> Result<(), SerdeError> {
        if self.ended { Ok(()) } else { self.reader.end() }
    }
}

impl<'de, S: Source + ?Sized> de::SeqAccess<'de> for &mut Parts<'_, '_, S> {
    type Error = SerdeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, SerdeError> {
        self.next(seed)
    }
}

impl<'de, S: Source + ?Sized> de::MapAccess<'de> for &mut Parts<'_, '_, S> {
    type Error = SerdeError;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, SerdeError> {
        self.next(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, SerdeError> {
        seed.deserialize(&mut *self.reader)
    }
}

/// A variant with fields: its name, and then the fields.
struct WithFields<'r, 'a, S: ?Sized> {
    reader: &'r mut Reader<'a, S>,
}

impl<'de, S: Source + ?Sized> de::EnumAccess<'de> for WithFields<'_, '_, S> {
    type Error = SerdeError;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), SerdeError> {
        let name = seed.deserialize(&mut *self.reader)?;
        Ok((name, self))
    }
}

impl<'de, S: Source + ?Sized> de::VariantAccess<'de> for WithFields<'_, '_, S> {
    type Error = SerdeError;

    fn unit_variant(self) -> Result<(), SerdeError> {
        Err(SerdeError::invalid_type(Unexpected::Map, &"a variant without fields"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, SerdeError> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, SerdeError> {
        de::Deserializer::deserialize_any(self.reader, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        de::Deserializer::deserialize_any(self.reader, visitor)
    }
}
