//! Compiler errors about interfaces and types that can't be passed, and interfaces that must
//! compile.
//!
//! After an intended change, `TRYBUILD=overwrite cargo test -p underpass --test ui` rewrites the
//! `.stderr` files.

#[test]
fn errors_point_at_the_right_token() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    cases.pass("tests/ui/pass/*.rs");
}
