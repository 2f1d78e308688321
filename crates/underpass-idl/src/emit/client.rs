//! The client stub.

use super::{descriptor, own_methods};
use crate::model::{Interface, Method};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

/// Parts of a tuple that can travel.
const WIDEST: usize = 12;

/// The stub, its own methods, and its implementation of the trait.
pub(super) fn client(interface: &Interface) -> TokenStream {
    let Interface { vis, ident, private, docs, methods, .. } = interface;
    let client = interface.client();
    let tasks = methods.iter().map(|method| for_tasks(interface, method));
    let methods = methods.iter().map(|method| procedure(interface, method));
    let own_methods = own_methods::own_methods(interface);
    let descriptor = descriptor::descriptor(interface);
    let first =
        format!(" The client stub of [`{}`]: its implementation in another process.", interface.name());
    let separator = (!docs.is_empty()).then(|| quote!(#[doc = ""]));
    quote! {
        #[doc = #first]
        #separator
        #(#docs)*
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #[allow(dead_code)]
        #vis struct #client {
            stub: #private::Stub<dyn #ident + ::core::marker::Send + ::core::marker::Sync>,
        }

        #[automatically_derived]
        #[allow(dead_code)]
        impl #client {
            #own_methods

            #descriptor
        }

        #[automatically_derived]
        #[allow(deprecated)]
        impl #ident for #client {
            #(#methods)*
        }

        #[allow(dead_code)]
        impl #client {
            #(#tasks)*
        }
    }
}

/// One method: a direct call if the implementation is in this process, otherwise a call through the
/// binding.
fn procedure(interface: &Interface, method: &Method) -> TokenStream {
    let Method { ident, docs, arguments, returns, .. } = method;
    let names = arguments.iter().map(|argument| &argument.ident);
    let types = arguments.iter().map(|argument| &argument.written);
    let written = &returns.written;
    let body = body(interface, method, false);
    quote! {
        #(#docs)*
        fn #ident(&self, #(#names: #types),*) -> #written {
            #body
        }
    }
}

/// The same for async tasks.
fn for_tasks(interface: &Interface, method: &Method) -> TokenStream {
    let Interface { vis, .. } = interface;
    let Method { docs, arguments, returns, .. } = method;
    let names = arguments.iter().map(|argument| &argument.ident);
    let types = arguments.iter().map(|argument| &argument.written);
    let written = &returns.written;
    let for_tasks = method.for_tasks();
    let body = body(interface, method, true);
    let separator = (!docs.is_empty()).then(|| quote!(#[doc = ""]));
    let what = format!(
        " `{}` for async tasks, under any executor. The call is sent at the first poll; to drop the future abandons it. An implementation in this very \
         process is called directly, and holds up the executor's thread.",
        method.name()
    );
    quote! {
        #(#docs)*
        #separator
        #[doc = #what]
        ///
        /// # Errors
        /// The result of the implementation, or the error of the call.
        #[allow(deprecated, clippy::too_many_arguments)]
        #vis async fn #for_tasks(&self, #(#names: #types),*) -> #written {
            #body
        }
    }
}

/// The body of one method.
fn body(interface: &Interface, method: &Method, for_tasks: bool) -> TokenStream {
    let Interface { ident: trait_, wire, types, .. } = interface;
    let Method { index, ident, arguments, returns, idempotent, .. } = method;
    let call = match (for_tasks, idempotent) {
        (false, false) => "call",
        (false, true) => "call_idempotent",
        (true, false) => "call_async",
        (true, true) => "call_async_idempotent",
    };
    let call = Ident::new(call, returns.span());
    let awaited = for_tasks.then(|| quote_spanned!(returns.span()=> .await));
    let local = super::local("local");

    let names: Vec<&Ident> = arguments.iter().map(|argument| &argument.ident).collect();
    let sent = tuple(arguments.iter().map(|argument| argument.sent(types, wire)).collect());
    let [value, error] = returns.carried(types, wire);
    let called =
        quote_spanned!(returns.span()=> self.stub.#call::<_, #value, #error>(#index, #sent) #awaited);
    let called = returns.written_of(wire, called);
    quote! {
        if let ::core::option::Option::Some(#local) = self.stub.local() {
            return #trait_::#ident(&*#local, #(#names),*);
        }
        #called
    }
}

/// A name like `wanted` that is not in `taken`.
pub(super) fn free(wanted: &str, taken: &[&Ident], place: Span) -> Ident {
    let mut name = wanted.to_owned();
    while taken.iter().any(|taken| **taken == name) {
        name.push('_');
    }
    Ident::new(&name, place)
}

/// A reference to a tuple of the parts. If there are too many parts, a tuple of tuples, which has
/// the same bytes.
fn tuple(parts: Vec<TokenStream>) -> TokenStream {
    if parts.len() <= WIDEST {
        return quote!(&(#(#parts,)*));
    }
    tuple(parts.chunks(WIDEST).map(|chunk| tuple(chunk.to_vec())).collect())
}
