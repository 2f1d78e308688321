//! What `#[object]` refuses, and what it generates.

use proc_macro2::TokenStream;
use underpass_idl::object;

fn expand(source: &str) -> String {
    object(TokenStream::new(), source.parse().unwrap()).to_string()
}

/// The errors of `source`.
fn errors(source: &str) -> Vec<String> {
    let expanded = expand(source);
    let found = expanded.split("compile_error ! {").skip(1);
    found.map(|rest| rest.split("\" }").next().unwrap_or_default().trim().replace("\\\"", "\"")).collect()
}

/// The one error of an object with this one operation.
#[track_caller]
fn refused(operation: &str, part: &str) {
    let found = errors(&format!("impl Book {{ {operation} }}"));
    let [error] = &found[..] else { panic!("{operation}: {found:?}") };
    assert!(error.contains(part), "{operation}: {error}");
}

#[test]
fn what_is_no_object_is_refused() {
    for (source, part) in [
        ("struct Book;", "on the `impl` of a type"),
        ("impl Read for Book { #[access] fn f(&self) {} }", "without a trait"),
        ("impl Book {}", "is a `homed::ObjectHome`"),
        ("impl [u8; 3] { #[access] fn f(&self) {} }", "of a type without parameters"),
        ("impl Book<u8> { #[access] fn f(&self) {} }", "of a type without parameters"),
        ("impl Book { const ROWS: u32 = 3; }", "into an `impl` of its own"),
    ] {
        let found = errors(source);
        assert!(found.len() == 1 && found[0].contains(part), "{source}: {found:?}");
    }
    let unknown =
        object("crates = x".parse().unwrap(), "impl Book { #[access] fn f(&self) {} }".parse().unwrap());
    assert!(unknown.to_string().contains("`crate = path`"));
}

#[test]
fn an_operation_says_how_it_runs() {
    refused("fn f(&self) {}", "say how `f` runs: `#[access]`");
    refused("#[access] #[invoke] fn f(&self) {}", "runs in one way");
    refused("#[access(soon)] fn f(&self) {}", "take the rest out");
    refused("#[invoke(interupt)] fn f(&self) {}", "there is `interrupt`");
    refused("#[either(interrupt)] fn f(&self) {}", "`fixed = access` and `fixed = invoke`");
    refused("#[either(fixed = here)] fn f(&self) {}", "`fixed = access` and `fixed = invoke`");
    for good in [
        "access",
        "either",
        "either(fixed = access)",
        "either(fixed = invoke)",
        "invoke",
        "invoke(interrupt)",
    ] {
        assert_eq!(
            errors(&format!("impl Book {{ #[{good}] fn f(&self, a: u32) -> u64 {{ 0 }} }}")),
            [""; 0],
            "{good}"
        );
    }
}

#[test]
fn only_the_home_changes_the_object() {
    for mark in ["access", "either", "either(fixed = invoke)"] {
        refused(&format!("#[{mark}] fn f(&mut self) {{}}"), "only the home changes the object");
    }
    for mark in ["invoke", "invoke(interrupt)"] {
        assert_eq!(errors(&format!("impl Book {{ #[{mark}] fn f(&mut self) {{}} }}")), [""; 0]);
    }
    refused("#[access] fn f() {}", "needs `&self`");
    refused("#[access] fn f(self) {}", "takes `&self`, or `&mut self`");
    refused("#[access] fn f(&'static self) {}", "a lifetime can't reach");
}

#[test]
fn signatures_are_plain() {
    refused("#[invoke] async fn f(&self) {}", "a plain `fn f`");
    refused("#[invoke] unsafe fn f(&self) {}", "trusts no caller");
    refused("#[access] fn f<T>(&self) {}", "can't be generic");
    refused("#[access] #[cfg(unix)] fn f(&self) {}", "take this out");
    refused("#[access] fn explain(&self) {}", "give the operation another name");
    refused("#[invoke] fn serve(&self) {}", "another name");
}

#[test]
fn what_travels_is_checked_as_in_an_interface() {
    refused("#[invoke] fn f(&self, a: Option<&str>) {}", "as a whole argument");
    refused("#[either] fn f(&self, a: &mut u8) {}", "return the new value");
    refused("#[access] fn f(&self, (a, b): (u8, u8)) {}", "a plain name");
    refused("#[access] fn f(&self) -> &str { \"\" }", "the type that owns");
    refused("#[either] fn f(&self) -> &str { \"\" }", "the type that owns");
    refused("#[invoke(interrupt)] fn f(&self, a: &str) {}", "pass a value that derives `Shareable`");
}

#[test]
fn all_errors_are_told_at_once() {
    let found = errors("impl Book { #[access] fn f(&mut self) {} fn g(&self) {} const A: u8 = 1; }");
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn the_impl_stays_without_its_marks() {
    let wrong = expand("impl Book { #[access] fn f(&mut self) {} }");
    assert!(wrong.contains("impl Book { fn f (& mut self) { } }"), "{wrong}");
    let right = expand("impl Book { /// Reads.\n #[access] #[must_use] pub fn f(&self) {} }");
    assert!(right.contains("# [must_use] pub fn f (& self) { }"), "{right}");
    for part in ["pub type BookHome", "pub struct BookClient", "trait __BookCalls"] {
        assert!(right.contains(part), "{part}: {right}");
    }
}

#[test]
fn the_client_is_as_visible_as_the_most_visible_operation() {
    let of = |a: &str, b: &str| {
        expand(&format!("impl Book {{ #[access] {a} fn f(&self) {{}} #[invoke] {b} fn g(&self) {{}} }}"))
    };
    assert!(of("", "").contains("allow (dead_code)] struct BookClient"));
    assert!(of("pub", "").contains("pub struct BookClient"));
    assert!(of("", "pub(crate)").contains("pub (crate) struct BookClient"));
}
