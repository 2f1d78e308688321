//! The client stub as a value: how it is made of an implementation, and how it travels.

use crate::model::Interface;
use proc_macro2::TokenStream;
use quote::quote;

/// The constructors, and what the stub needs to be an argument or a result.
pub(super) fn as_value(interface: &Interface) -> TokenStream {
    let (constructors, traits) = (constructors(interface), traits(interface));
    quote! {
        #constructors
        #traits
    }
}

fn constructors(interface: &Interface) -> TokenStream {
    let Interface { vis, ident, private, .. } = interface;
    let client = interface.client();
    let of_handlers = interface.asynchronous.then(|| of_handlers(interface));
    quote! {
        #[allow(dead_code, clippy::implied_bounds_in_impls)]
        impl #client {
            /// A stub of this implementation, which calls it directly. It is a value: a method can
            /// return it or take it, and another domain then calls the implementation by its own
            /// stub. The implementation is dropped when nobody has a stub of it any more, here or
            /// there.
            #vis fn new(
                __implementation: impl #ident + ::core::marker::Send + ::core::marker::Sync + 'static,
            ) -> Self {
                Self::of_service(#ident::serve(__implementation))
            }

            /// As [`new`](Self::new), of a service of the interface, such as an exclusive one. The
            /// options of the service don't matter.
            ///
            /// # Panics
            /// If the service is one of another interface.
            #vis fn of_service(__service: #private::Service) -> Self {
                Self { stub: #private::Stub::of_service(&__service, Self::descriptor()) }
            }

            #of_handlers
        }

    }
}

/// The constructor for async handlers.
fn of_handlers(interface: &Interface) -> TokenStream {
    let Interface { vis, private, .. } = interface;
    let trait_ = interface.of_futures();
    quote! {
        /// As [`new`](Self::new), of an implementation with async handlers. Each call is handed to
        /// `spawn`, which starts it on an executor, also if the caller is in this domain.
        ///
        /// A blocking method must not be called on a thread that the executor needs: the caller
        /// waits for the handler. Use the methods that end in `_async` there.
        #vis fn of_handlers(
            __implementation: impl #trait_ + ::core::marker::Send + ::core::marker::Sync + 'static,
            __spawn: impl ::core::ops::Fn(#private::Handler) + ::core::marker::Send + ::core::marker::Sync + 'static,
        ) -> Self {
            Self::of_service(#trait_::serve(__implementation, __spawn))
        }
    }
}

fn traits(interface: &Interface) -> TokenStream {
    let Interface { private, wire, .. } = interface;
    let (client, name) = (interface.client(), interface.name());
    quote! {
        #[automatically_derived]
        impl #wire::Encode for #client {
            const FIXED: ::core::option::Option<::core::primitive::usize> = ::core::option::Option::Some(0);

            #[inline]
            fn size(&self) -> ::core::primitive::usize {
                0
            }

            #[inline]
            fn encode<__S: #wire::Sink + ?::core::marker::Sized>(&self, __to: &mut __S) {
                self.stub.put(__to);
            }
        }

        #[automatically_derived]
        impl #wire::Decode for #client {
            #[inline]
            fn decode<__S: #wire::Source + ?::core::marker::Sized>(
                __from: &mut __S,
            ) -> ::core::result::Result<Self, #wire::DecodeError> {
                ::core::result::Result::Ok(Self { stub: #private::Stub::take(__from, Self::descriptor())? })
            }
        }

        #[automatically_derived]
        impl #wire::Schema for #client {
            type Itself = Self;

            fn schema(__types: &mut #wire::Types) -> #wire::TypeName {
                __types.interface(::core::any::type_name::<Self>(), #name, Self::__describe)
            }
        }
    }
}
