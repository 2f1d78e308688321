//! The descriptor.

use crate::model::{Interface, Method};
use proc_macro2::TokenStream;
use quote::quote;

/// The function that returns the descriptor, which is made at its first call.
pub(super) fn descriptor(interface: &Interface) -> TokenStream {
    let Interface { vis, wire, doc, methods, stateless, .. } = interface;
    let client = interface.client();
    let name = interface.name();
    let stateless = stateless.then(|| quote!(__interface.stateless();));
    let procedures = methods.iter().map(|method| procedure(interface, method));
    let sizes = methods.iter().map(|method| sizes(interface, method));
    let count = methods.len();
    quote! {
        /// The bytes of arguments and results, and the A-stacks that follow from them, for each
        /// procedure in the order of the trait.
        #vis const SIZES: [#wire::Sizes; #count] = [#(#sizes),*];

        /// Bytes of the interface's A-stacks: the largest that any of its procedures needs.
        #vis const ASTACK: ::core::primitive::usize = #wire::Sizes::largest(&Self::SIZES);

        /// The interface as both sides must know it.
        #vis fn descriptor() -> &'static #wire::Descriptor {
            static __DESCRIPTOR: ::std::sync::LazyLock<#wire::Descriptor> = ::std::sync::LazyLock::new(|| {
                #wire::Descriptor::of_versions(#name, #doc, #client::__describe)
            });
            &__DESCRIPTOR
        }

        fn __describe(__interface: &mut #wire::DescriptorBuilder) {
            #stateless
            #(#procedures)*
        }
    }
}

fn procedure(interface: &Interface, method: &Method) -> TokenStream {
    let Interface { private, wire, types, .. } = interface;
    let client = interface.client();
    let Method { index, doc, arguments, returns, calls, since, .. } = method;
    let name = method.name();
    let arguments = arguments.iter().map(|argument| {
        let (name, carried) = (argument.name(), argument.carried(types, wire));
        quote!(.argument::<#carried>(#name))
    });
    let [value, error] = returns.carried(types, wire);
    let index = *index as usize;
    let calls = calls.map(|calls| quote!(.calls(#calls)));
    let since = (*since > 1).then(|| quote!(.since(#since)));
    quote! {
        __interface
            .procedure(#name, #doc, #client::SIZES[#index])
            #since
            #(#arguments)*
            #calls
            .result::<#private::ResultOf<#value, #error>>();
    }
}

/// The constants of a procedure that the compiler computes.
fn sizes(interface: &Interface, method: &Method) -> TokenStream {
    let Interface { private, wire, types, .. } = interface;
    let Method { arguments, returns, astack, .. } = method;
    let fixed = arguments.iter().map(|argument| {
        let carried = argument.carried(types, wire);
        quote!(#wire::carried::fixed::<#carried, ()>())
    });
    let stated = match astack.map(|bytes| bytes as usize) {
        Some(bytes) => quote!(::core::option::Option::Some(#bytes)),
        None => quote!(::core::option::Option::None),
    };
    let [value, error] = returns.carried(types, wire);
    quote!(#wire::Sizes::of::<#private::ResultOf<#value, #error>>(&[#(#fixed),*], #stated))
}
