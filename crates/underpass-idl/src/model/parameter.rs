//! One parameter of a method.

use super::{CarriedType, MarkedTypes, Role};
use crate::attribute::{self, Options, Place};
use crate::errors::Errors;
use crate::travel;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, Pat, PatType, Path, Result, Type, TypeReference, parse_quote_spanned};

/// A parameter whose arguments can travel.
pub(crate) struct Parameter {
    pub(crate) ident: Ident,
    /// The type in the signature.
    pub(crate) written: Type,
    /// How the caller passes it.
    pub(crate) manner: Manner,
    /// Whether it travels by serde's traits.
    pub(crate) serde: bool,
}

/// How an argument is passed.
pub(crate) enum Manner {
    /// By value.
    Owned(Type),
    /// `&str`. The server makes a `String` of it.
    LentText(Span),
    /// `&[T]`; this is the `T`. The server makes a `Vec<T>` of it.
    LentAll(Type),
    /// `&T`. The server makes a `PathBuf` of a `&Path`.
    Lent(Type),
    /// `Shared<'_>`. The server reads it in place.
    Shared(Span),
}

impl Parameter {
    /// Checks `argument` and describes it.
    ///
    /// # Errors
    /// All errors in it, each at its token.
    pub(crate) fn parse(argument: &PatType) -> Result<Self> {
        let mut errors = Errors::default();
        errors.take(attribute::refuse_cfg(&argument.attrs));
        let options = errors.take(Options::of(&argument.attrs, Place::Argument)).unwrap_or_default();
        let ident = errors.take(name_of(&argument.pat));
        let written = (*argument.ty).clone();
        let manner = match plain(&written) {
            of if options.shared => shared(of, options.serde, &mut errors),
            Type::Reference(reference) => lent(reference, &mut errors),
            owned => Manner::Owned(owned.clone()),
        };
        if let Manner::Owned(of) | Manner::LentAll(of) | Manner::Lent(of) = &manner {
            travel::check(of, &mut errors);
        }
        match ident {
            Some(ident) => errors.finish(Self { ident, written, manner, serde: options.serde }),
            None => errors.finish(()).map(|()| unreachable!("without a name there is an error")),
        }
    }

    /// The argument's name as it is in the descriptor.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }

    /// The type that travels, as the server receives it.
    fn owned(&self, wire: &Path) -> Type {
        match &self.manner {
            Manner::Lent(of) if has_another_owner(of) => {
                parse_quote_spanned!(of.span()=> <#of as #wire::Lent>::Owned)
            }
            Manner::Owned(of) | Manner::Lent(of) => of.clone(),
            Manner::LentText(span) => parse_quote_spanned!(*span=> ::std::string::String),
            Manner::LentAll(of) => parse_quote_spanned!(of.span()=> ::std::vec::Vec<#of>),
            Manner::Shared(span) => parse_quote_spanned!(*span=> ::std::vec::Vec<::core::primitive::u8>),
        }
    }

    /// The type that travels. Of a list that is lent, the type of its elements.
    pub(crate) fn carried_type(&self, wire: &Path) -> CarriedType {
        match &self.manner {
            _ if self.serde => {
                let owned = self.owned(wire);
                CarriedType::new(Role::Value, quote_spanned!(owned.span()=> #wire::Serde<#owned>))
            }
            Manner::LentText(_) | Manner::Shared(_) => CarriedType::new(Role::Plain, self.owned(wire)),
            Manner::LentAll(element) => CarriedType::value(element),
            Manner::Owned(_) | Manner::Lent(_) => CarriedType::value(&self.owned(wire)),
        }
    }

    /// The marker of the type that travels.
    pub(crate) fn carried(&self, types: &MarkedTypes, wire: &Path) -> TokenStream {
        let marker = types.marker(&self.carried_type(wire));
        match &self.manner {
            Manner::LentAll(_) if !self.serde => quote!(#wire::ListOf<#marker>),
            _ => marker,
        }
    }

    /// What the client encodes: a reference.
    pub(crate) fn sent(&self, types: &MarkedTypes, wire: &Path) -> TokenStream {
        let ident = &self.ident;
        let reference = if self.is_lent() { quote!(#ident) } else { quote!(&#ident) };
        let of = self.carried_type(wire);
        let marker = types.marker(&of);
        match &self.manner {
            _ if self.serde => quote!(#wire::Serde(#reference)),
            _ if of.role == Role::Plain => reference,
            Manner::Lent(of) if has_another_owner(of) => reference,
            Manner::LentAll(_) => quote!(#wire::SliceOf::<#marker>(#reference)),
            _ => quote!(#wire::RefTo::<#marker>(#reference)),
        }
    }

    /// Whether the implementation gets a reference.
    pub(crate) fn is_lent(&self) -> bool {
        !matches!(self.manner, Manner::Owned(_) | Manner::Shared(_))
    }

    /// Whether the implementation reads it where the client wrote it.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.manner, Manner::Shared(_))
    }
}

/// Whether its owned form may be of another type. The compiler finds out.
fn has_another_owner(of: &Type) -> bool {
    match of {
        Type::Path(path) => {
            path.path.segments.last().is_some_and(|last| last.ident == "Path" || last.ident == "OsStr")
        }
        _ => false,
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

/// The type without parentheses, and without the groups that macros put around types.
pub(super) fn plain(of: &Type) -> &Type {
    match of {
        Type::Group(group) => plain(&group.elem),
        Type::Paren(paren) => plain(&paren.elem),
        other => other,
    }
}

fn shared(of: &Type, serde: bool, errors: &mut Errors) -> Manner {
    let named = match of {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "Shared"),
        _ => false,
    };
    if !named {
        errors.at(
            of,
            "what is shared with the client may change while it is read, so it is no slice: write `underpass::Shared<'_>`",
        );
    } else if serde {
        errors.at(of, "shared bytes travel as they are: take `serde` out");
    }
    Manner::Shared(of.span())
}

fn lent(reference: &TypeReference, errors: &mut Errors) -> Manner {
    if let Some(token) = &reference.mutability {
        errors.at(
            token,
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
            Manner::LentText(path.span())
        }
        Type::Slice(slice) => Manner::LentAll((*slice.elem).clone()),
        other => Manner::Lent(other.clone()),
    }
}
