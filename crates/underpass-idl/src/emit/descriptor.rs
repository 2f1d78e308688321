//! The descriptor.

use crate::model::{Interface, Method};
use proc_macro2::TokenStream;
use quote::quote;
use syn::Path;

/// The function that returns it; it is made at the first call.
pub(super) fn descriptor(interface: &Interface) -> TokenStream {
    let Interface { vis, wire, doc, methods, .. } = interface;
    let name = interface.name();
    let mutability = (!methods.is_empty()).then(|| quote!(mut));
    let procedures = methods.iter().map(|method| procedure(method, wire));
    quote! {
        /// The interface as both sides must know it.
        #vis fn descriptor() -> &'static #wire::Descriptor {
            static DESCRIPTOR: ::std::sync::LazyLock<#wire::Descriptor> = ::std::sync::LazyLock::new(|| {
                let #mutability interface = #wire::Descriptor::builder(#name, #doc);
                #(#procedures)*
                interface.finish()
            });
            &DESCRIPTOR
        }
    }
}

fn procedure(method: &Method, wire: &Path) -> TokenStream {
    let Method { doc, arguments, outcome, astack, calls, .. } = method;
    let name = method.name();
    let arguments = arguments.iter().map(|argument| {
        let (name, carried) = (argument.name(), argument.carried(wire));
        quote!(.argument::<#carried>(#name))
    });
    let carried = outcome.carried(wire);
    let astack = astack.map(|bytes| bytes as usize).map(|bytes| quote!(.astack(#bytes)));
    let calls = calls.map(|calls| quote!(.calls(#calls)));
    quote! {
        interface
            .procedure(#name, #doc)
            #(#arguments)*
            #astack
            #calls
            .result::<#carried>();
    }
}
