//! The trait for `async fn` handlers, and its server stub.

use super::server;
use crate::model::{Interface, Method};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// Generates both, for an interface that asks for them.
pub(super) fn futures(interface: &Interface) -> TokenStream {
    let Interface { vis, private, docs, methods, .. } = interface;
    let (client, trait_, dispatch) =
        (interface.client(), interface.of_futures(), interface.dispatch_of_futures());
    let handlers = methods.iter().map(handler);
    let server_stub = server_stub(interface);
    let first = format!(" [`{}`] with handlers that are `async fn`s.", interface.name());
    let separator = (!docs.is_empty()).then(|| quote!(#[doc = ""]));
    quote! {
        #[doc = #first]
        #separator
        #(#docs)*
        #[allow(dead_code, clippy::too_many_arguments)]
        #vis trait #trait_ {
            #(#handlers)*

            /// Makes a service of this implementation, which a `Server` can export. Each call is
            /// handed to `spawn`, which starts it on an executor.
            ///
            /// Importers in this very process call over a channel too.
            #[allow(dead_code)]
            fn serve(
                self,
                spawn: impl ::core::ops::Fn(#private::Handler) + ::core::marker::Send + ::core::marker::Sync + 'static,
            ) -> #private::Service
            where
                Self: ::core::marker::Sized + ::core::marker::Send + ::core::marker::Sync + 'static,
            {
                let __stub = ::std::sync::Arc::new(#dispatch {
                    implementation: ::std::sync::Arc::new(self),
                    spawn: ::std::boxed::Box::new(spawn),
                });
                #private::Service::new(#client::descriptor(), __stub)
            }
        }

        #server_stub
    }
}

/// Its server stub.
fn server_stub(interface: &Interface) -> TokenStream {
    let Interface { private, methods, .. } = interface;
    let (trait_, dispatch) = (interface.of_futures(), interface.dispatch_of_futures());
    let call = super::local("call");
    let procedures = methods.iter().map(|method| procedure(interface, method, &call));
    let doc = format!(" The server stub of [`{trait_}`].");
    let dispatches = dispatches(interface, &call);
    quote! {
        #[doc = #doc]
        #[doc(hidden)]
        struct #dispatch<__T> {
            implementation: ::std::sync::Arc<__T>,
            spawn: ::std::boxed::Box<#private::Spawn>,
        }

        #[automatically_derived]
        #[allow(deprecated)]
        impl<__T> #dispatch<__T>
        where
            __T: #trait_ + ::core::marker::Send + ::core::marker::Sync + 'static,
        {
            #[inline]
            fn run(
                &self,
                #call: &mut impl #private::HandlerCall,
            ) -> ::core::result::Result<(), #private::Refused> {
                match #call.procedure() {
                    #(#procedures)*
                    _ => #call.unknown(),
                }
            }
        }

        #dispatches
    }
}

/// What the server stub does for callers in other domains, and in its own.
fn dispatches(interface: &Interface, call: &Ident) -> TokenStream {
    let Interface { private, .. } = interface;
    let (trait_, dispatch) = (interface.of_futures(), interface.dispatch_of_futures());
    quote! {
        #[automatically_derived]
        impl<__T> #private::Dispatch for #dispatch<__T>
        where
            __T: #trait_ + ::core::marker::Send + ::core::marker::Sync + 'static,
        {
            fn dispatch(
                &self,
                #call: &mut #private::IncomingCall<'_>,
            ) -> ::core::result::Result<(), #private::Refused> {
                self.run(#call)
            }

            fn local(
                self: ::std::sync::Arc<Self>,
            ) -> ::core::option::Option<::std::boxed::Box<dyn ::core::any::Any>> {
                let __local: ::std::sync::Arc<dyn #private::DispatchLocal> = self;
                ::core::option::Option::Some(::std::boxed::Box::new(__local))
            }
        }

        #[automatically_derived]
        impl<__T> #private::DispatchLocal for #dispatch<__T>
        where
            __T: #trait_ + ::core::marker::Send + ::core::marker::Sync + 'static,
        {
            fn dispatch_local(
                &self,
                #call: &mut #private::LocalCall,
            ) -> ::core::result::Result<(), #private::Refused> {
                self.run(#call)
            }
        }
    }
}

/// One method of the trait.
fn handler(method: &Method) -> TokenStream {
    let Method { ident, docs, arguments, returns, .. } = method;
    let names = arguments.iter().map(|argument| &argument.ident);
    let types = arguments.iter().map(|argument| &argument.written);
    let written = &returns.written;
    quote! {
        #(#docs)*
        fn #ident(
            &self,
            #(#names: #types),*
        ) -> impl ::core::future::Future<Output = #written> + ::core::marker::Send;
    }
}

/// Takes the arguments, and passes the call to the executor.
fn procedure(interface: &Interface, method: &Method, call: &Ident) -> TokenStream {
    let Interface { wire, types, .. } = interface;
    let trait_ = interface.of_futures();
    let Method { index, ident, returns, .. } = method;
    let implementation = super::local("implementation");
    let [taken, passed] = server::arguments(interface, method, call, true);
    let [value, error] = returns.carried(types, wire);
    let sent = returns.sent_of(wire, quote!(#trait_::#ident(&*#implementation, #(#passed),*).await));
    quote! {
        #index => {
            #(#taken)*
            #call.end()?;
            let #implementation = ::std::sync::Arc::clone(&self.implementation);
            #call.later::<#value, #error>(&*self.spawn, async move {
                #sent
            })
        }
    }
}
