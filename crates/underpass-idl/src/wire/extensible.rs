//! The code that is generated for an extensible struct.
//!
//! Its first fields are encoded as those of any struct. The added ones follow in an envelope, which
//! a reader that does not know them can skip.

use super::emit::{encodes, sizes};
use super::shape::{Field, ParsedFields};
use super::versions::FieldVersion;
use proc_macro2::TokenStream;
use quote::quote;

/// A field that was added.
type AddedField = (Field, FieldVersion);

/// `FIXED`, and the bodies of `size` and `encode`.
pub(super) fn encode(first: &ParsedFields, added: &[AddedField]) -> (TokenStream, TokenStream, TokenStream) {
    let pattern = pattern(first, added);
    let (size, encode) = (sizes(first), encodes(first));
    let sizes_of_added = added.iter().map(|(field, _)| {
        let (size, sent) = (field.encode("size"), field.sent());
        quote!(+ #size(#sent))
    });
    let encodes_of_added = added.iter().map(|(field, _)| {
        let (encode, sent) = (field.encode("encode"), field.sent());
        quote!(#encode(#sent, __to);)
    });
    let (count, bytes) = (count(added), quote!(0 #(#sizes_of_added)*));
    (
        quote!(::core::option::Option::None),
        quote!({ let Self #pattern = self; __wire::added::size(#count, #bytes) #size }),
        quote!({
            let Self #pattern = self;
            #encode
            let mut __to = __to;
            __wire::added::encode(#count, #bytes, &mut __to, |__to| {
                #(#encodes_of_added)*
            });
        }),
    )
}

/// `LEAST`, and the body of `decode`.
pub(super) fn decode(first: &ParsedFields, added: &[AddedField]) -> (TokenStream, TokenStream) {
    let least = first.each(|field| field.decode("LEAST"));
    let decodes = first.each(|field| {
        let (binding, decode, value) = (&field.binding, field.decode("decode"), field.received());
        quote!(let #binding = #decode(__from)? #value;)
    });
    let decodes_of_added = added.iter().map(|(field, FieldVersion { default, .. })| {
        let (binding, decode, value) = (&field.binding, field.decode("decode"), field.received());
        let default = match default {
            Some(default) => field.stated_default(default),
            None => field.default_of_type(),
        };
        quote! {
            let #binding = match __added.has_next() {
                true => #decode(&mut __added)? #value,
                false => #default,
            };
        }
    });
    let pattern = pattern(first, added);
    let mutability = (!added.is_empty()).then(|| quote!(mut));
    let value = quote! {
        #(#decodes)*
        let mut __from = __from;
        let #mutability __added = __wire::added::AddedSource::begin(&mut __from)?;
        #(#decodes_of_added)*
        __added.end()?;
        ::core::result::Result::Ok(Self #pattern)
    };
    (quote!(__wire::added::LEAST #(+ #least)*), value)
}

/// The definition of the type.
pub(super) fn described(first: &ParsedFields, added: &[AddedField]) -> TokenStream {
    let describe = |field: &Field| {
        let (name, schema) = (field.name(), field.schema("schema"));
        quote!((#name, #schema(__types)))
    };
    let first = first.each(describe);
    let mutability = (!added.is_empty()).then(|| quote!(mut));
    let added = added.iter().map(|(field, FieldVersion { since, .. })| {
        let described = describe(field);
        quote! {
            if __types.has(#since) {
                __added.push(#described);
            }
        }
    });
    quote!({
        let __first = ::std::vec::Vec::from([#(#first),*]);
        let #mutability __added = ::std::vec::Vec::new();
        #(#added)*
        __wire::Definition::Extensible { first: __first, added: __added }
    })
}

/// The pattern that takes such a value apart, and the expression that makes one.
fn pattern(first: &ParsedFields, added: &[AddedField]) -> TokenStream {
    let part = |Field { member, binding, .. }: &Field| quote!(#member: #binding);
    let (first, added) = (first.each(part), added.iter().map(|(field, _)| part(field)));
    quote!({ #(#first,)* #(#added),* })
}

/// How many fields were added.
fn count(added: &[AddedField]) -> TokenStream {
    let count = u8::try_from(added.len()).expect("at most 255 fields can be added");
    quote!(#count)
}
