//! What the documents say of the crates: the tables of `ARCHITECTURE.md`, and what `CHANGELOG.md`
//! calls *not yet*. Each is compared with the rooms and the disk, both ways.

use super::rooms::{ROOMS, Room};
use super::unsafe_files::UNSAFE;
use super::{none, packages, root, sources, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A crate from outside that the rooms name and the map leaves out: models alone use it.
const OF_MODELS: &str = "loom";

type Names = BTreeSet<String>;

fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> Names {
    names.into_iter().map(str::to_owned).collect()
}

/// The cells of the table that begins with the line `head`, row by row.
fn table<'a>(document: &'a str, head: &str) -> Vec<Vec<&'a str>> {
    let rows = document.lines().skip_while(|line| *line != head).skip(2);
    let rows: Vec<Vec<&str>> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert!(!rows.is_empty(), "the document has the table `{head}`");
    rows
}

/// What stands between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// What only one of two sides has.
fn differences(what: &str, told: &Names, there: &Names) -> Vec<String> {
    let gone = told.difference(there).map(|name| format!("{what} has `{name}`, which is not there"));
    let missing = there.difference(told).map(|name| format!("{what} lacks `{name}`"));
    gone.chain(missing).collect()
}

/// What is wrong with the rules of dependencies, as the map tells them.
fn faults_of_rules(map: &str, rooms: &[Room]) -> Vec<String> {
    let ours = set(rooms.iter().map(|room| room.name));
    let mut faults = Vec::new();
    let mut seen = Names::new();
    for row in table(map, "| crate | depends on |") {
        let told: Names = quoted(row[1])
            .map(|name| name.strip_prefix('-').map_or(name.to_owned(), |rest| format!("underpass-{rest}")))
            .collect();
        let (inside, outside): (Names, Names) = told.into_iter().partition(|name| ours.contains(name));
        for name in quoted(row[0]) {
            if !seen.insert(name.to_owned()) {
                faults.push(format!("the rules of dependencies have two rows of `{name}`"));
            }
            let Some(room) = rooms.iter().find(|room| room.name == name) else { continue };
            let what = format!("the rule of `{name}` in ARCHITECTURE.md");
            faults.extend(differences(&what, &inside, &set(room.rooms.iter().copied())));
            if let Some(allowed) = room.outside {
                let allowed = allowed.iter().copied().filter(|name| *name != OF_MODELS);
                faults.extend(differences(&what, &outside, &set(allowed)));
            }
        }
    }
    faults.extend(differences("the rules of dependencies in ARCHITECTURE.md", &seen, &ours));
    faults
}

/// The folders of each crate that the map lists.
fn folders_told(map: &str) -> BTreeMap<String, Names> {
    let (mut found, mut package) = (BTreeMap::<String, Names>::new(), String::new());
    for row in table(map, "| crate | folder | what is in it |") {
        if let Some(name) = quoted(row[0]).next() {
            package = name.to_owned();
        }
        found.entry(package.clone()).or_default().extend(quoted(row[1]).map(|name| name.replace('/', "")));
    }
    found
}

/// The names of kernel threads in a source: what stands in the line that starts or builds one.
fn thread_names(source: &str) -> Names {
    const STARTS: &[&str] =
        &[".name(", "thread_name(", "kernel_thread(", "::start(", "spawn_apart(", "start_with(", ".spawn("];
    let own = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = own.lines().filter(|line| STARTS.iter().any(|start| line.contains(start)));
    let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    set(literals.filter(|name| name.starts_with("underpass-")))
}

/// A text on one line, in small letters.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// What the changelog calls *not yet*, one by one.
fn planned(changelog: &str) -> Vec<String> {
    let part = changelog.split("\n### Not yet\n").nth(1).expect("the changelog says what is not there yet");
    let part = part.split("\n#").next().unwrap_or_default();
    let items = part.split("\n* ").skip(1).flat_map(|item| item.split([',', ';']));
    items.map(|item| flat(item).trim_start_matches("the ").trim_end_matches('.').to_owned()).collect()
}

/// What is called *not yet*, and is there by what the changelog and the map say.
fn there_already(changelog: &str, map: &str, rooms: &[Room]) -> Vec<String> {
    let told = changelog.split("\n### Not yet\n").next().unwrap_or_default();
    let headings: Vec<String> =
        told.lines().filter_map(|line| line.strip_prefix("#### ")).map(flat).collect();
    let told = flat(told) + &flat(map);
    let why = |item: &str| {
        let mut several = headings.iter().filter(|heading| heading.contains(' '));
        if let Some(heading) =
            several.find(|heading| item.contains(*heading)).or(headings.iter().find(|of| *of == item))
        {
            return Some(format!("has the heading \"{heading}\""));
        }
        if let Some(room) = rooms.iter().find(|room| quoted(item).any(|name| name == room.name)) {
            return Some(format!("is the crate {}", room.name));
        }
        told.contains(item).then(|| "is told of as something that is there".to_owned())
    };
    let found = planned(changelog).into_iter().filter_map(|item| Some((why(&item)?, item)));
    found.map(|(why, item)| format!("CHANGELOG.md calls \"{item}\" not yet, and it {why}")).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn the_map_and_the_rooms_are_those_of_the_disk() {
    let map = read("ARCHITECTURE.md");
    let packages = packages();
    let there = set(packages.iter().map(|package| text(package, "name")));
    let told = table(&map, "| crate | what it is for | read first |");
    let told = told.iter().flat_map(|row| quoted(row[0])).filter(|name| !name.starts_with('#'));
    let mut faults = differences("the table of crates in ARCHITECTURE.md", &set(told), &there);
    faults.extend(differences("ROOMS", &set(ROOMS.iter().map(|room| room.name)), &there));
    none(faults);
}

#[test]
fn the_map_has_the_rules_of_dependencies() {
    none(faults_of_rules(&read("ARCHITECTURE.md"), ROOMS));
}

#[test]
fn the_map_has_the_folders_of_the_crates_that_it_opens() {
    let mut faults = Vec::new();
    for (package, told) in folders_told(&read("ARCHITECTURE.md")) {
        let entries = fs::read_dir(root().join(format!("crates/{package}/src"))).unwrap().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let there = folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        faults.extend(differences(&format!("the folders of {package} in ARCHITECTURE.md"), &told, &there));
    }
    none(faults);
}

#[test]
fn the_map_says_where_unsafe_code_lives() {
    let map = read("ARCHITECTURE.md");
    let rows = table(&map, "| crate | what for |");
    let told = set(rows.iter().flat_map(|row| quoted(row[0])));
    none(differences("the table of unsafe code", &told, &set(UNSAFE.iter().map(|(name, _)| *name))));
}

#[test]
fn the_map_has_the_kernel_threads() {
    let map = read("ARCHITECTURE.md");
    let rows = table(&map, "| name | how many | what it does |");
    let told = set(rows.iter().flat_map(|row| quoted(row[0])).filter(|name| name.starts_with("underpass-")));
    let files = sources(&root().join("crates")).into_iter();
    let files = files.filter(|file| file.components().any(|part| part.as_os_str() == "src"));
    let there = files.flat_map(|file| thread_names(&fs::read_to_string(file).unwrap())).collect();
    none(differences("the table of kernel threads", &told, &there));
}

#[test]
fn what_is_not_yet_is_not_there() {
    none(there_already(&read("CHANGELOG.md"), &read("ARCHITECTURE.md"), ROOMS));
}

#[test]
fn a_rule_that_differs_is_found() {
    let rooms = [
        Room {
            name: "underpass-a",
            rooms: &["underpass-b"],
            outside: Some(&["x", OF_MODELS]),
            ..super::rooms::BARE
        },
        Room { name: "underpass-b", ..super::rooms::BARE },
    ];
    let faults =
        |rows: &str| faults_of_rules(&format!("| crate | depends on |\n|---|---|\n{rows}\n"), &rooms);
    let right = "| `underpass-a` | `-b`; `x` |\n| `underpass-b` | no other crate of ours |";
    assert_eq!(faults(right), Vec::<String>::new());
    let told = |rows: &str, fault: &str| {
        assert!(faults(rows).iter().any(|told| told.contains(fault)), "{:?}", faults(rows))
    };
    told("| `underpass-a` | `-b`; `x` |", "lacks `underpass-b`");
    told(&right.replace("`-b`; ", ""), "the rule of `underpass-a` in ARCHITECTURE.md lacks `underpass-b`");
    told(&right.replace("`x`", "`y`"), "has `y`, which is not there");
    told(&right.replace("no other crate of ours", "`-a`"), "has `underpass-a`, which is not there");
    told(&format!("{right}\n| `underpass-c` | |"), "has `underpass-c`, which is not there");
    told(&format!("{right}\n{right}"), "two rows of `underpass-a`");
}

#[test]
fn a_folder_and_a_kernel_thread_are_found() {
    let map = "| crate | folder | what is in it |\n|---|---|---|\n| `a` | `x/` | |\n| | `y/` | z |\n";
    assert_eq!(folders_told(map)["a"], set(["x", "y"]));
    let source = "b.name(\"underpass-c\".into())\ncreate(\"underpass-d\")\n#[cfg(test)]\nmod tests { b.name(\"underpass-e\") }";
    assert_eq!(thread_names(source), set(["underpass-c"]));
    let faults = differences("the table", &set(["a", "b"]), &set(["b", "c"]));
    assert_eq!(faults, ["the table has `a`, which is not there", "the table lacks `c`"]);
}

/// The list as it stood when all four were built.
#[test]
fn what_is_there_and_called_not_yet_is_found() {
    let changelog = "#### Objects with a home\n#### Other machines\n* `underpass node` is the activation\n  server.\n\
        \n### Not yet\n\n* The activation server\n* Objects with a home, user-level drivers\n* Calls to other machines; `underpass-a`\n\
        * Other processors than x86-64\n\n## 0.1\n* An end\n";
    let rooms = [Room { name: "underpass-a", ..super::rooms::BARE }];
    let faults = there_already(changelog, "| x | user-level\ndrivers: registers |", &rooms);
    assert_eq!(faults.len(), 5, "{faults:?}");
    assert!(faults.iter().all(|fault| !fault.contains("x86-64")), "{faults:?}");
}
