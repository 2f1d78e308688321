//! The code that is generated for a type that travels.

use super::shape::{Field, FieldTypes, FieldsKind, ParsedFields, ParsedVariant, Shape};
use super::{docs, extensible};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{DeriveInput, GenericParam, Generics, Ident, Path, parse_quote};

/// The three implementations, and the markers by which they name the fields' types.
pub(super) fn implementations(
    item: &DeriveInput,
    shape: &Shape,
    types: &FieldTypes,
    wire: &Path,
) -> TokenStream {
    let ident = &item.ident;
    let name = ident.unraw().to_string();
    let generics = bounded(&item.generics);
    let implementation = |trait_: &str, body: TokenStream| {
        let trait_ = Ident::new(trait_, Span::call_site());
        let (parameters, arguments, clause) = generics.split_for_impl();
        quote! {
            #[automatically_derived]
            #[allow(unused_variables)]
            impl #parameters __wire::#trait_ for #ident #arguments #clause {
                #body
            }
        }
    };
    let encode = implementation("Encode", encode(shape));
    let decode = implementation("Decode", decode(&name, shape));
    let schema = implementation("Schema", schema(&name, item, shape));
    let markers = markers(ident, &generics, types);
    quote! {
        const _: () = {
            use #wire as __wire;
            #markers
            #encode
            #decode
            #schema
        };
    }
}

/// The markers of the fields' types. At their implementations, and nowhere else, the compiler
/// reports a type that can't travel.
fn markers(ident: &Ident, generics: &Generics, types: &FieldTypes) -> Option<TokenStream> {
    let (parameters, arguments, clause) = generics.split_for_impl();
    let implementations = types.all().map(|(marker, of)| {
        quote! {
            impl #parameters __wire::Carried<#ident #arguments> for #marker #clause {
                type Itself = #of;
            }
        }
    });
    (types.all().count() > 0).then(|| {
        quote! {
            enum __Field<const TYPE: ::core::primitive::usize> {}
            #(#implementations)*
        }
    })
}

/// The generics. Each type among them must travel.
fn bounded(generics: &Generics) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(__wire::Schema));
    }
    generics
}

fn encode(shape: &Shape) -> TokenStream {
    let (fixed, size, encode) = match shape {
        Shape::Struct(fields) => {
            let (fixed, pattern) = (fields.each(|field| field.encode("FIXED")), fields.pattern());
            let (size, encode) = (sizes(fields), encodes(fields));
            (
                quote!(__wire::fixed::sum(&[#(#fixed),*])),
                quote!({ let Self #pattern = self; 0 #size }),
                quote!({ let Self #pattern = self; #encode }),
            )
        }
        Shape::Extensible(first, added) => extensible::encode(first, added),
        Shape::Enum(variants) => encode_enum(variants),
    };
    quote! {
        const FIXED: ::core::option::Option<::core::primitive::usize> = #fixed;

        #[inline]
        fn size(&self) -> ::core::primitive::usize {
            match <Self as __wire::Encode>::FIXED {
                ::core::option::Option::Some(__size) => __size,
                ::core::option::Option::None => #size,
            }
        }

        #[inline]
        fn encode<__S: __wire::Sink + ?::core::marker::Sized>(&self, __to: &mut __S) #encode
    }
}

fn encode_enum(variants: &[ParsedVariant]) -> (TokenStream, TokenStream, TokenStream) {
    if variants.is_empty() {
        return (quote!(::core::option::Option::Some(1)), quote!(match *self {}), quote!({ match *self {} }));
    }
    let count = variants.len();
    let fixed = variants.iter().map(|variant| {
        let parts = variant.fields.each(|field| field.encode("FIXED"));
        quote!(__wire::fixed::sum(&[::core::option::Option::Some(__wire::tag::size(#count)) #(, #parts)*]))
    });
    let sizes = variants.iter().map(|ParsedVariant { ident, fields }| {
        let (pattern, size) = (fields.pattern(), sizes(fields));
        quote!(Self::#ident #pattern => __wire::tag::size(#count) #size,)
    });
    let encodes = variants.iter().zip(0u32..).map(|(ParsedVariant { ident, fields }, tag)| {
        let (pattern, encode) = (fields.pattern(), encodes(fields));
        quote! {
            Self::#ident #pattern => {
                __wire::tag::encode(#tag, #count, __to);
                #encode
            }
        }
    });
    (
        quote!(__wire::fixed::same(&[#(#fixed),*])),
        quote!(match self { #(#sizes)* }),
        quote!({ match self { #(#encodes)* } }),
    )
}

pub(super) fn sizes(fields: &ParsedFields) -> TokenStream {
    let parts = fields.each(|field| {
        let (size, sent) = (field.encode("size"), field.sent());
        quote!(+ #size(#sent))
    });
    quote!(#(#parts)*)
}

pub(super) fn encodes(fields: &ParsedFields) -> TokenStream {
    let parts = fields.each(|field| {
        let (encode, sent) = (field.encode("encode"), field.sent());
        quote!(#encode(#sent, __to);)
    });
    quote!(#(#parts)*)
}

fn decode(name: &str, shape: &Shape) -> TokenStream {
    let (least, value) = match shape {
        Shape::Struct(fields) => {
            let (parts, value) = (fields.each(|field| field.decode("LEAST")), decoded(fields));
            (quote!(0 #(+ #parts)*), quote!(::core::result::Result::Ok(Self #value)))
        }
        Shape::Extensible(first, added) => extensible::decode(first, added),
        Shape::Enum(variants) => {
            let count = variants.len();
            let arms = variants.iter().zip(0u32..).map(|(ParsedVariant { ident, fields }, tag)| {
                let value = decoded(fields);
                quote!(#tag => ::core::result::Result::Ok(Self::#ident #value),)
            });
            // Only the tag: a variant may hold a box of this type, and the least size would depend
            // on itself.
            let least = quote!(__wire::tag::size(#count));
            let value = quote! {
                match __wire::tag::decode(#count, __from)? {
                    #(#arms)*
                    __tag => ::core::result::Result::Err(__wire::DecodeError::BadTag { of: #name, tag: __tag }),
                }
            };
            (least, value)
        }
    };
    quote! {
        const LEAST: ::core::primitive::usize = #least;

        #[inline]
        fn decode<__S: __wire::Source + ?::core::marker::Sized>(
            __from: &mut __S,
        ) -> ::core::result::Result<Self, __wire::DecodeError> {
            #value
        }
    }
}

fn decoded(fields: &ParsedFields) -> TokenStream {
    let parts = fields.each(|field| {
        let (member, decode, value) = (&field.member, field.decode("decode"), field.received());
        quote!(#member: #decode(__from)? #value)
    });
    quote!({ #(#parts),* })
}

fn schema(name: &str, item: &DeriveInput, shape: &Shape) -> TokenStream {
    let arguments = item.generics.params.iter().filter_map(|parameter| match parameter {
        GenericParam::Type(of) => {
            let of = &of.ident;
            Some(quote!(<#of as __wire::Schema>::schema(__types)))
        }
        GenericParam::Const(of) => {
            let of = &of.ident;
            Some(quote!(__wire::TypeName::plain(&::std::string::ToString::to_string(&#of))))
        }
        GenericParam::Lifetime(_) => None,
    });
    let definition = match shape {
        Shape::Struct(fields) => {
            let fields = described(fields);
            quote!(__wire::Definition::Struct(#fields))
        }
        Shape::Extensible(first, added) => extensible::described(first, added),
        Shape::Enum(variants) => {
            let variants = variants.iter().map(|ParsedVariant { ident, fields }| {
                let (name, fields) = (ident.unraw().to_string(), described(fields));
                quote!(__wire::Variant { name: #name, fields: #fields })
            });
            quote!(__wire::Definition::Enum(::std::vec::Vec::from([#(#variants),*])))
        }
    };
    let define = quote!(__types.define(::core::any::type_name::<Self>(), __name, |__types| #definition));
    let define = match &docs::of(item)[..] {
        [] => define,
        docs => {
            let docs = docs.iter().map(|(part, doc)| quote!((#part, #doc)));
            quote! {
                let __name = #define;
                __types.document(&__name, &[#(#docs),*]);
                __name
            }
        }
    };
    quote! {
        type Itself = Self;

        fn schema(__types: &mut __wire::Types) -> __wire::TypeName {
            let __name = __wire::TypeName::generic(#name, &[#(#arguments),*]);
            #define
        }
    }
}

fn described(fields: &ParsedFields) -> TokenStream {
    let types = fields.each(|field| {
        let schema = field.schema("schema");
        quote!(#schema(__types))
    });
    match fields.kind {
        FieldsKind::Unit => quote!(__wire::Fields::Unit),
        FieldsKind::Tuple => quote!(__wire::Fields::Tuple(::std::vec::Vec::from([#(#types),*]))),
        FieldsKind::Named => {
            let names = fields.each(Field::name);
            quote!(__wire::Fields::Named(::std::vec::Vec::from([#((#names, #types)),*])))
        }
    }
}

impl Field {
    /// `FIXED`, `size` or `encode` of its type.
    pub(super) fn encode(&self, item: &str) -> TokenStream {
        self.item(&self.lent(), "Encode", item)
    }

    /// `LEAST` or `decode` of its type.
    pub(super) fn decode(&self, item: &str) -> TokenStream {
        self.item(&self.carried(), "Decode", item)
    }

    /// `schema` of its type.
    pub(super) fn schema(&self, item: &str) -> TokenStream {
        self.item(&self.carried(), "Schema", item)
    }

    /// An item of a trait of its type: by the type's marker if there is one. Otherwise with the
    /// type's span, where errors about it belong.
    fn item(&self, carried: &TokenStream, trait_: &str, item: &str) -> TokenStream {
        let Some(marker) = &self.marker else {
            let span = self.span();
            let (trait_, item) = (Ident::new(trait_, span), Ident::new(item, span));
            return quote_spanned!(span=> <#carried as __wire::#trait_>::#item);
        };
        match item {
            "FIXED" => quote!(__wire::carried::fixed::<#marker, Self>()),
            "LEAST" => quote!(__wire::carried::least::<#marker, Self>()),
            _ => {
                let function = Ident::new(item, Span::call_site());
                quote!(__wire::carried::#function::<#marker, Self>)
            }
        }
    }
}
