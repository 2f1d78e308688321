//! From a trait to its stubs, descriptor and hash: an ordinary, testable library, which
//! `underpass-macros` makes into macros.
//!
//! *Decides:* which traits are interfaces, and what their authors are told if they aren't
//! (`model/`); what code is generated for them (`emit/`); and the same for the types that travel
//! (`wire.rs`).
//!
//! *Must not know:* the runtime. Generated code names it by one path, `::underpass::__private`, or
//! another's if `#[interface(crate = path)]` says so.
//!
//! *Read first:* `model/interface.rs`, then `tests/golden/file_cache.rs`: that is what is
//! generated.
//!
//! # Examples
//! ```
//! use quote::quote;
//!
//! let trait_ = quote! {
//!     trait Echo {
//!         fn echo(&self, text: &str) -> Result<String, CallError>;
//!     }
//! };
//! let generated = underpass_idl::interface(quote!(), trait_).to_string();
//! assert!(generated.contains("struct EchoClient"));
//! ```
#![forbid(unsafe_code)]

mod attribute;
mod doc;
mod emit;
mod errors;
mod model;
mod travel;
mod wire;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ItemTrait;

/// What `#[interface(attributes)]` makes of `item`: the trait, its client stub, its server stub and
/// its descriptor; or the trait and the errors in it.
pub fn interface(attributes: TokenStream, item: TokenStream) -> TokenStream {
    let mut item: ItemTrait = match syn::parse2(item.clone()) {
        Ok(item) => item,
        Err(error) => return model::not_a_trait(item, error),
    };
    let interface = model::Interface::parse(attributes, &item);
    attribute::remove_from_trait(&mut item);
    match interface {
        Ok(interface) => emit::interface(&interface, item),
        Err(error) => {
            let mut tokens = error.into_compile_error();
            item.to_tokens(&mut tokens);
            tokens
        }
    }
}

/// What `#[derive(Wire)]` makes of `item`: its `Encode`, `Decode` and `Schema`; or the errors in
/// it.
pub fn derive_wire(item: TokenStream) -> TokenStream {
    let derived = syn::parse2(item).and_then(|item| wire::derive(&item));
    derived.unwrap_or_else(syn::Error::into_compile_error)
}
