//! The code that is generated for an interface.

mod as_value;
mod client;
mod descriptor;
mod exclusive;
mod futures;
mod own_methods;
mod server;
mod types;

use crate::model::Interface;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::{ItemTrait, parse_quote};

/// The trait, its client stub, its server stub and its descriptor.
pub(crate) fn interface(interface: &Interface, mut item: ItemTrait) -> TokenStream {
    item.items.extend([serve(interface), serve_exclusive(interface), serve_sequential(interface)]);
    let types = types::types(interface);
    let client = client::client(interface);
    let as_value = as_value::as_value(interface);
    let server = server::server(interface);
    let exclusive = exclusive::exclusive(interface);
    let futures = interface.asynchronous.then(|| futures::futures(interface));
    quote! {
        #item
        #types
        #client
        #as_value
        #server
        #exclusive
        #futures
    }
}

/// A variable of generated code. Hygiene separates it from the arguments' names. The underscores
/// separate it from the author's constants, to which hygiene does not apply.
pub(crate) fn local(name: &str) -> Ident {
    format_ident!("__{name}", span = Span::mixed_site())
}

/// `FileCache::serve(implementation)`.
fn serve(interface: &Interface) -> syn::TraitItem {
    let Interface { private, .. } = interface;
    let (client, dispatch) = (interface.client(), interface.dispatch());
    parse_quote! {
        /// Makes a service of this implementation, which a `Server` can export.
        #[allow(dead_code)]
        fn serve(self) -> #private::Service
        where
            Self: ::core::marker::Sized + ::core::marker::Send + ::core::marker::Sync + 'static,
        {
            let __stub = ::std::sync::Arc::new(#dispatch(::std::sync::Arc::new(self)));
            #private::Service::new(#client::descriptor(), __stub)
        }
    }
}

/// `FileCache::serve_exclusive(implementation)`.
fn serve_exclusive(interface: &Interface) -> syn::TraitItem {
    let Interface { ident, private, .. } = interface;
    let exclusive = interface.exclusive();
    parse_quote! {
        /// As `serve`, of an implementation that need not be `Sync`: at any moment one thread runs
        /// it. Others run where that one waits.
        #[allow(dead_code)]
        fn serve_exclusive(self) -> #private::Service
        where
            Self: ::core::marker::Sized + ::core::marker::Send + 'static,
        {
            #ident::serve(#exclusive(#private::Exclusive::interleaving(self)))
        }
    }
}

/// `FileCache::serve_sequential(implementation)`.
fn serve_sequential(interface: &Interface) -> syn::TraitItem {
    let Interface { ident, private, .. } = interface;
    let exclusive = interface.exclusive();
    parse_quote! {
        /// As `serve_exclusive`. Others run when a call has ended.
        #[allow(dead_code)]
        fn serve_sequential(self) -> #private::Service
        where
            Self: ::core::marker::Sized + ::core::marker::Send + 'static,
        {
            #ident::serve(#exclusive(#private::Exclusive::sequential(self)))
        }
    }
}
