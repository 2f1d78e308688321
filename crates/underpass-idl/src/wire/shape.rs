//! The parts of a type.

use super::versions::{self, FieldVersion};
use crate::attribute::{self, Options, Place};
use crate::errors::Errors;
use crate::travel;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{DataEnum, DataStruct, DeriveInput, Expr, Index, Member, Result, Type};

/// A struct or an enum.
pub(super) enum Shape {
    Struct(ParsedFields),
    /// A struct to which later versions may add fields: the first ones, and those that were added.
    Extensible(ParsedFields, Vec<(Field, FieldVersion)>),
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
    /// The marker of its type, unless that is plain or travels by serde's traits.
    pub(super) marker: Option<TokenStream>,
}

/// The types of fields that have markers, each once. The position of a type is the parameter of its
/// marker.
#[derive(Default)]
pub(super) struct FieldTypes(Vec<Type>);

impl FieldTypes {
    /// The marker of `of`, which is added.
    fn marker(&mut self, of: &Type) -> TokenStream {
        let written = of.to_token_stream().to_string();
        let known = self.0.iter().position(|known| known.to_token_stream().to_string() == written);
        let position = known.unwrap_or_else(|| {
            self.0.push(of.clone());
            self.0.len() - 1
        });
        marker(position)
    }

    /// All of them, with their markers.
    pub(super) fn all(&self) -> impl Iterator<Item = (TokenStream, &Type)> {
        self.0.iter().enumerate().map(|(position, of)| (marker(position), of))
    }
}

fn marker(position: usize) -> TokenStream {
    let position = Index::from(position);
    quote!(__Field<#position>)
}

impl Shape {
    pub(super) fn of_struct(data: &DataStruct, types: &mut FieldTypes) -> Result<Self> {
        let mut errors = Errors::default();
        let fields = errors.take(ParsedFields::parse(&data.fields, types));
        versions::refuse(&data.fields, &mut errors);
        errors.finish_with(fields.map(Self::Struct))
    }

    pub(super) fn of_extensible(
        item: &DeriveInput,
        data: &DataStruct,
        types: &mut FieldTypes,
    ) -> Result<Self> {
        let mut errors = Errors::default();
        let fields = errors.take(ParsedFields::parse(&data.fields, types));
        let versions = errors.take(versions::of_fields(item, &data.fields));
        let shape = fields.zip(versions).map(|(mut first, versions)| {
            let begin = versions.iter().take_while(|version| version.since == 1).count();
            let added = first.all.split_off(begin).into_iter();
            Self::Extensible(first, added.zip(versions.into_iter().skip(begin)).collect())
        });
        errors.finish_with(shape)
    }

    pub(super) fn of_enum(data: &DataEnum, types: &mut FieldTypes) -> Result<Self> {
        let mut errors = Errors::default();
        let mut variants = Vec::new();
        for variant in &data.variants {
            errors.take(Options::of(&variant.attrs, Place::Variant));
            versions::refuse(&variant.fields, &mut errors);
            if let Some(fields) = errors.take(ParsedFields::parse(&variant.fields, types)) {
                variants.push(ParsedVariant { ident: variant.ident.clone(), fields });
            }
        }
        errors.finish(Self::Enum(variants))
    }
}

impl ParsedFields {
    fn parse(fields: &syn::Fields, types: &mut FieldTypes) -> Result<Self> {
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
            let (written, serde) = (field.ty.clone(), options.serde);
            let marker = (!serde && !travel::is_plain(&written)).then(|| types.marker(&written));
            all.push(Field { member, binding, written, serde, marker });
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
        if self.serde { quote_spanned!(self.span()=> __wire::Serde<#written>) } else { quote!(#written) }
    }

    /// The type that [`sent`](Self::sent) refers to.
    pub(super) fn lent(&self) -> TokenStream {
        let written = &self.written;
        if self.serde { quote_spanned!(self.span()=> __wire::Serde<&#written>) } else { quote!(#written) }
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

    /// The default that the field's author states. Its type is written out, so that an error about
    /// it is at the author's tokens alone.
    pub(super) fn stated_default(&self, default: &Expr) -> TokenStream {
        let written = &self.written;
        quote!({
            let __default: #written = #default;
            __default
        })
    }

    /// The default of the field's type.
    pub(super) fn default_of_type(&self) -> TokenStream {
        let written = &self.written;
        quote_spanned!(self.span()=> <#written as ::core::default::Default>::default())
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
