//! What the derives for shared memory generate, and what they refuse.

use proc_macro2::TokenStream;
use quote::quote;
use underpass_idl::{derive_region_layout, derive_shareable};

/// The one error in what was generated.
fn error(generated: TokenStream) -> String {
    let text = generated.to_string();
    let (_, error) = text.split_once("compile_error ! {").unwrap_or_else(|| panic!("no error: {text}"));
    error.trim().trim_end_matches('}').trim().trim_matches('"').to_owned()
}

#[test]
fn what_has_no_fixed_layout_is_refused() {
    let cases = [
        (
            quote!(
                struct Plain {
                    a: u8,
                }
            ),
            "add `#[repr(C)]`",
        ),
        (
            quote!(
                #[repr(align(8))]
                struct Aligned {
                    a: u8,
                }
            ),
            "add `#[repr(C)]`",
        ),
        (
            quote!(
                #[repr(C)]
                struct Generic<T> {
                    a: T,
                }
            ),
            "without parameters",
        ),
        (
            quote!(
                enum Plain {
                    A,
                }
            ),
            "add `#[repr(u8)]`",
        ),
        (
            quote!(
                #[repr(C)]
                enum Foreign {
                    A,
                }
            ),
            "add `#[repr(u8)]`",
        ),
        (
            quote!(
                #[repr(u8)]
                enum Full {
                    A(u8),
                }
            ),
            "variants without fields",
        ),
        (quote!(#[repr(C)] union Either { a: u8, b: i8 }), "make it a struct"),
        (
            quote!(
                #[repr(C)]
                struct Optional {
                    #[cfg(unix)]
                    a: u8,
                }
            ),
            "take this out",
        ),
    ];
    for (item, expected) in cases {
        let error = error(derive_shareable(item.clone()));
        assert!(error.contains(expected), "{item}: {error}");
    }
}

#[test]
fn a_region_is_a_struct_without_parameters() {
    assert!(
        error(derive_region_layout(quote!(
            enum Either {
                A,
            }
        )))
        .contains("is a struct of locks")
    );
    assert!(
        error(derive_region_layout(quote!(
            struct Generic<T>(Mutex<T>);
        )))
        .contains("without parameters")
    );
}

#[test]
fn every_field_is_checked_and_padding_is_refused_at_compile_time() {
    let item = quote! {
        #[repr(C)]
        struct Order { price: u64, side: Side }
    };
    let generated = derive_shareable(item).to_string();
    for part in [
        "offset_of ! (Self , price)",
        "offset_of ! (Self , side)",
        "size_of :: < Side > ()",
        "the type has padding",
    ] {
        assert!(generated.contains(part), "{part}: {generated}");
    }
}

#[test]
fn the_path_of_the_facade_can_be_set() {
    let item = quote! {
        #[underpass(crate = crate::mock)]
        struct Queue { lock: Mutex<u64> }
    };
    assert!(derive_region_layout(item).to_string().contains("use crate :: mock :: __private :: shared"));
}
