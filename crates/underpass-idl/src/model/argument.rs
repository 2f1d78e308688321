//! One argument of a method.

use crate::attribute::{self, Options, Place};
use crate::errors::Errors;
use crate::travel;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Pat, PatType, Path, Result, Type, TypeReference};

/// An argument that can travel.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    /// The type in the signature.
    pub(crate) written: Type,
    /// The type that the server decodes.
    owned: TokenStream,
    /// The caller lends it: `&T`.
    pub(crate) lent: bool,
    /// It travels by serde's traits.
    pub(crate) serde: bool,
}

impl Argument {
    /// The argument that `argument` is.
    ///
    /// # Errors
    /// All that is wrong with it, each at its token.
    pub(crate) fn parse(argument: &PatType) -> Result<Self> {
        let mut errors = Errors::default();
        errors.take(attribute::refuse_cfg(&argument.attrs));
        let options = errors.take(Options::of(&argument.attrs, Place::Part)).unwrap_or_default();
        let ident = errors.take(name_of(&argument.pat));
        let written = (*argument.ty).clone();
        let (lent, owned) = match plain(&written) {
            Type::Reference(reference) => (true, referent(reference, &mut errors)),
            owned => {
                travel::check(owned, &mut errors);
                (false, owned.to_token_stream())
            }
        };
        match ident {
            Some(ident) => errors.finish(Self { ident, written, owned, lent, serde: options.serde }),
            None => errors.finish(()).map(|()| unreachable!("without a name there is an error")),
        }
    }

    /// The argument's name as it is in the descriptor.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }

    /// The type that travels.
    pub(crate) fn carried(&self, private: &Path) -> TokenStream {
        let owned = &self.owned;
        if self.serde { quote_spanned!(owned.span()=> #private::wire::Serde<#owned>) } else { quote!(#owned) }
    }
}

fn name_of(pattern: &Pat) -> Result<Ident> {
    match pattern {
        Pat::Ident(name) if name.by_ref.is_none() && name.mutability.is_none() && name.subpat.is_none() => {
            Ok(name.ident.clone())
        }
        _ => Err(Error::new_spanned(
            pattern,
            "an argument needs a plain name here, which goes into the descriptor; take it apart in the implementation",
        )),
    }
}

/// Out of parentheses, and out of the groups that macros put around types.
pub(super) fn plain(of: &Type) -> &Type {
    match of {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        other => other,
    }
}

/// The type that owns what `reference` lends.
fn referent(reference: &TypeReference, errors: &mut Errors) -> TokenStream {
    if let Some(token) = &reference.mutability {
        errors.at(
            quote!(#token),
            "the server works on a copy, so the caller would not see the change: return the new value instead",
        );
    }
    if let Some(lifetime) = &reference.lifetime
        && lifetime.ident != "_"
    {
        errors.at(lifetime, "a loan ends with the call: leave the lifetime out");
    }
    match plain(&reference.elem) {
        Type::Path(path) if path.qself.is_none() && path.path.is_ident("str") => {
            quote_spanned!(path.span()=> ::std::string::String)
        }
        Type::Slice(slice) => {
            travel::check(&slice.elem, errors);
            let element = &slice.elem;
            quote_spanned!(slice.span()=> ::std::vec::Vec<#element>)
        }
        other => {
            travel::check(other, errors);
            quote!(#other)
        }
    }
}
