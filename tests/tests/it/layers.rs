//! Checks the rules of the house: which crate may depend on which, where unsafe code lives, which
//! names types may have, how long a file and a function may be, and what the documents say of all
//! this.
//!
//! `ARCHITECTURE.md` gives the reasons. A change that needs another rule changes it here and there,
//! with its reason.

mod doc_numbers;
mod documents;
mod folders;
mod functions;
mod names;
mod names_in_regions;
mod namesakes;
mod rooms;
mod unsafe_files;

use folders::Cycle;
use rooms::{FACADE, ROOMS, Room};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use unsafe_files::UNSAFE;

/// Crates that call Linux. Only `underpass-os` may use them.
const KERNEL: &[&str] = &["libc", "linux-raw-sys", "nix", "rustix", "syscalls"];

/// The most lines of a file.
const LONGEST: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn packages() -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let asked = ["metadata", "--no-deps", "--format-version", "1", "--offline"];
    let told = Command::new(cargo).args(asked).current_dir(root()).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let mut told: Value = serde_json::from_slice(&told.stdout).unwrap();
    match told["packages"].take() {
        Value::Array(packages) => packages,
        other => panic!("cargo metadata lists packages, not {other}"),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Fails with all of `faults`, one a line.
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// What is wrong with one dependency of one crate.
fn fault(room: &Room, dependency: &Value) -> Option<String> {
    let (name, in_tests) = (text(dependency, "name"), text(dependency, "kind") == "dev");
    let of_ours = dependency["path"].is_string();
    let allowed = match (of_ours, in_tests) {
        (true, false) => room.rooms.contains(&name),
        (true, true) => {
            name == "underpass-harness" || room.rooms.contains(&name) || room.tests.contains(&name)
        }
        (false, false) => room.outside.is_none_or(|outside| outside.contains(&name)),
        (false, true) => true,
    };
    let kernel = KERNEL.contains(&name) && room.name != "underpass-os";
    let (from, because) = (room.name, room.because);
    let rule = match (allowed, kernel) {
        (true, false) => return None,
        (_, true) => "only underpass-os calls Linux; put what you need there, with a name of its own",
        (false, false) => because,
    };
    let of = if in_tests { "'s tests depend" } else { " depends" };
    Some(format!("{from}{of} on {name}, against the rule: {rule} (ROOMS in tests/tests/it/layers.rs)"))
}

#[test]
fn dependencies_point_one_way() {
    let mut faults = Vec::new();
    for package in packages() {
        let name = text(&package, "name");
        let Some(room) = ROOMS.iter().find(|room| room.name == name) else {
            faults.push(format!("{name} has no place in ROOMS; say there what it may depend on, and why"));
            continue;
        };
        faults
            .extend(package["dependencies"].as_array().unwrap().iter().filter_map(|edge| fault(room, edge)));
    }
    none(faults);
}

#[test]
fn a_wrong_edge_is_found() {
    let edge = |name: &str, path: Option<&str>, kind: Option<&str>| {
        fault(&FACADE, &serde_json::json!({ "name": name, "path": path, "kind": kind }))
    };
    assert!(edge("underpass-os", Some("/"), None).unwrap().contains("underpass depends on underpass-os"));
    assert!(edge("underpass-os", Some("/"), Some("dev")).unwrap().contains("underpass's tests depend"));
    assert!(edge("serde", None, None).unwrap().contains(FACADE.because));
    assert!(edge("libc", None, Some("dev")).unwrap().contains("only underpass-os calls Linux"));
    assert_eq!(edge("underpass-rpc", Some("/"), None), None);
    assert_eq!(edge("proptest", None, Some("dev")), None);
}

/// Folders that need one another. Nothing is added here.
const CYCLES: &[Cycle] = &[
    Cycle {
        package: "underpass-rpc",
        folders: &["binding", "call", "control", "dispatch", "error", "payload", "remote"],
        because: "an end of a channel knows its binding, its socket and its calls: connections will take that apart",
    },
    Cycle {
        package: "underpass-threads",
        folders: &["block", "diagnose", "sched", "wait"],
        because: "a control block knows the table for debuggers, and a wait the search for deadlocks",
    },
    Cycle {
        package: "underpass-os",
        folders: &["memory", "sandbox", "threads"],
        because: "a handler of faults knows mapped memory, which is unmapped by way of kernel threads",
    },
    Cycle {
        package: "underpass-bench",
        folders: &["calls", "measure", "node", "processes", "raw", "report", "urpc"],
        because: "the child processes run the experiments' other sides; what is measured knows how it is reported",
    },
];

#[test]
fn no_folders_of_a_crate_need_one_another() {
    let mut faults = Vec::new();
    for package in packages() {
        let home = Path::new(text(&package, "manifest_path")).with_file_name("src");
        faults.extend(folders::faults(text(&package, "name"), &home, CYCLES));
    }
    none(faults);
}

#[test]
fn each_public_name_names_one_type() {
    let (root, mut places) = (root(), names::Places::new());
    for package in packages() {
        let home = Path::new(text(&package, "manifest_path")).with_file_name("src");
        if ["crates", "bench"].iter().any(|folder| home.starts_with(root.join(folder))) {
            names::collect(&root, &home, &mut places);
        }
    }
    assert!(places.contains_key("Channel"), "the types are found");
    none(names::faults(&places, &[namesakes::NAMESAKES, names_in_regions::NAMESAKES].concat()));
}

#[test]
fn unsafe_code_lives_where_it_is_said_to() {
    let mut faults = Vec::new();
    for package in packages() {
        let name = text(&package, "name");
        let home = Path::new(text(&package, "manifest_path")).with_file_name("src");
        let Some((_, allowed)) = UNSAFE.iter().find(|(of, _)| *of == name) else {
            faults.extend(permissive_roots(&package));
            continue;
        };
        for file in sources(&home) {
            let short = file.strip_prefix(&home).unwrap().display().to_string();
            if has_unsafe(&fs::read_to_string(&file).unwrap()) && !allowed.contains(&&*short) {
                faults.push(format!("{name}: unsafe code in src/{short}, which UNSAFE does not name"));
            }
        }
    }
    none(faults);
}

/// The roots of a package's libraries and programs that do not forbid unsafe code.
fn permissive_roots(package: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for target in package["targets"].as_array().unwrap() {
        let mut kinds = target["kind"].as_array().unwrap().iter().filter_map(Value::as_str);
        let file = text(target, "src_path");
        let forbids =
            || fs::read_to_string(file).unwrap().lines().any(|line| line == "#![forbid(unsafe_code)]");
        if kinds.any(|kind| matches!(kind, "lib" | "bin" | "proc-macro")) && !forbids() {
            faults.push(format!("{file} lacks #![forbid(unsafe_code)]"));
        }
    }
    faults
}

fn has_unsafe(source: &str) -> bool {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).any(|word| word == "unsafe")
}

/// All Rust files below `from`, except built and hidden ones.
fn sources(from: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    found
}

/// Whether a file was made by our macros, or by tonic's generator.
fn is_generated(file: &Path) -> bool {
    let in_folder = file.components().any(|part| part.as_os_str() == "generated");
    in_folder || file.to_string_lossy().ends_with(".expanded.rs")
}

#[test]
fn no_file_is_too_long_and_no_test_is_ignored_without_a_reason() {
    let mut faults = Vec::new();
    let files = sources(&root());
    assert!(files.iter().any(|file| file.ends_with("it/layers.rs")), "the files are found");
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        let (shown, lines) = (file.display(), source.lines().count());
        // What is generated is compared, and read by nobody from top to bottom.
        if lines > LONGEST && !is_generated(&file) {
            faults.push(format!("{shown} has {lines} lines, more than {LONGEST}; split it by noun"));
        }
        for (number, _) in source.lines().enumerate().filter(|(_, line)| line.trim() == "#[ignore]") {
            faults.push(format!("{shown}:{}: a test is ignored; say why: #[ignore = \"…\"]", number + 1));
        }
    }
    none(faults);
}

#[test]
fn no_function_is_too_long_outside_of_tests() {
    let (root, mut faults) = (root(), Vec::new());
    for file in sources(&root) {
        let short = file.strip_prefix(&root).unwrap();
        if !functions::is_of_tests(short) && !is_generated(short) {
            faults.extend(functions::faults(short, &fs::read_to_string(&file).unwrap()));
        }
    }
    none(faults);
}
