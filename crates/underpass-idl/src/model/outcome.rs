//! What a method returns.

use super::argument::plain;
use crate::errors::Errors;
use crate::travel;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, GenericArgument, Path, PathArguments, PathSegment, Result, ReturnType, Signature, Type};

/// A `Result` that can travel.
pub(crate) struct Outcome {
    /// The type in the signature.
    pub(crate) written: Type,
    /// The `E` of the `Result<T, E>`; none if it is hidden in an alias, as in `io::Result<T>`.
    error: Option<Type>,
    /// What it is a `Result` of travels by serde's traits.
    pub(crate) serde: bool,
}

impl Outcome {
    /// The outcome that the signature tells.
    ///
    /// # Errors
    /// It returns no `Result`, or one that can't travel.
    pub(crate) fn parse(signature: &Signature, serde: bool) -> Result<Self> {
        let written = match &signature.output {
            ReturnType::Type(_, written) => (**written).clone(),
            ReturnType::Default => {
                return Err(Error::new_spanned(
                    &signature.ident,
                    format!(
                        "`{}` has to return a `Result`, as every call can fail: write `-> Result<(), E>`, where \
                         `E: From<underpass::CallError>`",
                        signature.ident
                    ),
                ));
            }
        };
        let error = error_in(&written)?;
        let mut errors = Errors::default();
        travel::check(&written, &mut errors);
        errors.finish(Self { written, error, serde })
    }

    /// The `E` of the `Result<T, E>`, at the place to which errors about it belong.
    pub(crate) fn error(&self, private: &Path) -> TokenStream {
        match &self.error {
            Some(error) => error.to_token_stream(),
            None => self.part(private, "Error"),
        }
    }

    /// The type that travels.
    pub(crate) fn carried(&self, private: &Path) -> TokenStream {
        if !self.serde {
            return self.written.to_token_stream();
        }
        let (value, error) = (self.part(private, "Value"), self.error(private));
        quote_spanned!(self.span()=> ::core::result::Result<#private::wire::Serde<#value>, #error>)
    }

    pub(crate) fn span(&self) -> Span {
        self.written.span()
    }

    fn part(&self, private: &Path, name: &str) -> TokenStream {
        let (written, name) = (&self.written, syn::Ident::new(name, self.span()));
        quote_spanned!(self.span()=> <#written as #private::wire::Returned>::#name)
    }
}

/// The `E` of a `Result<T, E>`, if it can be seen.
fn error_in(written: &Type) -> Result<Option<Type>> {
    let segment = match plain(written) {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    // `io::Result<T>` and `FsResult<T>` are taken for what they say they are; the compiler finds out.
    match segment.filter(|segment| segment.ident.to_string().ends_with("Result")) {
        Some(segment) => Ok(match types_in(segment).as_slice() {
            [_, error] if segment.ident == "Result" => Some((*error).clone()),
            _ => None,
        }),
        None => Err(Error::new_spanned(
            written,
            "a method of an interface returns a `Result`, as every call can fail: write `Result<T, E>`, where \
             `E: From<underpass::CallError>` (an alias of it needs a name that ends in `Result`)",
        )),
    }
}

fn types_in(segment: &PathSegment) -> Vec<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return Vec::new();
    };
    let types = arguments.args.iter().map(|argument| match argument {
        GenericArgument::Type(of) => Some(of),
        _ => None,
    });
    types.collect::<Option<_>>().unwrap_or_default()
}
