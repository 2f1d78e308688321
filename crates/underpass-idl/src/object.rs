//! `#[object]`: the operations of an object with a home, and how each of them runs.

mod at_home;
mod client;
mod model;

use crate::attribute;
use crate::emit;
use crate::model::Interface;
use model::{Object, ObjectOperation, Runs};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, Item, ItemImpl, ItemTrait, parse_quote};

/// The `impl`, the home and the client; or the `impl` and the errors.
pub(crate) fn expand(attributes: TokenStream, item: TokenStream) -> TokenStream {
    let mut block: ItemImpl = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(error) => return no_impl(item, error),
    };
    let object = Object::parse(attributes, &block);
    model::remove_marks(&mut block);
    match object.and_then(|object| generated(&object)) {
        Ok(generated) => quote!(#block #generated),
        Err(error) => {
            let mut tokens = error.into_compile_error();
            block.to_tokens(&mut tokens);
            tokens
        }
    }
}

fn no_impl(item: TokenStream, error: Error) -> TokenStream {
    let error = match syn::parse2::<Item>(item.clone()) {
        Ok(_) => Error::new_spanned(
            item.clone(),
            "`#[object]` stands on the `impl` of a type that derives `Shareable`: write `impl Book { .. }`",
        ),
        Err(_) => error,
    };
    let mut tokens = error.into_compile_error();
    item.to_tokens(&mut tokens);
    tokens
}

fn generated(object: &Object) -> syn::Result<TokenStream> {
    let calls = calls(object);
    let Object { krate, .. } = object;
    let attributes = krate.as_ref().map(|path| quote!(crate = #path)).unwrap_or_default();
    let interface = Interface::parse(attributes, &calls)?;
    let mut calls = calls;
    attribute::remove_from_trait(&mut calls);
    let interface = emit::interface(&interface, calls);
    let (home, client) = (at_home::home(object), client::client(object));
    Ok(quote!(#interface #home #client))
}

/// The interface of the operations that calls execute: those at process level.
fn calls(object: &Object) -> ItemTrait {
    let Object { private, operations, .. } = object;
    let ident = object.calls();
    let methods = operations.iter().filter(|operation| operation.runs.by_calls()).map(|operation| {
        let ObjectOperation { ident, inputs, output, .. } = operation;
        quote! {
            fn #ident(&self, #(#inputs),*) -> ::core::result::Result<#output, #private::CallError>;
        }
    });
    parse_quote! {
        #[doc(hidden)]
        trait #ident {
            fn __generation(&self) -> ::core::result::Result<::core::primitive::u64, #private::CallError>;
            #(#methods)*
        }
    }
}
