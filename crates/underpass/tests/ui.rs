//! What the compiler says of interfaces and types that can't travel, and what it accepts.
//!
//! After a change that is meant, `TRYBUILD=overwrite cargo test -p underpass --test ui` writes the
//! `.stderr` files anew.

#[test]
fn errors_are_told_at_the_right_token() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    cases.pass("tests/ui/pass/*.rs");
}
