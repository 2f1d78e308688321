//! Expansions, compared with files: `tests/golden/NAME.rs` is what is written, `NAME.expanded.rs`
//! what is generated.
//!
//! After a change that is meant, `UPDATE_GOLDEN=1 cargo test -p underpass-idl --features serde`
//! writes the files anew.

use quote::ToTokens;
use std::path::Path;
use syn::{File, Item};

/// Expands every item that has one of our attributes, and leaves the others out.
fn expand(input: &str) -> String {
    let mut expanded = String::new();
    for item in syn::parse_file(input).expect("the input parses").items {
        let tokens = match item {
            Item::Trait(mut item) => {
                let attribute = item
                    .attrs
                    .remove(item.attrs.iter().position(|a| a.path().is_ident("interface")).unwrap());
                let arguments = match attribute.meta {
                    syn::Meta::List(list) => list.tokens,
                    _ => Default::default(),
                };
                underpass_idl::interface(arguments, item.into_token_stream())
            }
            Item::Struct(mut item) => {
                item.attrs.retain(|a| !a.path().is_ident("derive"));
                underpass_idl::derive_wire(item.into_token_stream())
            }
            Item::Enum(mut item) => {
                item.attrs.retain(|a| !a.path().is_ident("derive"));
                underpass_idl::derive_wire(item.into_token_stream())
            }
            Item::Impl(mut item) => {
                item.attrs.retain(|a| !a.path().is_ident("object"));
                underpass_idl::object(Default::default(), item.into_token_stream())
            }
            _ => continue,
        };
        let file: File = syn::parse2(tokens).expect("what is generated parses");
        expanded.push_str(&prettyplease::unparse(&file));
    }
    expanded
}

fn compare(name: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let input = std::fs::read_to_string(directory.join(format!("{name}.rs"))).unwrap();
    let path = directory.join(format!("{name}.expanded.rs"));
    let generated = expand(&input);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some(line) = (1..).zip(generated.lines().zip(expected.lines())).find(|(_, (g, e))| g != e) {
        panic!(
            "{}: line {} should be\n{}\nand is\n{}\nIf that is meant, run \
             `UPDATE_GOLDEN=1 cargo test -p underpass-idl --features serde` and look at the difference.",
            path.display(),
            line.0,
            line.1.1,
            line.1.0
        );
    }
    assert_eq!(generated.lines().count(), expected.lines().count(), "lines in {}", path.display());
}

#[test]
fn a_small_interface() {
    compare("file_cache");
}

#[test]
fn every_way_to_pass_an_argument() {
    compare("arguments");
}

#[test]
fn an_argument_that_is_left_where_it_lies() {
    compare("shared");
}

#[test]
fn a_procedure_with_a_body() {
    compare("provided");
}

#[test]
fn more_arguments_than_a_tuple_can_have() {
    compare("many");
}

#[test]
fn handlers_that_are_async() {
    compare("asynchronous");
}

#[test]
fn procedures_that_say_what_they_want() {
    compare("procedures");
}

#[test]
fn types_of_every_shape() {
    compare("types");
}

#[test]
fn an_object_whose_operations_run_in_each_way() {
    compare("object");
}

#[test]
fn methods_that_were_added() {
    compare("versions");
}

#[test]
fn structs_to_which_fields_were_added() {
    compare("extensible");
}

#[test]
#[cfg(feature = "serde")]
fn values_that_serde_knows() {
    compare("serde");
}
