//! Decodes serde's values from bytes.

use super::Kind;
use super::fault::Fault;
use crate::{Decode, DecodeError, Source, deeper};
use serde::de::value::StringDeserializer;
use serde::de::{self, DeserializeSeed, Error as _, IntoDeserializer, Unexpected, Visitor};

/// Reads one value after the other.
pub(super) struct Reader<'a, S: ?Sized> {
    from: &'a mut S,
    /// A kind that was read ahead and not used yet.
    ahead: Option<Kind>,
}

impl<'a, S: Source + ?Sized> Reader<'a, S> {
    pub(super) fn new(from: &'a mut S) -> Self {
        Self { from, ahead: None }
    }

    fn kind(&mut self) -> Result<Kind, Fault> {
        match self.ahead.take() {
            Some(kind) => Ok(kind),
            None => Ok(Kind::decode(self.from)?),
        }
    }

    /// Whether the values of a `Seq` or a `Map` have ended.
    fn at_end(&mut self) -> Result<bool, Fault> {
        let kind = self.kind()?;
        self.ahead = (kind != Kind::End).then_some(kind);
        Ok(kind == Kind::End)
    }

    /// Takes the end marker, which the visitor may have left.
    fn end(&mut self) -> Result<(), Fault> {
        if self.at_end()? { Ok(()) } else { Err(Fault::custom("more values than expected")) }
    }

    fn value<T: Decode>(&mut self) -> Result<T, Fault> {
        Ok(T::decode(self.from)?)
    }
}

/// Enters one level, with serde's kind of error.
fn inside<T>(read: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    Ok(deeper(|| Ok(read()?))?)
}

impl<'de, S: Source + ?Sized> de::Deserializer<'de> for &mut Reader<'_, S> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.kind()? {
            Kind::End => Err(Fault(DecodeError::BadTag { of: "Serde", tag: Kind::End as u32 })),
            Kind::Unit => visitor.visit_unit(),
            Kind::False => visitor.visit_bool(false),
            Kind::True => visitor.visit_bool(true),
            Kind::U8 => visitor.visit_u8(self.value()?),
            Kind::U16 => visitor.visit_u16(self.value()?),
            Kind::U32 => visitor.visit_u32(self.value()?),
            Kind::U64 => visitor.visit_u64(self.value()?),
            Kind::U128 => visitor.visit_u128(self.value()?),
            Kind::I8 => visitor.visit_i8(self.value()?),
            Kind::I16 => visitor.visit_i16(self.value()?),
            Kind::I32 => visitor.visit_i32(self.value()?),
            Kind::I64 => visitor.visit_i64(self.value()?),
            Kind::I128 => visitor.visit_i128(self.value()?),
            Kind::F32 => visitor.visit_f32(self.value()?),
            Kind::F64 => visitor.visit_f64(self.value()?),
            Kind::Char => visitor.visit_char(self.value()?),
            Kind::Str => visitor.visit_string(self.value()?),
            Kind::Bytes => visitor.visit_byte_buf(self.value()?),
            Kind::None => visitor.visit_none(),
            Kind::Some => inside(|| visitor.visit_some(self)),
            Kind::Seq => inside(|| {
                let mut parts = Parts { reader: self, ended: false };
                let value = visitor.visit_seq(&mut parts)?;
                parts.end()?;
                Ok(value)
            }),
            Kind::Map => inside(|| {
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
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.kind()? {
            Kind::Str => {
                let name: StringDeserializer<Fault> = self.value::<String>()?.into_deserializer();
                visitor.visit_enum(name)
            }
            Kind::Map => inside(|| {
                let value = visitor.visit_enum(WithFields { reader: self })?;
                self.end()?;
                Ok(value)
            }),
            kind => Err(Fault(DecodeError::BadTag { of: "Serde", tag: kind as u32 })),
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
    fn next<'de, T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        if self.ended || self.reader.at_end()? {
            self.ended = true;
            return Ok(None);
        }
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn end(self) -> Result<(), Fault> {
        if self.ended { Ok(()) } else { self.reader.end() }
    }
}

impl<'de, S: Source + ?Sized> de::SeqAccess<'de> for &mut Parts<'_, '_, S> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        self.next(seed)
    }
}

impl<'de, S: Source + ?Sized> de::MapAccess<'de> for &mut Parts<'_, '_, S> {
    type Error = Fault;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        self.next(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(&mut *self.reader)
    }
}

/// A variant with fields: its name, and then the fields.
struct WithFields<'r, 'a, S: ?Sized> {
    reader: &'r mut Reader<'a, S>,
}

impl<'de, S: Source + ?Sized> de::EnumAccess<'de> for WithFields<'_, '_, S> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Fault> {
        let name = seed.deserialize(&mut *self.reader)?;
        Ok((name, self))
    }
}

impl<'de, S: Source + ?Sized> de::VariantAccess<'de> for WithFields<'_, '_, S> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Err(Fault::invalid_type(Unexpected::Map, &"a variant without fields"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        de::Deserializer::deserialize_any(self.reader, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        de::Deserializer::deserialize_any(self.reader, visitor)
    }
}
