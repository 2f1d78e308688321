//! What a method returns.

use super::parameter::plain;
use crate::errors::Errors;
use crate::travel;
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, GenericArgument, Path, PathArguments, PathSegment, Result, ReturnType, Signature, Type};

/// A `Result` that can travel.
pub(crate) struct MethodResult {
    /// The type in the signature.
    pub(crate) written: Type,
    /// The `T` and `E` of the `Result<T, E>`. `None` if an alias hides them, as in `io::Result<T>`.
    parts: Option<(Type, Type)>,
    /// Whether the types of the `Result` travel by serde's traits.
    pub(crate) serde: bool,
}

impl MethodResult {
    /// The return type of the signature.
    ///
    /// # Errors
    /// If it returns no `Result`, or one that cannot travel.
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
        let parts = parts_of(&written)?;
        let mut errors = Errors::default();
        travel::check(&written, &mut errors);
        errors.finish(Self { written, parts, serde })
    }

    /// The `E` of the `Result<T, E>`, with the span where errors about it belong.
    pub(crate) fn error(&self, wire: &Path) -> TokenStream {
        match &self.parts {
            Some((_, error)) => error.to_token_stream(),
            None => self.part(wire, "Error"),
        }
    }

    /// The type that travels.
    pub(crate) fn carried(&self, wire: &Path) -> TokenStream {
        let (value, error) = match &self.parts {
            Some((value, error)) if self.serde => (value.to_token_stream(), travel::carried(error, wire)),
            Some((value, error)) => (travel::carried(value, wire), travel::carried(error, wire)),
            None if self.serde => (self.part(wire, "Value"), self.part(wire, "Error")),
            None => return travel::carried(&self.written, wire),
        };
        let value = if self.serde { quote!(#wire::Serde<#value>) } else { value };
        quote_spanned!(self.span()=> ::core::result::Result<#value, #error>)
    }

    fn span(&self) -> Span {
        self.written.span()
    }

    fn part(&self, wire: &Path, name: &str) -> TokenStream {
        let (written, name) = (&self.written, syn::Ident::new(name, self.span()));
        quote_spanned!(self.span()=> <#written as #wire::Returned>::#name)
    }
}

/// The `T` and `E` of a `Result<T, E>`, if they are visible.
fn parts_of(written: &Type) -> Result<Option<(Type, Type)>> {
    let segment = match plain(written) {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    // A name such as `io::Result<T>` or `FsResult<T>` is accepted as a `Result`. The compiler
    // checks it.
    match segment.filter(|segment| segment.ident.to_string().ends_with("Result")) {
        Some(segment) => Ok(match types_in(segment).as_slice() {
            [value, error] if segment.ident == "Result" => Some(((*value).clone(), (*error).clone())),
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
