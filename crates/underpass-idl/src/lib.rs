//! From a trait to its stubs, descriptor and hash. This is an ordinary, testable library, of which
//! `underpass-macros` makes macros.
//!
//! *Decides:* which traits are interfaces, and which errors their authors get if they are not
//! (`model/`). It also decides which code is generated for them (`emit/`), and the same for the
//! types that travel (`wire.rs`) and for objects with a home (`object.rs`).
//!
//! *Must not know:* the runtime. Generated code names the runtime by one path,
//! `::underpass::__private`, or by the one in `#[interface(crate = path)]`.
//!
//! *Read first:* `model/interface.rs`, then the generated code in `tests/golden/file_cache.rs`.
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
mod object;
mod shared_memory;
mod travel;
mod wire;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ItemTrait;

/// Expands `#[interface(attributes)]` on `item`: the trait, its client stub, its server stub and
/// its descriptor. If there are errors: the trait and the errors.
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

/// Expands `#[object(attributes)]` on `item`: the `impl`, the home and the client. If there are
/// errors: the `impl` and the errors.
pub fn object(attributes: TokenStream, item: TokenStream) -> TokenStream {
    object::expand(attributes, item)
}

/// Expands `#[derive(Wire)]` on `item`: its `Encode`, `Decode` and `Schema`, or the errors.
pub fn derive_wire(item: TokenStream) -> TokenStream {
    let derived = syn::parse2(item).and_then(|item| wire::derive(&item));
    derived.unwrap_or_else(syn::Error::into_compile_error)
}

/// Expands `#[derive(Shareable)]` on `item`: that its bytes can lie in shared memory, or the
/// errors.
pub fn derive_shareable(item: TokenStream) -> TokenStream {
    let derived = syn::parse2(item).and_then(|item| shared_memory::shareable(&item));
    derived.unwrap_or_else(syn::Error::into_compile_error)
}

/// Expands `#[derive(RegionLayout)]` on `item`: where its objects lie in a region, or the errors.
pub fn derive_region_layout(item: TokenStream) -> TokenStream {
    let derived = syn::parse2(item).and_then(|item| shared_memory::region_layout(&item));
    derived.unwrap_or_else(syn::Error::into_compile_error)
}
