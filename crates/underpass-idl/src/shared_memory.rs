//! `#[derive(Shareable)]` and `#[derive(RegionLayout)]`: what can lie in memory that several
//! domains share.

use crate::attribute::{self, Options, Place};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Index, Member, Result, Type};

/// `Shareable` for the type.
///
/// # Errors
/// Everything that keeps the type out of shared memory.
pub(crate) fn shareable(item: &DeriveInput) -> Result<TokenStream> {
    check_parameters(item)?;
    let private = Options::of(&item.attrs, Place::Item)?.private();
    let (ident, name) = (&item.ident, item.ident.to_string());
    let (shape, valid, checks) = match &item.data {
        Data::Struct(data) => of_struct(item, &data.fields)?,
        Data::Enum(data) => of_enum(item, data)?,
        Data::Union(data) => {
            return Err(Error::new(
                data.union_token.span,
                "nobody knows which of its fields a union holds: make it a struct",
            ));
        }
    };
    Ok(quote! {
        const _: () = {
            use #private::shared as __shared;
            #checks
            // SAFETY: it has no padding, as checked above, and its bytes are checked.
            unsafe impl __shared::Shareable for #ident {
                const SHAPE: u64 = {
                    let shape = __shared::shape_of(#name);
                    #shape
                    shape
                };
                fn is_valid(__bytes: &[u8]) -> bool {
                    __bytes.len() == ::core::mem::size_of::<Self>() #valid
                }
            }
        };
    })
}

/// `RegionLayout` for the type.
///
/// # Errors
/// It is no struct, or has parameters.
pub(crate) fn region_layout(item: &DeriveInput) -> Result<TokenStream> {
    check_parameters(item)?;
    let private = Options::of(&item.attrs, Place::Item)?.private();
    let Data::Struct(data) = &item.data else {
        return Err(Error::new_spanned(
            &item.ident,
            "the type of a region is a struct of locks and conditions",
        ));
    };
    let (ident, name) = (&item.ident, item.ident.to_string());
    let fields = members(&data.fields)?;
    let (places, types): (Vec<_>, Vec<_>) = fields.iter().map(|(member, ty)| (member, ty)).unzip();
    Ok(quote! {
        const _: () = {
            use #private::shared as __shared;
            impl __shared::RegionLayout for #ident {
                const WORDS: usize = 0 #(+ <#types as __shared::RegionLayout>::WORDS)*;
                const SHAPE: u64 = {
                    let shape = __shared::shape_of(#name);
                    #(let shape = __shared::mix(shape, <#types as __shared::RegionLayout>::SHAPE);)*
                    shape
                };
                fn attach(__place: &mut __shared::RegionPlace<'_>) -> Self {
                    Self { #(#places: <#types as __shared::RegionLayout>::attach(__place),)* }
                }
            }
        };
    })
}

fn check_parameters(item: &DeriveInput) -> Result<()> {
    match item.generics.params.first() {
        Some(first) => Err(Error::new_spanned(
            first,
            "every domain must see the same layout: use a type without parameters",
        )),
        None => Ok(()),
    }
}

/// The fields and their types.
fn members(fields: &Fields) -> Result<Vec<(Member, Type)>> {
    let each = fields.iter().enumerate().map(|(position, field)| {
        attribute::refuse_cfg(&field.attrs)?;
        let member = match &field.ident {
            Some(ident) => Member::Named(ident.clone()),
            None => Member::Unnamed(Index::from(position)),
        };
        Ok((member, field.ty.clone()))
    });
    each.collect()
}

/// The words of `#[repr(..)]`.
fn representations(item: &DeriveInput) -> Result<Vec<Ident>> {
    let mut found = Vec::new();
    for attribute in item.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            if let Some(word) = meta.path.get_ident() {
                found.push(word.clone());
            }
            // `align(N)` and `packed(N)`.
            if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// What the shape, the check of a value and the checks at compile time are made of.
type Parts = (TokenStream, TokenStream, TokenStream);

fn of_struct(item: &DeriveInput, fields: &Fields) -> Result<Parts> {
    let ident = &item.ident;
    if !representations(item)?.iter().any(|word| word == "C" || word == "transparent") {
        return Err(Error::new_spanned(
            ident,
            "the compiler may lay out a struct as it likes, and otherwise in another program: add `#[repr(C)]`",
        ));
    }
    let fields = members(fields)?;
    let (places, types): (Vec<_>, Vec<_>) = fields.iter().map(|(member, ty)| (member, ty)).unzip();
    let shape = quote!(#(let shape = __shared::mix(shape, <#types as __shared::Shareable>::SHAPE);)*);
    let valid = quote! {
        #(&& {
            let __begin = ::core::mem::offset_of!(Self, #places);
            let __end = __begin + ::core::mem::size_of::<#types>();
            __bytes.get(__begin..__end).is_some_and(<#types as __shared::Shareable>::is_valid)
        })*
    };
    let checks = quote! {
        const _: () = ::core::assert!(
            ::core::mem::size_of::<#ident>() == 0 #(+ ::core::mem::size_of::<#types>())*,
            "the type has padding, through which bytes of this domain's private memory could leak; \
             order the fields by their sizes, or add fields such as `rest: [u8; 3]`"
        );
    };
    Ok((shape, valid, checks))
}

fn of_enum(item: &DeriveInput, data: &DataEnum) -> Result<Parts> {
    let ident = &item.ident;
    let integers = ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"];
    let integer =
        representations(item)?.into_iter().find(|word| integers.iter().any(|integer| word == integer));
    let Some(integer) = integer else {
        return Err(Error::new_spanned(
            ident,
            "the compiler may choose how an enum is stored, and otherwise in another program: add `#[repr(u8)]`",
        ));
    };
    if let Some(variant) = data.variants.iter().find(|variant| !matches!(variant.fields, Fields::Unit)) {
        return Err(Error::new_spanned(
            variant,
            "an enum in shared memory has variants without fields: which one it holds could change while it is read",
        ));
    }
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let names = variants.iter().map(|variant| variant.to_string());
    let constants: Vec<_> = (0..variants.len()).map(|number| format_ident!("__VARIANT_{number}")).collect();
    let shape = quote!(#(let shape = __shared::mix(shape, __shared::shape_of(#names));)*);
    let valid = quote! {
        && match __bytes.try_into().map(#integer::from_ne_bytes) {
            #(::core::result::Result::Ok(#constants) => true,)*
            _ => false,
        }
    };
    let checks = quote!(#(const #constants: #integer = #ident::#variants as #integer;)*);
    Ok((shape, valid, checks))
}
