//! The implementation that a server exports for one that is not `Sync`: it takes its turn.

use super::client::free;
use crate::model::{Interface, Method};
use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};

/// The type, and its implementation of the trait.
pub(super) fn exclusive(interface: &Interface) -> TokenStream {
    let Interface { ident, private, methods, .. } = interface;
    let exclusive = interface.exclusive();
    let methods = methods.iter().map(|method| procedure(interface, method));
    let doc = format!(" An implementation of [`{}`] that one thread at a time uses.", interface.name());
    quote! {
        #[doc = #doc]
        #[doc(hidden)]
        #[derive(::core::fmt::Debug)]
        struct #exclusive<__T>(#private::Exclusive<__T>);

        #[automatically_derived]
        #[allow(deprecated, clippy::redundant_closure)]
        impl<__T> #ident for #exclusive<__T>
        where
            __T: #ident + ::core::marker::Send + 'static,
        {
            #(#methods)*
        }
    }
}

/// One method: the implementation's, once it is the caller's turn.
fn procedure(interface: &Interface, method: &Method) -> TokenStream {
    let Interface { ident: trait_, private, wire, types, .. } = interface;
    let Method { ident, arguments, returns, .. } = method;
    // At the method's name, where an error about what it returns belongs.
    let mut trait_ = trait_.clone();
    trait_.set_span(ident.span().resolved_at(trait_.span()));
    let [inside, error] = ["inside", "error"].map(super::local);
    let names: Vec<&Ident> = arguments.iter().map(|argument| &argument.ident).collect();
    let [_, failure] = returns.carried(types, wire);
    let types = arguments.iter().map(|argument| &argument.written);
    let written = &returns.written;
    let failed = quote!(<#failure as #private::CarriedError>::from_call_error);
    let service = free("__service", &names, ident.span());
    let run = quote_spanned! {ident.span()=>
        #service.run(|#inside| #trait_::#ident(#inside, #(#names),*), |#error| #failed(#error))
    };
    quote! {
        fn #ident(&self, #(#names: #types),*) -> #written {
            let #service = &self.0;
            #run
        }
    }
}
