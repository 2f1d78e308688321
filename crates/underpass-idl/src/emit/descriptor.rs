//! The descriptor.

use crate::model::{Interface, Method};
use proc_macro2::TokenStream;
use quote::quote;
use syn::Path;

/// The function that returns it; it is made at the first call.
pub(super) fn descriptor(interface: &Interface) -> TokenStream {
    let Interface { vis, private, doc, methods, .. } = interface;
    let name = interface.name();
    let mutability = (!methods.is_empty()).then(|| quote!(mut));
    let procedures = methods.iter().map(|method| procedure(method, private));
    quote! {
        /// The interface as both sides must know it.
        #vis fn descriptor() -> &'static #private::wire::Descriptor {
            static DESCRIPTOR: ::std::sync::LazyLock<#private::wire::Descriptor> = ::std::sync::LazyLock::new(|| {
                let #mutability interface = #private::wire::Descriptor::builder(#name, #doc);
                #(#procedures)*
                interface.finish()
            });
            &DESCRIPTOR
        }
    }
}

fn procedure(method: &Method, private: &Path) -> TokenStream {
    let Method { doc, arguments, outcome, .. } = method;
    let name = method.name();
    let arguments = arguments.iter().map(|argument| {
        let (name, carried) = (argument.name(), argument.carried(private));
        quote!(.argument::<#carried>(#name))
    });
    let carried = outcome.carried(private);
    quote! {
        interface
            .procedure(#name, #doc)
            #(#arguments)*
            .result::<#carried>();
    }
}
