//! The client stub.

use super::descriptor;
use crate::model::{Argument, Interface, Method};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Path;

/// Parts of a tuple that can travel.
const WIDEST: usize = 12;

/// The stub, what it does by itself, and its implementation of the trait.
pub(super) fn client(interface: &Interface) -> TokenStream {
    let Interface { vis, ident, private, docs, methods, .. } = interface;
    let client = interface.client();
    let methods = methods.iter().map(|method| procedure(interface, method));
    let descriptor = descriptor::descriptor(interface);
    let first =
        format!(" The client stub of [`{}`]: its implementation in another process.", interface.name());
    let separator = (!docs.is_empty()).then(|| quote!(#[doc = ""]));
    quote! {
        #[doc = #first]
        #separator
        #(#docs)*
        #[derive(Clone, Debug)]
        #[allow(dead_code)]
        #vis struct #client {
            stub: #private::Stub<dyn #ident + ::core::marker::Send + ::core::marker::Sync>,
        }

        #[automatically_derived]
        #[allow(dead_code)]
        impl #client {
            /// Imports the interface that is exported as `name`. If that is this very domain's, calls will be direct.
            ///
            /// # Errors
            /// There is no such name, or no permission, or it is another interface: each variant tells the remedy.
            #vis fn import(name: &str) -> ::core::result::Result<Self, #private::ImportError> {
                ::core::result::Result::Ok(Self {
                    stub: #private::Stub::import(name, Self::descriptor(), ::core::option::Option::None)?,
                })
            }

            /// Imports the interface that is exported as `name`, or will be within that time.
            ///
            /// # Errors
            /// As [`import`](Self::import), once the time is over.
            #vis fn import_within(
                name: &str,
                time: ::core::time::Duration,
            ) -> ::core::result::Result<Self, #private::ImportError> {
                ::core::result::Result::Ok(Self {
                    stub: #private::Stub::import(name, Self::descriptor(), ::core::option::Option::Some(time))?,
                })
            }

            /// The same binding; every call of this copy of it returns with a deadline error after that time.
            #[must_use]
            #vis fn with_deadline(&self, time: ::core::time::Duration) -> Self {
                Self { stub: self.stub.with_deadline(time) }
            }

            /// What this binding has cost so far.
            #vis fn counters(&self) -> #private::Counters {
                self.stub.counters()
            }

            #descriptor
        }

        #[automatically_derived]
        #[allow(deprecated)]
        impl #ident for #client {
            #(#methods)*
        }
    }
}

/// One method: a direct call if the implementation is here, else a call through the binding.
fn procedure(interface: &Interface, method: &Method) -> TokenStream {
    let (trait_, private) = (&interface.ident, &interface.private);
    let Method { index, ident, docs, arguments, outcome, .. } = method;
    // Out of reach of the arguments' names.
    let local = Ident::new("local", Span::mixed_site());
    let result = Ident::new("result", Span::mixed_site());
    let error = Ident::new("error", Span::mixed_site());

    let names: Vec<&Ident> = arguments.iter().map(|argument| &argument.ident).collect();
    let types = arguments.iter().map(|argument| &argument.written);
    let written = &outcome.written;
    let sent = tuple(arguments.iter().map(|argument| sent(argument, private)).collect());
    let carried = outcome.carried(private);
    let received = if outcome.serde {
        quote!(#result.map(|#private::wire::Serde(#result)| #result))
    } else {
        quote!(#result)
    };
    // At the error's own place, so that a missing `From<CallError>` is told there.
    let failure = outcome.error(private);
    let failed = quote_spanned! {syn::spanned::Spanned::span(&failure)=>
        <#failure as #private::FromCallError>::from_call_error
    };
    quote! {
        #(#docs)*
        fn #ident(&self, #(#names: #types),*) -> #written {
            if let ::core::option::Option::Some(#local) = self.stub.local() {
                return #trait_::#ident(#local, #(#names),*);
            }
            match self.stub.call::<_, #carried>(#index, &#sent) {
                ::core::result::Result::Ok(#result) => #received,
                ::core::result::Result::Err(#error) => ::core::result::Result::Err(#failed(#error)),
            }
        }
    }
}

/// What is encoded for an argument: what is lent as it is, what is owned by reference.
fn sent(argument: &Argument, private: &Path) -> TokenStream {
    let Argument { ident, lent, serde, .. } = argument;
    let lent = if *lent { quote!(#ident) } else { quote!(&#ident) };
    if *serde { quote!(#private::wire::Serde(#lent)) } else { lent }
}

/// A tuple of the parts; of tuples, if there are too many, which take the same bytes.
fn tuple(parts: Vec<TokenStream>) -> TokenStream {
    if parts.len() <= WIDEST {
        return quote!((#(#parts,)*));
    }
    tuple(parts.chunks(WIDEST).map(|chunk| tuple(chunk.to_vec())).collect())
}
