//! The parts of a type.

use crate::attribute::{self, Options, Place};
use crate::errors::Errors;
use crate::travel;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{DataEnum, DataStruct, Index, Member, Result, Type, parse_quote};

/// A struct or an enum.
pub(super) enum Shape {
    Struct(ParsedFields),
    Enum(Vec<ParsedVariant>),
}

/// One variant of an enum.
pub(super) struct ParsedVariant {
    pub(super) ident: Ident,
    pub(super) fields: ParsedFields,
}

/// The fields of a struct or a variant.
pub(super) struct ParsedFields {
    pub(super) kind: FieldsKind,
    all: Vec<Field>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldsKind {
    Unit,
    Tuple,
    Named,
}

/// One field.
pub(super) struct Field {
    /// Its name or its position.
    pub(super) member: Member,
    /// Its variable in generated code.
    pub(super) binding: Ident,
    written: Type,
    serde: bool,
}

impl Shape {
    pub(super) fn of_struct(data: &DataStruct) -> Result<Self> {
        ParsedFields::parse(&data.fields).map(Self::Struct)
    }

    pub(super) fn of_enum(data: &DataEnum) -> Result<Self> {
        let mut errors = Errors::default();
        let mut variants = Vec::new();
        for variant in &data.variants {
            if let Some(fields) = errors.take(ParsedFields::parse(&variant.fields)) {
                variants.push(ParsedVariant { ident: variant.ident.clone(), fields });
            }
        }
        errors.finish(Self::Enum(variants))
    }
}

impl ParsedFields {
    fn parse(fields: &syn::Fields) -> Result<Self> {
        let mut errors = Errors::default();
        let mut all = Vec::new();
        for (position, field) in fields.iter().enumerate() {
            let options = errors.take(Options::of(&field.attrs, Place::Field)).unwrap_or_default();
            errors.take(attribute::refuse_cfg(&field.attrs));
            travel::check(&field.ty, &mut errors);
            let member = match &field.ident {
                Some(ident) => Member::Named(ident.clone()),
                None => Member::Unnamed(Index::from(position)),
            };
            let binding = format_ident!("__field{position}", span = Span::mixed_site());
            all.push(Field { member, binding, written: field.ty.clone(), serde: options.serde });
        }
        let kind = match fields {
            syn::Fields::Unit => FieldsKind::Unit,
            syn::Fields::Unnamed(_) => FieldsKind::Tuple,
            syn::Fields::Named(_) => FieldsKind::Named,
        };
        errors.finish(Self { kind, all })
    }

    /// `{ name: __field0, .. }`: the pattern that takes such a value apart, and the expression that
    /// makes one.
    pub(super) fn pattern(&self) -> TokenStream {
        let bindings = self.each(|Field { member, binding, .. }| quote!(#member: #binding));
        quote!({ #(#bindings),* })
    }

    /// Generates code for each field.
    pub(super) fn each<T>(&self, generate: impl Fn(&Field) -> T) -> Vec<T> {
        self.all.iter().map(generate).collect()
    }
}

impl Field {
    /// The type that travels.
    pub(super) fn carried(&self) -> TokenStream {
        let written = &self.written;
        if self.serde {
            quote_spanned!(self.span()=> __wire::Serde<#written>)
        } else {
            travel::carried(written, &parse_quote!(__wire))
        }
    }

    /// The type that [`sent`](Self::sent) refers to.
    pub(super) fn lent(&self) -> TokenStream {
        let written = &self.written;
        if self.serde { quote_spanned!(self.span()=> __wire::Serde<&#written>) } else { self.carried() }
    }

    /// A reference to what is encoded, from a reference to the field.
    pub(super) fn sent(&self) -> TokenStream {
        let binding = &self.binding;
        if self.serde { quote!(&__wire::Serde(#binding)) } else { quote!(#binding) }
    }

    /// Converts what was decoded to the field's value.
    pub(super) fn received(&self) -> TokenStream {
        if self.serde { quote!(.0) } else { TokenStream::new() }
    }

    /// The field's name as it is in the descriptor.
    pub(super) fn name(&self) -> String {
        match &self.member {
            Member::Named(ident) => ident.unraw().to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        }
    }

    /// The span for errors about its type.
    pub(super) fn span(&self) -> Span {
        self.written.span()
    }
}
