//! One name, one type: no two public types of the crates have the same name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Files that may each declare types of these names, and why.
#[derive(Clone, Copy)]
pub struct Namesakes {
    pub names: &'static [&'static str],
    /// In the order of the alphabet.
    pub files: &'static [&'static str],
    pub because: &'static str,
}

/// The files that declare a public type of each name.
pub type Places = BTreeMap<String, Vec<String>>;

/// Adds the public types of the sources in `home`. Files are named by their paths below `root`.
pub fn collect(root: &Path, home: &Path, places: &mut Places) {
    for file in super::sources(home) {
        let source = fs::read_to_string(&file).unwrap();
        let short = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        for name in source.split("#[cfg(test)]\nmod tests {").next().unwrap().lines().filter_map(declared) {
            places.entry(name.to_owned()).or_default().push(short.clone());
        }
    }
    places.values_mut().for_each(|files| files.sort());
}

/// The name of the type or trait that a line declares for others than its own module.
fn declared(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1 } else { rest };
    let rest = rest.strip_prefix(' ')?;
    let (kind, rest) = rest.strip_prefix("unsafe ").unwrap_or(rest).split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let is_type = matches!(kind, "struct" | "enum" | "union" | "trait" | "type");
    (is_type && !name.is_empty()).then_some(name)
}

/// What is wrong with the names in `places`, of which `known` may be given more than once.
pub fn faults(places: &Places, known: &[Namesakes]) -> Vec<String> {
    let known_at = |name: &str, files: &[String]| {
        known.iter().any(|row| row.names.contains(&name) && row.files.iter().eq(files))
    };
    let mut faults: Vec<_> = places
        .iter()
        .filter(|(name, files)| files.len() > 1 && !known_at(name, files))
        .map(|(name, files)| format!("{name} names several types: {}; rename one", files.join(", ")))
        .collect();
    for row in known {
        for name in row.names {
            if !places.get(*name).is_some_and(|files| row.files.iter().eq(files)) {
                let (files, because) = (row.files, row.because);
                faults
                    .push(format!("{name} is not in each of {files:?} ({because}): take it out of the row"));
            }
        }
    }
    faults
}

#[test]
fn declarations_are_found() {
    assert_eq!(declared("pub struct Slot<'a> {"), Some("Slot"));
    assert_eq!(declared("    pub(crate) enum Kind {"), Some("Kind"));
    assert_eq!(declared("pub(in crate::a) type List = Vec<u8>;"), Some("List"));
    assert_eq!(declared("pub unsafe trait Line: Sync {"), Some("Line"));
    for other in
        ["struct Slot;", "pub fn slot() {", "pub use a::Slot;", "/// pub struct Slot;", "pub struct $name"]
    {
        assert_eq!(declared(other), None, "{other}");
    }
}

#[test]
fn a_second_type_of_a_name_is_found() {
    let places: Places = [("Line", vec!["a.rs"]), ("Slot", vec!["a.rs", "b.rs"])]
        .map(|(name, files)| (name.to_owned(), files.into_iter().map(str::to_owned).collect()))
        .into();
    let row = |names, files| [Namesakes { names, files, because: "twins" }];
    assert_eq!(faults(&places, &[]), ["Slot names several types: a.rs, b.rs; rename one"]);
    assert!(faults(&places, &row(&["Slot"], &["a.rs", "b.rs"])).is_empty());
    assert_eq!(faults(&places, &row(&["Slot"], &["a.rs"])).len(), 2, "a third type is no twin");
    assert_eq!(faults(&places, &row(&["Line"], &["a.rs", "b.rs"])).len(), 2);
}
