//! The folders of a crate are layers too: no two of them may need each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folders of a crate that need one another, and why that stands.
pub struct Cycle {
    pub package: &'static str,
    /// In the order of the alphabet.
    pub folders: &'static [&'static str],
    pub because: &'static str,
}

/// Which folders each folder needs.
pub type Needs = BTreeMap<String, BTreeSet<String>>;

/// What the folders of the sources in `home` need of one another.
pub fn needs(home: &Path) -> Needs {
    let folders: BTreeSet<String> = names(home, |path| path.is_dir());
    let root = fs::read_to_string(home.join("lib.rs")).unwrap_or_default();
    let re_exported = re_exported(&root);
    let mut needs = Needs::new();
    for folder in &folders {
        let mut text = fs::read_to_string(home.join(folder).with_extension("rs")).unwrap_or_default();
        for file in super::sources(&home.join(folder)) {
            text.push_str(&code(&fs::read_to_string(file).unwrap()));
        }
        let used = paths(&text).into_iter().map(|name| re_exported.get(&name).cloned().unwrap_or(name));
        let others = used.filter(|name| name != folder && folders.contains(name)).collect();
        needs.insert(folder.clone(), others);
    }
    needs
}

fn names(home: &Path, wanted: impl Fn(&Path) -> bool) -> BTreeSet<String> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten().filter(|entry| wanted(&entry.path()));
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "bin")
        .collect()
}

/// A file's code without comments and without its tests, which may use anything.
fn code(source: &str) -> String {
    let own = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = own.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The names that stand after `crate::`, also in braces.
fn paths(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if rest.starts_with('{') {
            found.extend(heads(rest));
        } else {
            found.insert(head(rest));
        }
    }
    found
}

fn head(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first segment of each path of a group `{a::b, c::{d, e}}`, with which the text begins.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut begins, mut found) = (0, false, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if c.is_alphanumeric() || c == '_' => {
                if begins {
                    found.push(head(&group[at..]));
                }
                begins = false;
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        begins = depth == 1 && (c == ',' || c == '{' || (begins && c.is_whitespace()));
    }
    found
}

/// Which module each name comes from that the crate's root gives another path to.
fn re_exported(root: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in root.split(';').filter_map(|statement| statement.split("use ").nth(1)) {
        let module = head(statement);
        let (_, last) = statement.rsplit_once("::").unwrap_or(("", statement));
        let names = if last.starts_with('{') { heads(last) } else { vec![head(last)] };
        found.extend(names.into_iter().map(|name| (name, module.clone())));
    }
    found
}

/// The sets of folders that need one another, each in the order of the alphabet.
pub fn cycles(needs: &Needs) -> Vec<Vec<String>> {
    let reach = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(folder) = next.pop() {
            for other in needs.get(&folder).into_iter().flatten() {
                if seen.insert(other.clone()) {
                    next.push(other.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = needs.keys().map(|folder| (folder.clone(), reach(folder))).collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for (folder, all) in &reached {
        if !all.contains(folder) || found.iter().any(|cycle| cycle.contains(folder)) {
            continue;
        }
        let with = |other: &&String| all.contains(*other) && reached[*other].contains(folder);
        found.push(needs.keys().filter(with).cloned().collect());
    }
    found
}

/// What is wrong with the folders of `package`, of which `known` may need one another.
pub fn faults(package: &str, home: &Path, known: &[Cycle]) -> Vec<String> {
    let needs = needs(home);
    let found = cycles(&needs);
    let known: Vec<_> = known.iter().filter(|cycle| cycle.package == package).collect();
    let mut faults = Vec::new();
    for cycle in &found {
        if !known.iter().any(|known| known.folders == cycle.as_slice()) {
            let edges: Vec<_> =
                cycle.iter().map(|folder| format!("{folder} needs {:?}", needs[folder])).collect();
            faults.push(format!("{package}: the folders {cycle:?} need one another: {}", edges.join("; ")));
        }
    }
    for known in known {
        if !found.iter().any(|cycle| known.folders == cycle.as_slice()) {
            let (folders, because) = (known.folders, known.because);
            faults
                .push(format!("{package}: no cycle of {folders:?} any more ({because}): take the row away"));
        }
    }
    faults
}

#[test]
fn paths_are_found_in_groups_and_through_the_root() {
    let text = "use crate::a::B;\nuse crate::{c, d::{E, f}, G};\nfn x() { crate::h::i() }";
    let found: Vec<_> = paths(text).into_iter().collect();
    assert_eq!(found, ["G", "a", "c", "d", "h"]);
    let root = re_exported("mod a;\npub use a::b::{X, Y as Z};\npub use c::W;\n");
    assert_eq!([&root["X"], &root["W"]], ["a", "c"]);
}

#[test]
fn a_cycle_is_found_and_a_chain_is_none() {
    let needs = |edges: &[(&str, &[&str])]| -> Needs {
        let set = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect();
        edges.iter().map(|(from, to)| ((*from).to_owned(), set(to))).collect()
    };
    assert!(cycles(&needs(&[("a", &["b"]), ("b", &["c"]), ("c", &[])])).is_empty());
    let found = cycles(&needs(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"]), ("d", &["a"])]));
    assert_eq!(found, [["b", "c"]]);
}
