//! The markers of an interface's types.

use super::Method;
use crate::travel;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{Index, Path, Type};

/// The types that an interface's generated code names by markers, each once. The position of a type
/// is the parameter of its marker.
pub(crate) struct MarkedTypes {
    /// The markers' name.
    pub(crate) ident: Ident,
    pub(crate) all: Vec<CarriedType>,
}

/// A type of an interface, as it travels.
pub(crate) struct CarriedType {
    pub(crate) role: Role,
    pub(crate) tokens: TokenStream,
}

/// What a type is to an interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A type that certainly travels. It is its own marker.
    Plain,
    /// The type of an argument or of its elements, or the `T` of a `Result<T, E>`.
    Value,
    /// The `E` of a `Result<T, E>`.
    Error,
}

impl MarkedTypes {
    /// All types of these methods.
    pub(crate) fn of(interface: &Ident, methods: &[Method], wire: &Path) -> Self {
        let mut types = Self { ident: format_ident!("__{interface}Types"), all: Vec::new() };
        for method in methods {
            let arguments = method.arguments.iter().map(|argument| argument.carried_type(wire));
            for of in arguments.chain(method.returns.carried_types(wire)) {
                if of.role != Role::Plain && types.position(&of).is_none() {
                    types.all.push(of);
                }
            }
        }
        types
    }

    /// The marker of a type that one of the methods has.
    pub(crate) fn marker(&self, of: &CarriedType) -> TokenStream {
        if of.role == Role::Plain {
            return of.tokens.clone();
        }
        let position = Index::from(self.position(of).expect("a type of one of the methods"));
        let ident = &self.ident;
        quote!(#ident<#position>)
    }

    fn position(&self, of: &CarriedType) -> Option<usize> {
        let written = of.tokens.to_string();
        self.all.iter().position(|other| other.role == of.role && other.tokens.to_string() == written)
    }
}

impl CarriedType {
    pub(crate) fn new(role: Role, of: impl ToTokens) -> Self {
        Self { role, tokens: of.into_token_stream() }
    }

    /// A type as it is written.
    pub(crate) fn value(of: &Type) -> Self {
        Self::new(if travel::is_plain(of) { Role::Plain } else { Role::Value }, of)
    }
}
