//! Which types can travel at all, as far as the tokens show.

use crate::errors::Errors;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{
    GenericArgument, Path, Type, TypeFnPtr, TypeImplTrait, TypeInfer, TypeNever, TypePath, TypePtr,
    TypeReference, TypeTraitObject,
};

/// Refuses types that have no meaning in another process. Each such part of `of` is an error of its
/// own.
pub(crate) fn check(of: &Type, errors: &mut Errors) {
    Check { errors }.visit_type(of);
}

/// `path`, with another span: where errors about it belong.
pub(crate) fn at(span: Span, path: &Path) -> TokenStream {
    let mut tokens: Vec<TokenTree> = path.to_token_stream().into_iter().collect();
    tokens.iter_mut().for_each(|token| token.set_span(span));
    tokens.into_iter().collect()
}

/// Whether it is a type that certainly travels. Such a type is its own marker.
pub(crate) fn is_plain(of: &Type) -> bool {
    const PLAIN: [&str; 17] = [
        "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "u128", "i128", "usize", "isize", "f32", "f64",
        "bool", "char", "String",
    ];
    match of {
        Type::Path(path) => path.qself.is_none() && PLAIN.iter().any(|plain| path.path.is_ident(plain)),
        Type::Tuple(parts) => parts.elems.is_empty(),
        _ => false,
    }
}

struct Check<'a> {
    errors: &'a mut Errors,
}

impl<'ast> Visit<'ast> for Check<'_> {
    fn visit_type_reference(&mut self, of: &'ast TypeReference) {
        self.errors.at(
            of,
            "a reference travels only as a whole argument (`&str`, `&[T]`, `&T`); here, write the type that owns \
             (`String`, `Vec<T>`, `T`)",
        );
    }

    fn visit_type_ptr(&mut self, of: &'ast TypePtr) {
        self.errors.at(
            of,
            "a pointer means nothing in another process: send the value, or a number by which the server finds it",
        );
    }

    fn visit_type_fn_ptr(&mut self, of: &'ast TypeFnPtr) {
        self.errors.at(
            of,
            "a function can't travel: give the interface a method for each thing to do, or send an enum that says which",
        );
    }

    fn visit_type_impl_trait(&mut self, of: &'ast TypeImplTrait) {
        self.errors.at(of, "`impl Trait` can't travel, as the other side has to know the type: write it out");
    }

    fn visit_type_trait_object(&mut self, of: &'ast TypeTraitObject) {
        self.errors.at(
            of,
            "`dyn Trait` can't travel, as the other side has to know the type: send an enum of those it may be",
        );
    }

    fn visit_type_infer(&mut self, of: &'ast TypeInfer) {
        self.errors.at(of, "both sides have to know the type: write it out");
    }

    fn visit_type_never(&mut self, of: &'ast TypeNever) {
        self.errors.at(of, "there is no value of this type to send: write `()`");
    }

    fn visit_type_path(&mut self, of: &'ast TypePath) {
        if of.qself.is_none() && of.path.segments.first().is_some_and(|first| first.ident == "Self") {
            self.errors.at(
                of,
                "`Self` is another type on each side (the client's is a stub): write the type that travels",
            );
            return;
        }
        visit::visit_type_path(self, of);
    }

    fn visit_generic_argument(&mut self, argument: &'ast GenericArgument) {
        if let GenericArgument::Lifetime(lifetime) = argument {
            if lifetime.ident != "static" {
                self.errors.at(
                    lifetime,
                    "what travels owns what it holds: use a type without lifetimes, or with `'static` (`Cow<'static, str>`)",
                );
            }
            return;
        }
        visit::visit_generic_argument(self, argument);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(of: &str) -> usize {
        let mut errors = Errors::default();
        check(&syn::parse_str(of).unwrap(), &mut errors);
        errors.finish(()).err().map_or(0, |all| all.into_iter().count())
    }

    #[test]
    fn types_that_own_travel() {
        for of in [
            "u8",
            "Vec<Option<(u8, [String; 3])>>",
            "std::collections::HashMap<K, fs::Stat>",
            "()",
            "Id<3>",
            "Cow<'static, [u8]>",
        ] {
            assert_eq!(errors(of), 0, "{of}");
        }
    }

    #[test]
    fn every_part_that_cannot_is_told() {
        for of in
            ["Option<&str>", "*const u8", "fn(u8) -> u8", "Box<dyn Read>", "Vec<_>", "Self", "Self::Id", "!"]
        {
            assert_eq!(errors(of), 1, "{of}");
        }
        assert_eq!(errors("Option<impl Read>"), 1);
        assert_eq!(errors("Cow<'a, [u8]>"), 1);
        assert_eq!(errors("(Vec<&u8>, Box<dyn Read>, [*mut u8; 3])"), 3);
    }
}
