//! Numbers in the documentation are those of the constants.
//!
//! A number comes from the constant itself where a test may see it, and from the source of the
//! constant where it is private.

use super::{none, root};
use std::fs;
use underpass_channel::{INLINE, Tag, layout};
use underpass_wire::astack;

const MACROS: &str = "crates/underpass-macros/src/lib.rs";

/// What has numbers of no constant: a formula of Psyche's, and what the language says of a `bool`.
const OF_NO_CONSTANT: [&str; 2] = ["(R − 1) n", "that a `bool` is 0 or 1"];

/// Papers whose sections and tables are no numbers of ours.
const PAPERS: &[&str] = &["LRPC", "OThreads", "Psyche", "Raven", "URPC"];

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The text of a file on one line, without blocks of code. Of Rust, its documentation comments.
fn prose(source: &str, is_rust: bool) -> String {
    let (mut in_code, mut words) = (false, Vec::new());
    for line in source.lines() {
        let line = match is_rust {
            false => Some(line),
            true => line.trim_start().strip_prefix("///").or(line.trim_start().strip_prefix("//!")),
        };
        let Some(line) = line else { continue };
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            words.extend(line.split_whitespace());
        }
    }
    words.join(" ")
}

/// The value of a constant, by its source: numbers, `<<`, `-`, in this order of strength.
fn constant(source: &str, name: &str) -> u64 {
    let after = source.split(&format!("const {name}: ")).nth(1).unwrap_or_else(|| panic!("{name} is there"));
    value(after.split(['=', ';']).nth(1).unwrap())
}

fn value(expression: &str) -> u64 {
    let expression = expression.trim();
    if let Some((left, right)) = expression.rsplit_once(" - ") {
        return value(left) - value(right);
    }
    if let Some((left, right)) = expression.split_once("<<") {
        return value(left) << value(right);
    }
    let digits = expression.trim_matches(['(', ')', ' ']).replace('_', "");
    digits.parse().unwrap_or_else(|_| panic!("`{expression}` is a number"))
}

/// The number that stands behind `mark`.
fn number_after(source: &str, mark: &str) -> u64 {
    let after = source.split(mark).nth(1).unwrap_or_else(|| panic!("`{mark}` is there"));
    value(&after[..after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len())])
}

/// A number with a comma before each three digits.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}

/// A small number in words.
fn in_words(number: u32) -> &'static str {
    ["none", "one", "two", "three", "four", "five", "six", "seven", "eight"][number as usize]
}

/// What the documentation of the macros says by numbers.
fn of_macros() -> Vec<String> {
    let (idl, mailbox) =
        (read("crates/underpass-idl/src/attribute.rs"), read("crates/underpass-rpc/src/control/mailbox.rs"));
    let made = constant(&mailbox, "OVERFLOW_OUT") + constant(&mailbox, "OVERFLOW_IN");
    let versions = constant(&idl, "MOST_VERSIONS");
    let at_interrupts = number_after(&read("crates/underpass-idl/src/object/client.rs"), "#(#sizes)+* <= ");
    let watched =
        100 / number_after(&read("crates/underpass-homed/src/choice/budget.rs"), "const PARTS: f64 = ");
    let (largest, calls) = (astack::LARGEST as u64, astack::MOST_CALLS);
    assert_eq!(largest, constant(&idl, "LARGEST_ASTACK"), "both crates have the same limit");
    assert_eq!(u64::from(calls), constant(&idl, "MOST_CALLS"), "both crates have the same limit");
    let overflow = layout::OVERFLOW_SIZES.end() >> 20;
    vec![
        format!(
            "Up to {} bytes of arguments and {INLINE} of a result travel in the cache line",
            INLINE - Tag::BYTES
        ),
        format!("fixed size wants {} KiB, and an error {} bytes.", astack::DEFAULT >> 10, astack::ERROR),
        format!("The A-stacks of a connection have {} KiB, or what", layout::STACK >> 10),
        format!("an *overflow buffer* of up to {overflow} MiB"),
        format!("To make one takes {made} system calls on both sides"),
        format!("Beyond {overflow} MiB there is a file for each call."),
        format!("of at most {} MiB ({})", largest >> 20, with_commas(largest)),
        format!("are expected at once: 1 to {calls}. The default is {},", in_words(astack::CALLS)),
        format!("(the default, up to {}), wait, or fail", layout::SLOTS),
        format!("in version N of the interface, from 2 to {versions}."),
        format!("Arguments and results take {at_interrupts} bytes each"),
        format!("in at most {watched} % of the operation's time"),
    ]
}

/// The numbers of `text` that none of `claims` has. Code and references to papers are left out.
fn unfounded(text: &str, claims: &[String]) -> Vec<String> {
    let mut text = claims.iter().fold(text.to_owned(), |text, claim| text.replace(claim, " "));
    for paper in PAPERS {
        while let Some(begin) = text.find(&format!("({paper}")) {
            let end = begin + text[begin..].find(')').unwrap_or(text.len() - begin - 1);
            text.replace_range(begin..=end, " ");
        }
    }
    let outside: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" x ");
    let words = outside.split(|c: char| !c.is_alphanumeric() && c != '.' && c != ',');
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned).collect()
}

/// Those of `claims` that are not in `text`.
fn unsaid<'a>(text: &str, claims: &'a [String]) -> Vec<&'a String> {
    claims.iter().filter(|claim| !text.contains(*claim)).collect()
}

/// Fails if the file at `path` does not say what `claims` say.
fn says(path: &str, claims: &[String]) {
    let text = prose(&read(path), path.ends_with(".rs"));
    let unsaid = unsaid(&text, claims).into_iter();
    none(
        unsaid
            .map(|claim| format!("{path} does not say \"{claim}\": mend it, or the row in doc_numbers.rs"))
            .collect(),
    );
}

#[test]
fn each_number_in_the_documentation_of_the_macros_is_that_of_a_constant() {
    let mut claims = of_macros();
    claims.extend(OF_NO_CONSTANT.map(str::to_owned));
    says(MACROS, &claims);
    let unfounded = unfounded(&prose(&read(MACROS), true), &claims).into_iter();
    none(
        unfounded
            .map(|number| format!("{MACROS}: {number} comes from no constant: add a row to doc_numbers.rs"))
            .collect(),
    );
}

#[test]
fn numbers_in_the_documents_are_those_of_the_constants() {
    let (request, kib, mib) = (INLINE - Tag::BYTES, layout::STACK >> 10, layout::OVERFLOW_SIZES.end() >> 20);
    let (slots, channels, files) = (layout::SLOTS, layout::CHANNELS, layout::FILES);
    let say = |path: &str, claims: &[String]| says(path, claims);
    say(
        "README.md",
        &[
            format!(
                "Up to {request} bytes of arguments and {INLINE} of a result cross in one cache line. Up to {kib} KiB,"
            ),
            format!(
                "{slots} calls can be under way over one channel of a connection. It gets up to {channels} channels"
            ),
            format!("can have up to {mib} MiB in memory that both sides keep"),
        ],
    );
    say(
        "doc/book/tuning.md",
        &[
            format!("up to {request} bytes of arguments, {INLINE} of a result"),
            format!("up to {kib} KiB (or"),
            format!("up to {mib} MiB |"),
        ],
    );
    say(
        "ARCHITECTURE.md",
        &[
            format!("a connection has one, or up to {channels}"),
            format!("and up to {INLINE} bytes; a request has its row's tag, and up to {request}"),
            format!("call under way over a channel; there are {slots}"),
            format!("into the cell if they fit ({request} bytes)"),
            format!("A-stacks have {kib} KiB, or what"),
        ],
    );
    say("GLOSSARY.md", &[format!("up to {INLINE} bytes, in one cache line; {request} in a request")]);
    let methods = constant(&read("crates/underpass-idl/src/model/interface.rs"), "MOST");
    say(
        "CHANGELOG.md",
        &[
            format!("`layout::VERSION` is {}.", layout::VERSION),
            format!("Requests carry {request} bytes in the cell"),
            format!("A-stacks have {kib} KiB, or as much"),
            format!("Large arguments and results, up to {mib} MiB,"),
            format!("also inside of other values, {files} in a call at the most"),
            format!("An interface has at most {} methods", with_commas(methods)),
        ],
    );
    let limits = underpass::Limits::default();
    say(
        "crates/underpass-rpc/src/binding/limits.rs",
        &[format!(
            "{} bindings, {} GiB of regions, {} calls, {} MiB of overflow buffers, {} blocked activations, {} files, {} interfaces.",
            limits.bindings,
            limits.memory >> 30,
            limits.calls,
            limits.overflow_bytes >> 20,
            limits.blocked,
            limits.files,
            with_commas(limits.interfaces as u64)
        )],
    );
}

/// The functions and constants that a generator writes into each stub.
fn written(source: &str) -> Vec<String> {
    let starts = source.match_indices("#vis fn ").chain(source.match_indices("#vis const "));
    let names = starts.map(|(at, mark)| &source[at + mark.len()..]);
    let names =
        names.map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>());
    names.filter(|name| !name.is_empty()).collect()
}

/// The names that only one of two sides has.
fn differ(item: &str, written: &[String]) -> Vec<String> {
    let told: Vec<&str> = item.split('`').skip(1).step_by(2).collect();
    let lacks = written.iter().filter(|name| !told.contains(&&***name)).map(|name| format!("lacks `{name}`"));
    let gone = told.iter().filter(|name| !written.iter().any(|of| of == *name));
    lacks.chain(gone.map(|name| format!("has `{name}`, which no stub has"))).collect()
}

/// The item of a list in `text` that begins with `begin`, up to the next item.
fn item<'a>(text: &'a str, begin: &str) -> &'a str {
    let rest = text
        .split(begin)
        .nth(1)
        .unwrap_or_else(|| panic!("the documentation has an item that begins with \"{begin}\""));
    rest.split(" * ").next().unwrap_or_default()
}

#[test]
fn the_documentation_of_the_macros_lists_what_the_stubs_have() {
    let text = prose(&read(MACROS), true);
    let of = ["own_methods", "as_value", "descriptor"]
        .map(|file| read(&format!("crates/underpass-idl/src/emit/{file}.rs")));
    let own: Vec<String> = of.iter().flat_map(|source| written(source)).collect();
    assert!(own.len() > 16, "{own:?}");
    // What is told of a method beside its name.
    let told = item(&text, "* The stub's own methods.").replace("(with the option `asynchronous`)", "");
    none(
        differ(&told, &own)
            .into_iter()
            .map(|fault| format!("{MACROS}, the stub's own methods: {fault}"))
            .collect(),
    );
    let home = written(&read("crates/underpass-idl/src/object/client.rs"));
    let told =
        item(&text, "* `BookClient`, for all domains: it has").split(", and each operation").next().unwrap();
    none(
        differ(told, &home)
            .into_iter()
            .map(|fault| format!("{MACROS}, what `BookClient` has: {fault}"))
            .collect(),
    );
}

#[test]
fn a_wrong_number_is_found() {
    assert_eq!((value("(1 << 14) - 1"), value(" 4 << 20"), value("131_072")), (16_383, 4 << 20, 131_072));
    assert_eq!(
        (constant("pub const A: u32 = 7;\nconst B: u8 = 9;", "B"), number_after("x <= 48, y", "<= ")),
        (9, 48)
    );
    assert_eq!(
        (with_commas(16_383), with_commas(64), with_commas(4 << 20)),
        ("16,383".into(), "64".into(), "4,194,304".into())
    );
    let source = "/// Up to 48 bytes\n/// lie there (LRPC, 5.2), `<= 4096`.\n/// ```\n/// let a = 3;\n/// ```\n// 77\n";
    let text = prose(source, true);
    let claim = |number: u32| [format!("Up to {number} bytes lie there")];
    assert_eq!((unsaid(&text, &claim(48)).len(), unfounded(&text, &claim(48))), (0, vec![]));
    assert_eq!((unsaid(&text, &claim(56)).len(), unfounded(&text, &claim(56))), (1, vec!["48".to_owned()]));
}

#[test]
fn a_method_that_is_not_listed_is_found() {
    let own = written("#vis fn one(&self) {}\n#vis const TWO: u8;\n#vis fn #ident() {}\nfn three() {}");
    assert_eq!(own, ["one", "TWO"]);
    let text = "It * has: `one`, `TWO`. * Another";
    assert_eq!(differ(item(text, "* has:"), &own), Vec::<String>::new());
    assert_eq!(differ("`one`, `four`", &own), ["lacks `TWO`", "has `four`, which no stub has"]);
}
