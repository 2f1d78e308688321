//! `#[derive(Wire)]`: how a struct or an enum travels.

mod docs;
mod emit;
mod extensible;
mod shape;
mod versions;

use crate::attribute::{Options, Place};
use crate::errors::Errors;
use proc_macro2::TokenStream;
use shape::{FieldTypes, Shape};
use syn::{Data, DeriveInput, GenericParam, Result};

/// `Encode`, `Decode` and `Schema` for the type.
///
/// # Errors
/// Everything that keeps the type from travelling, each error at its token.
pub(crate) fn derive(item: &DeriveInput) -> Result<TokenStream> {
    let mut errors = Errors::default();
    let options = errors.take(Options::of(&item.attrs, Place::Type)).unwrap_or_default();
    for parameter in &item.generics.params {
        if let GenericParam::Lifetime(lifetime) = parameter {
            errors.at(
                lifetime,
                "what travels owns what it holds: use a type without lifetimes (`String` for `&str`)",
            );
        }
    }
    let mut types = FieldTypes::default();
    let shape = match &item.data {
        Data::Struct(data) if options.extensible => errors.take(Shape::of_extensible(item, data, &mut types)),
        Data::Struct(data) => errors.take(Shape::of_struct(data, &mut types)),
        Data::Enum(data) if options.extensible => {
            errors.at(
                data.enum_token,
                "an enum can't be extensible, as an older side has no value for a new variant: put the enum's new cases \
                 into another method, or into a field of an extensible struct",
            );
            None
        }
        Data::Enum(data) => errors.take(Shape::of_enum(data, &mut types)),
        Data::Union(data) => {
            errors.at(
                data.union_token,
                "a union can't travel, as nobody knows which of its fields it holds: make it an enum",
            );
            None
        }
    };
    match shape {
        Some(shape) => errors.finish(emit::implementations(item, &shape, &types, &options.wire())),
        None => errors.finish(TokenStream::new()),
    }
}
