//! Every error is about the right token, and says what to do.

use proc_macro2::{LineColumn, TokenStream, TokenTree};

/// Each error's message, and the text in `source` that it is about.
fn errors(source: &str, expanded: TokenStream) -> Vec<(String, String)> {
    // `::core::compile_error! { "message" }`: the first and the last token are at the ends of what
    // it is about.
    let mut found = Vec::new();
    let tokens: Vec<TokenTree> = expanded.into_iter().collect();
    for (i, token) in tokens.iter().enumerate() {
        if let (TokenTree::Ident(name), Some(TokenTree::Group(group))) = (token, tokens.get(i + 2))
            && name == "compile_error"
        {
            let literal = group.stream().into_iter().next().expect("a message").to_string();
            let (start, end) = (name.span().start(), group.span().end());
            found.push((literal.replace("\\\"", "\""), between(source, start, end)));
        }
    }
    found
}

fn between(source: &str, start: LineColumn, end: LineColumn) -> String {
    let offset = |at: LineColumn| -> usize {
        let lines: usize = source.split_inclusive('\n').take(at.line - 1).map(str::len).sum();
        let line = source.split_inclusive('\n').nth(at.line - 1).unwrap_or("");
        lines + line.chars().take(at.column).map(char::len_utf8).sum::<usize>()
    };
    source[offset(start)..offset(end)].to_owned()
}

/// Checks the errors of `source`: about which text each is, and a part of its message.
#[track_caller]
fn told(source: &str, found: Vec<(String, String)>, expected: &[(&str, &str)]) {
    assert_eq!(found.len(), expected.len(), "{source}: {found:#?}");
    for ((message, about), (expected_about, part)) in found.iter().zip(expected) {
        assert_eq!(about, expected_about, "{source}: {message}");
        assert!(message.contains(part), "{source}: {message}");
    }
}

#[track_caller]
fn trait_errors(source: &str, expected: &[(&str, &str)]) {
    let found = errors(source, underpass_idl::interface(TokenStream::new(), source.parse().unwrap()));
    told(source, found, expected);
}

/// The errors of a trait with this one method.
#[track_caller]
fn method_errors(method: &str, expected: &[(&str, &str)]) {
    trait_errors(&format!("trait T {{ {method} }}"), expected);
}

#[track_caller]
fn type_errors(source: &str, expected: &[(&str, &str)]) {
    told(source, errors(source, underpass_idl::derive_wire(source.parse().unwrap())), expected);
}

#[test]
fn receivers() {
    method_errors("fn f(&mut self) -> Result<(), E>;", &[("mut", "`Mutex`")]);
    method_errors("fn f(self) -> Result<(), E>;", &[("self", "`&self`")]);
    method_errors("fn f(mut self) -> Result<(), E>;", &[("mut self", "`&self`")]);
    method_errors("fn f(self: Arc<Self>) -> Result<(), E>;", &[("self: Arc<Self>", "`&self`")]);
    method_errors("fn f(&'a self) -> Result<(), E>;", &[("'a", "write `&self`")]);
    method_errors("fn f() -> Result<(), E>;", &[("f", "needs `&self`")]);
    method_errors("fn f(x: u8) -> Result<(), E>;", &[("f", "needs `&self`")]);
}

#[test]
fn signatures() {
    method_errors("fn f<T>(&self) -> Result<(), E>;", &[("T", "write one for each")]);
    method_errors("fn f<'a, const N: usize>(&self) -> Result<(), E>;", &[("'a, const N: usize", "generic")]);
    method_errors("fn f(&self) -> Result<(), E> where u8: Copy;", &[("where u8: Copy", "`where`")]);
    method_errors("async fn f(&self) -> Result<(), E>;", &[("async", "plain `fn f`")]);
    method_errors("unsafe fn f(&self) -> Result<(), E>;", &[("unsafe", "trusts no caller")]);
    method_errors("const fn f(&self) -> Result<(), E>;", &[("const", "another process")]);
    method_errors("extern \"C\" fn f(&self) -> Result<(), E>;", &[("extern \"C\"", "plain `fn`")]);
    method_errors(
        "#[cfg(unix)] fn f(&self) -> Result<(), E>;",
        &[("#[cfg(unix)]", "the same in every build")],
    );
    method_errors("#[underpass(fast)] fn f(&self) -> Result<(), E>;", &[("fast", "unknown option")]);
}

#[test]
fn procedure_descriptors() {
    let bounds = [
        ("astack = 4194305", "4194305", "from 0 to 4194304"),
        ("astack = -1", "-1", "from 0 to 4194304"),
        ("astack = 1.5", "1.5", "expected integer"),
        ("calls = 0", "0", "from 1 to 64"),
        ("calls = 65", "65", "from 1 to 64"),
        ("calls = 99999999999", "99999999999", "from 1 to 64"),
        ("calls", ")", "expected `=`"),
    ];
    for (option, at, message) in bounds {
        let method = format!("#[underpass({option})] fn f(&self) -> Result<(), E>;");
        method_errors(&method, &[(at, message)]);
    }
    method_errors(
        "fn f(&self, #[underpass(astack = 8)] x: u8) -> Result<(), E>;",
        &[("astack", "unknown option")],
    );
    // The bounds are the wire's.
    let descriptor = |bytes, calls| {
        let mut one = underpass_wire::Descriptor::builder("One", "");
        let sizes = underpass_wire::Sizes::of::<Result<(), ()>>(&[], Some(bytes));
        one.procedure("f", "", sizes).calls(calls).result::<Result<(), ()>>();
        one.finish().text()
    };
    assert!(descriptor(4_194_304, 64).contains("f() -> Result<(), ()>, A-stack 4194304, calls 64\n"));
    assert!(std::panic::catch_unwind(|| descriptor(4_194_305, 64)).is_err());
    assert!(std::panic::catch_unwind(|| descriptor(0, 65)).is_err());
}

#[test]
fn versions_of_methods() {
    let bounds = [
        ("since = 0", "0", "from 1 to 64"),
        ("since = 65", "65", "from 1 to 64"),
        ("since = \"2\"", "\"2\"", "expected integer"),
        ("default = 1", "default", "unknown option"),
        ("extensible", "extensible", "unknown option"),
    ];
    for (option, at, message) in bounds {
        method_errors(&format!("#[underpass({option})] fn f(&self) -> Result<(), E>;"), &[(at, message)]);
    }
    trait_errors(
        "trait T { #[underpass(since = 3)] fn f(&self) -> Result<(), E>; #[underpass(since = 2)] fn g(&self) -> Result<(), E>; \
         fn h(&self) -> Result<(), E>; #[underpass(since = 3)] fn i(&self) -> Result<(), E>; }",
        &[("g", "`g` of version 2 stands behind a method of version 3"), ("h", "comes last")],
    );
    assert_eq!(underpass_wire::Descriptor::MOST_VERSIONS, 64, "the bounds are the wire's");
}

#[test]
fn versions_of_fields() {
    let wire_errors = |source: &str, expected: &[(&str, &str)]| {
        told(source, errors(source, underpass_idl::derive_wire(source.parse().unwrap())), expected);
    };
    let extensible = |fields: &str, expected: &[(&str, &str)]| {
        wire_errors(&format!("#[underpass(extensible)] struct S {fields}"), expected);
    };
    extensible("{ a: u8, #[underpass(since = 2, default = 1 + 1)] b: u8 }", &[]);
    extensible("{ #[underpass(since = 2)] a: u8, b: u8 }", &[("b", "comes last")]);
    extensible(
        "{ #[underpass(since = 3)] a: u8, #[underpass(since = 2)] b: u8 }",
        &[("b", "of version 2 behind one of version 3")],
    );
    extensible("{ #[underpass(default = 7)] a: u8 }", &[("7", "only one that was added")]);
    extensible("{ #[underpass(since = 65)] a: u8 }", &[("65", "from 1 to 64")]);
    extensible("(u8);", &[("S", "have names")]);
    extensible(";", &[("S", "have names")]);
    let many: String = (0..256).map(|i| format!("#[underpass(since = 2)] f{i}: u8, ")).collect();
    extensible(&format!("{{ {many} }}"), &[("S", "at most 255 fields")]);
    wire_errors("#[underpass(extensible)] enum E { A }", &[("enum", "no value for a new variant")]);
    wire_errors("enum E { A, #[underpass(since = 2)] B }", &[("since", "no variant can be added")]);
    wire_errors("enum E { #[underpass(serde)] B }", &[("serde", "a variant of an enum has none")]);
    let field = "#[underpass(since = 2)] a: u8";
    wire_errors(&format!("enum E {{ A {{ {field} }} }}"), &[(field, "on the struct")]);
    wire_errors(&format!("struct S {{ {field} }}"), &[(field, "`#[underpass(extensible)]`")]);
    wire_errors("#[underpass(elastic)] struct S;", &[("elastic", "`extensible`")]);
}

#[test]
fn shared_arguments() {
    method_errors("fn f(&self, #[underpass(shared)] x: &[u8]) -> Result<(), E>;", &[("&[u8]", "Shared<'_>")]);
    method_errors("fn f(&self, x: Shared<'_>) -> Result<(), E>;", &[("'_", "without lifetimes")]);
    method_errors("#[underpass(shared)] fn f(&self) -> Result<(), E>;", &[("shared", "unknown option")]);
    let source = "trait T { fn f(&self, #[underpass(shared)] x: Shared<'_>) -> Result<(), E>; }";
    let expanded = underpass_idl::interface("asynchronous".parse().unwrap(), source.parse().unwrap());
    assert!(expanded.to_string().contains("shared_later"), "those of async handlers are kept for them");
    told(source, errors(source, expanded), &[]);
}

#[test]
fn names() {
    method_errors("fn serve(&self) -> Result<(), E>;", &[("serve", "another name")]);
    method_errors("fn r#import(&self) -> Result<(), E>;", &[("r#import", "another name")]);
    method_errors("fn counters(&self) -> Result<(), E>;", &[("counters", "another name")]);
    let twice = "trait T { fn f(&self) -> Result<(), E>; fn g(&self) -> Result<(), E>; fn f(&self, x: u8) -> Result<(), E>; }";
    trait_errors(twice, &[("f", "a method `f` already")]);
}

#[test]
fn arguments() {
    method_errors("fn f(&self, x: &mut u8) -> Result<(), E>;", &[("mut", "return the new value")]);
    method_errors("fn f(&self, x: &'static str) -> Result<(), E>;", &[("'static", "leave the lifetime out")]);
    method_errors("fn f(&self, x: Option<&str>) -> Result<(), E>;", &[("&str", "as a whole argument")]);
    method_errors("fn f(&self, x: &[&str]) -> Result<(), E>;", &[("&str", "as a whole argument")]);
    method_errors("fn f(&self, x: &&u8) -> Result<(), E>;", &[("&u8", "as a whole argument")]);
    method_errors("fn f(&self, x: impl Into<u8>) -> Result<(), E>;", &[("impl Into<u8>", "write it out")]);
    method_errors("fn f(&self, x: &dyn Read) -> Result<(), E>;", &[("dyn Read", "send an enum")]);
    method_errors("fn f(&self, x: *const u8) -> Result<(), E>;", &[("*const u8", "send the value")]);
    method_errors("fn f(&self, x: fn(u8)) -> Result<(), E>;", &[("fn(u8)", "send an enum")]);
    method_errors("fn f(&self, x: Self) -> Result<(), E>;", &[("Self", "write the type")]);
    method_errors("fn f(&self, x: Cow<'a, str>) -> Result<(), E>;", &[("'a", "without lifetimes")]);
    method_errors("fn f(&self, (x, y): (u8, u8)) -> Result<(), E>;", &[("(x, y)", "a plain name")]);
    method_errors("fn f(&self, mut x: u8) -> Result<(), E>;", &[("mut x", "a plain name")]);
    method_errors("fn f(&self, _: u8) -> Result<(), E>;", &[("_", "a plain name")]);
    method_errors(
        "fn f(&self, #[cfg(unix)] x: u8) -> Result<(), E>;",
        &[("#[cfg(unix)]", "same in every build")],
    );
}

#[test]
fn results() {
    method_errors("fn f(&self);", &[("f", "`-> Result<(), E>`")]);
    method_errors("fn f(&self) -> u32;", &[("u32", "`Result<T, E>`")]);
    method_errors("fn f(&self) -> Option<u8>;", &[("Option<u8>", "`Result<T, E>`")]);
    method_errors("fn f(&self) -> (u8, u8);", &[("(u8, u8)", "`Result<T, E>`")]);
    method_errors(
        "fn f(&self) -> impl Future<Output = u8>;",
        &[("impl Future<Output = u8>", "`Result<T, E>`")],
    );
    method_errors("fn f(&self) -> Result<&str, E>;", &[("&str", "the type that owns")]);
    method_errors("fn f(&self) -> Result<Box<dyn Read>, E>;", &[("dyn Read", "send an enum")]);
    method_errors("fn f(&self) -> io::Result<u8>;", &[]);
}

#[test]
fn traits() {
    trait_errors("trait T<U> {}", &[("U", "can't be generic")]);
    trait_errors("trait T where u8: Copy {}", &[("where u8: Copy", "`where`")]);
    trait_errors("trait T: Clone + Send + 'static {}", &[("Clone", "`Send`, `Sync`, `Debug`")]);
    trait_errors("trait T: Send + Sync + std::fmt::Debug {}", &[]);
    trait_errors("unsafe trait T {}", &[("unsafe", "can't be `unsafe`")]);
    trait_errors("trait T { type U; }", &[("type U;", "methods only")]);
    trait_errors("trait T { const U: u8; }", &[("const U: u8;", "methods only")]);
    trait_errors("trait T { m!(); }", &[("m!();", "methods only")]);
    trait_errors("struct T;", &[("struct T;", "stands on a trait")]);
}

#[test]
fn all_of_them_at_once() {
    trait_errors(
        "trait T: Copy { fn f(&mut self, x: &mut u8); type U; async fn g() -> u8; }",
        &[
            ("Copy", "client stub"),
            ("mut", "`Mutex`"),
            ("mut", "return the new value"),
            ("f", "has to return a `Result`"),
            ("type U;", "methods only"),
            ("async", "plain `fn g`"),
            ("g", "needs `&self`"),
            ("u8", "`Result<T, E>`"),
        ],
    );
}

#[test]
fn a_trait_with_errors_is_still_there() {
    let source = "trait T { fn f(&mut self, #[underpass(fast)] x: u8); }";
    let expanded = underpass_idl::interface(TokenStream::new(), source.parse().unwrap()).to_string();
    assert!(expanded.contains("trait T"), "{expanded}");
    assert!(!expanded.contains("# [underpass"), "{expanded}");
}

#[test]
fn options_of_the_attribute() {
    let source = "trait T {}";
    for (attributes, part) in
        [("crates = x", "`crate = path`"), ("crate", "expected"), ("serde", "`crate = path`")]
    {
        let expanded =
            underpass_idl::interface(attributes.parse().unwrap(), source.parse().unwrap()).to_string();
        assert!(expanded.contains("compile_error") && expanded.contains(part), "{attributes}: {expanded}");
    }
}

#[test]
fn types() {
    type_errors("union U { a: u8 }", &[("union", "make it an enum")]);
    type_errors("struct S<'a>(&'a str);", &[("'a", "without lifetimes"), ("&'a str", "the type that owns")]);
    type_errors(
        "struct S { a: Vec<&'static str>, b: *mut u8 }",
        &[("&'static str", "owns"), ("*mut u8", "pointer")],
    );
    type_errors("enum E { A(Box<dyn Read>), B { f: fn() } }", &[("dyn Read", "enum"), ("fn()", "function")]);
    type_errors("#[underpass(serde)] struct S;", &[("serde", "`crate = path`")]);
    type_errors("struct S { #[underpass(crate = x)] a: u8 }", &[("crate", "`serde`")]);
    type_errors("struct S<T: Clone>(T) where T: Copy;", &[]);
}

#[test]
#[cfg(not(feature = "serde"))]
fn serde_needs_its_feature() {
    method_errors(
        "fn f(&self, #[underpass(serde)] x: u8) -> Result<(), E>;",
        &[("serde", "features = [\"serde\"]")],
    );
    method_errors("#[underpass(serde)] fn f(&self) -> Result<(), E>;", &[("serde", "the feature `serde`")]);
    type_errors("struct S(#[underpass(serde)] u8);", &[("serde", "the feature `serde`")]);
}

#[test]
#[cfg(feature = "serde")]
fn serde_has_its_feature() {
    method_errors("#[underpass(serde)] fn f(&self, #[underpass(serde)] x: u8) -> Result<(), E>;", &[]);
    type_errors("struct S(#[underpass(serde)] u8);", &[]);
    method_errors(
        "fn f(&self, #[underpass(shared, serde)] x: Shared<'_>) -> Result<(), E>;",
        &[("Shared<'_>", "take `serde` out")],
    );
}

/// The names of the methods that the client stub of `source` has.
fn methods_of_the_client(source: &str) -> Vec<String> {
    let expanded = underpass_idl::interface(TokenStream::new(), source.parse().unwrap());
    let file: syn::File = syn::parse2(expanded).unwrap();
    let mut names = Vec::new();
    for item in file.items {
        let syn::Item::Impl(block) = item else { continue };
        let of = &block.self_ty;
        if block.trait_.is_some() || quote::quote!(#of).to_string() != "TClient" {
            continue;
        }
        for item in block.items {
            match item {
                syn::ImplItem::Fn(method) => names.push(method.sig.ident.to_string()),
                syn::ImplItem::Const(constant) => names.push(constant.ident.to_string()),
                _ => {}
            }
        }
    }
    names
}

#[test]
fn what_the_client_stub_has_itself_is_no_name_for_a_method() {
    let with = |name: &str| format!("trait T {{ fn {name}(&self) -> Result<(), CallError>; }}");
    let mut names = methods_of_the_client(&with("mine"));
    // `new` and `of_service` have no `self`, so a method of that name can be called beside them.
    names.retain(|name| !name.starts_with("mine") && !["new", "of_service"].contains(&&**name));
    assert!(names.len() > 15 && names.contains(&"import_by".to_owned()), "{names:?}");
    for name in names {
        let source = with(&name);
        let found = errors(&source, underpass_idl::interface(TokenStream::new(), source.parse().unwrap()));
        let taken = found.iter().any(|(why, _)| why.contains(&format!("`{name}` is taken")));
        assert!(taken || name.starts_with("__"), "{name}: {found:?}");
    }
}
