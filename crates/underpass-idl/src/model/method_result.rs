//! What a method returns.

use super::parameter::plain;
use super::{CarriedType, MarkedTypes, Role};
use crate::errors::Errors;
use crate::travel;
use proc_macro2::{Ident, Span, TokenStream};
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

    /// The types that travel: the `T` and the `E` of the `Result<T, E>`.
    pub(crate) fn carried_types(&self, wire: &Path) -> [CarriedType; 2] {
        let value = match &self.parts {
            Some((value, _)) if !self.serde => CarriedType::value(value),
            Some((value, _)) => self.by_serde(wire, value),
            None if self.serde => self.by_serde(wire, &self.part(wire, "Value")),
            None => CarriedType::new(Role::Value, self.part(wire, "Value")),
        };
        let error = match &self.parts {
            Some((_, error)) => CarriedType::new(Role::Error, error),
            None => CarriedType::new(Role::Error, self.part(wire, "Error")),
        };
        [value, error]
    }

    /// The markers of both.
    pub(crate) fn carried(&self, types: &MarkedTypes, wire: &Path) -> [TokenStream; 2] {
        self.carried_types(wire).map(|of| types.marker(&of))
    }

    /// `result`, which is a `Result` that came, as the signature has it.
    pub(crate) fn written_of(&self, wire: &Path, result: TokenStream) -> TokenStream {
        let result = if self.serde { quote!(#result.map(|#wire::Serde(__value)| __value)) } else { result };
        if self.parts.is_some() {
            return result;
        }
        let (span, wire) = (self.span(), travel::at(self.span(), wire));
        quote_spanned!(span=> #wire::Returned::from_result(#result))
    }

    /// `result`, which is of the type in the signature, as the `Result` that travels.
    ///
    /// If the type is no `Result`, each part of this that the compiler may refuse has the type's
    /// span. Equal errors are reported once.
    pub(crate) fn sent_of(&self, wire: &Path, result: TokenStream) -> TokenStream {
        let result = if self.parts.is_some() {
            result
        } else {
            let (span, wire) = (self.span(), travel::at(self.span(), wire));
            let written = Ident::new("__written", span);
            quote_spanned!(span=> { let #written = #result; #wire::Returned::into_result(#written) })
        };
        if self.serde { quote!(#result.map(#wire::Serde)) } else { result }
    }

    /// Where errors about the result belong.
    pub(crate) fn span(&self) -> Span {
        self.written.span()
    }

    fn by_serde(&self, wire: &Path, value: &impl ToTokens) -> CarriedType {
        CarriedType::new(Role::Value, quote_spanned!(value.span()=> #wire::Serde<#value>))
    }

    /// `Value` or `Error` of the `Result` that an alias hides.
    fn part(&self, wire: &Path, name: &str) -> TokenStream {
        let (written, name) = (&self.written, Ident::new(name, self.written.span()));
        quote_spanned!(written.span()=> <#written as #wire::Returned>::#name)
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
