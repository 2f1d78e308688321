//! Encodes serde's values to bytes.

use super::ValueKind;
use super::serde_error::SerdeError;
use crate::{Encode, Sink, length};
use serde::ser::{self, Serialize};

/// Writes one value.
pub(super) struct Writer<'a, S: ?Sized> {
    to: &'a mut S,
}

impl<'a, S: Sink + ?Sized> Writer<'a, S> {
    pub(super) fn new(to: &'a mut S) -> Self {
        Self { to }
    }

    fn kind(self, kind: ValueKind) {
        kind.encode(self.to);
    }

    fn bytes(self, kind: ValueKind, bytes: &[u8]) {
        kind.encode(self.to);
        length::encode(bytes.len(), self.to);
        self.to.put(bytes);
    }

    /// Begins a map whose only key is the variant.
    fn variant(self, name: &str) -> &'a mut S {
        ValueKind::Map.encode(self.to);
        Writer::new(&mut *self.to).bytes(ValueKind::Str, name.as_bytes());
        self.to
    }
}

/// Writes the parts of a value, and an end marker for each beginning.
pub(super) struct Parts<'a, S: ?Sized> {
    to: &'a mut S,
    ends: u8,
}

impl<'a, S: Sink + ?Sized> Parts<'a, S> {
    fn begin(kind: ValueKind, to: &'a mut S, ends: u8) -> Result<Self, SerdeError> {
        kind.encode(to);
        Ok(Self { to, ends })
    }

    fn part<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerdeError> {
        value.serialize(Writer::new(&mut *self.to))
    }

    fn end(self) -> Result<(), SerdeError> {
        for _ in 0..self.ends {
            ValueKind::End.encode(self.to);
        }
        Ok(())
    }
}

macro_rules! numbers {
    ($($method:ident $type:ty: $kind:ident),*) => {$(
        fn $method(self, value: $type) -> Result<(), SerdeError> {
            ValueKind::$kind.encode(self.to);
            value.encode(self.to);
            Ok(())
        }
    )*};
}

impl<'a, S: Sink + ?Sized> ser::Serializer for Writer<'a, S> {
    type Ok = ();
    type Error = SerdeError;
    type SerializeSeq = Parts<'a, S>;
    type SerializeTuple = Parts<'a, S>;
    type SerializeTupleStruct = Parts<'a, S>;
    type SerializeTupleVariant = Parts<'a, S>;
    type SerializeMap = Parts<'a, S>;
    type SerializeStruct = Parts<'a, S>;
    type SerializeStructVariant = Parts<'a, S>;

    numbers! {
        serialize_u8 u8: U8, serialize_u16 u16: U16, serialize_u32 u32: U32, serialize_u64 u64: U64,
        serialize_u128 u128: U128, serialize_i8 i8: I8, serialize_i16 i16: I16, serialize_i32 i32: I32,
        serialize_i64 i64: I64, serialize_i128 i128: I128, serialize_f32 f32: F32, serialize_f64 f64: F64,
        serialize_char char: Char
    }

    fn serialize_bool(self, value: bool) -> Result<(), SerdeError> {
        self.kind(if value { ValueKind::True } else { ValueKind::False });
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<(), SerdeError> {
        self.bytes(ValueKind::Str, value.as_bytes());
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), SerdeError> {
        self.bytes(ValueKind::Bytes, value);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), SerdeError> {
        self.kind(ValueKind::None);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), SerdeError> {
        ValueKind::Some.encode(self.to);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), SerdeError> {
        self.kind(ValueKind::Unit);
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), SerdeError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), SerdeError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), SerdeError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), SerdeError> {
        let mut parts = Parts { to: self.variant(variant), ends: 1 };
        parts.part(value)?;
        parts.end()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts<'a, S>, SerdeError> {
        Parts::begin(ValueKind::Seq, self.to, 1)
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts<'a, S>, SerdeError> {
        Parts::begin(ValueKind::Seq, self.to, 1)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts<'a, S>, SerdeError> {
        Parts::begin(ValueKind::Seq, self.to, 1)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a, S>, SerdeError> {
        Parts::begin(ValueKind::Seq, self.variant(variant), 2)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts<'a, S>, SerdeError> {
        Parts::begin(ValueKind::Map, self.to, 1)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts<'a, S>, SerdeError> {
        Parts::begin(ValueKind::Map, self.to, 1)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Parts<'a, S>, SerdeError> {
        Parts::begin(ValueKind::Map, self.variant(variant), 2)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

macro_rules! parts_without_names {
    ($($trait:ident $method:ident),*) => {$(
        impl<S: Sink + ?Sized> ser::$trait for Parts<'_, S> {
            type Ok = ();
            type Error = SerdeError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerdeError> {
                self.part(value)
            }

            fn end(self) -> Result<(), SerdeError> {
                Parts::end(self)
            }
        }
    )*};
}

parts_without_names! {
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
}

macro_rules! parts_with_names {
    ($($trait:ident),*) => {$(
        impl<S: Sink + ?Sized> ser::$trait for Parts<'_, S> {
            type Ok = ();
            type Error = SerdeError;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), SerdeError> {
                self.part(name)?;
                self.part(value)
            }

            fn end(self) -> Result<(), SerdeError> {
                Parts::end(self)
            }
        }
    )*};
}

parts_with_names!(SerializeStruct, SerializeStructVariant);

impl<S: Sink + ?Sized> ser::SerializeMap for Parts<'_, S> {
    type Ok = ();
    type Error = SerdeError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), SerdeError> {
        self.part(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerdeError> {
        self.part(value)
    }

    fn end(self) -> Result<(), SerdeError> {
        Parts::end(self)
    }
}
