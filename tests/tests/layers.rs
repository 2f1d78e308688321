//! Checks the rules of the house: which crate may depend on which, where unsafe code lives, which
//! names types may have, and how long a file and a function may be.
//!
//! `ARCHITECTURE.md` gives the reasons. A change that needs another rule changes it here and there,
//! with its reason.

#[path = "layers/folders.rs"]
mod folders;
#[path = "layers/functions.rs"]
mod functions;
#[path = "layers/names.rs"]
mod names;
#[path = "layers/names_in_regions.rs"]
mod names_in_regions;
#[path = "layers/namesakes.rs"]
mod namesakes;

#[path = "layers/unsafe_files.rs"]
mod unsafe_files;

use folders::Cycle;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use unsafe_files::UNSAFE;

/// What one crate may depend on. The reasons are in `ARCHITECTURE.md`.
struct Room {
    name: &'static str,
    /// Crates of this workspace.
    rooms: &'static [&'static str],
    /// Crates that its tests may use as well. Examples in the documentation are tests, and name
    /// what a user names: `underpass`.
    tests: &'static [&'static str],
    /// Crates from outside. `None` where the rules leave that free.
    outside: Option<&'static [&'static str]>,
    because: &'static str,
}

/// A crate that depends on nothing.
const BARE: Room = Room { name: "", rooms: &[], tests: &[], outside: Some(&[]), because: "" };

const FACADE: Room = Room {
    name: "underpass",
    rooms: &[
        "underpass-device",
        "underpass-homed",
        "underpass-io",
        "underpass-macros",
        "underpass-port",
        "underpass-processor",
        "underpass-rpc",
        "underpass-sandbox",
        "underpass-shared",
        "underpass-sync",
        "underpass-threads",
        "underpass-wire",
    ],
    tests: &["underpass-test-device"],
    because: "the facade holds names that a user imports, and nothing else",
    ..BARE
};

const ROOMS: &[Room] = &[
    FACADE,
    Room {
        name: "underpass-macros",
        rooms: &["underpass-idl"],
        tests: &["underpass-wire"],
        outside: Some(&["proc-macro2"]),
        because: "the macros are a thin shell over underpass-idl and don't know the runtime",
    },
    Room {
        name: "underpass-idl",
        tests: &["underpass-wire"],
        outside: Some(&["proc-macro2", "quote", "syn"]),
        because: "generating stubs needs no runtime: it is text to text",
        ..BARE
    },
    Room {
        name: "underpass-rpc",
        tests: &["underpass"],
        rooms: &[
            "underpass-channel",
            "underpass-os",
            "underpass-processor",
            "underpass-seam",
            "underpass-sync",
            "underpass-threads",
            "underpass-wire",
        ],
        because: "data transfer, threads and processors meet here, and only here",
        ..BARE
    },
    Room {
        name: "underpass-port",
        tests: &["underpass"],
        rooms: &[
            "underpass-channel",
            "underpass-macros",
            "underpass-os",
            "underpass-rpc",
            "underpass-sync",
            "underpass-threads",
            "underpass-wire",
        ],
        outside: Some(&["futures-core"]),
        because: "a port is lanes between domains that have a binding, and threads that wait for them; async code reads a stream by the trait that all runtimes share",
    },
    Room {
        name: "underpass-sandbox",
        tests: &["underpass"],
        rooms: &[
            "underpass-os",
            "underpass-processor",
            "underpass-rpc",
            "underpass-sync",
            "underpass-threads",
            "underpass-wire",
        ],
        outside: Some(&["seccompiler"]),
        because: "it starts, restricts and ends domains; what the walls are made of stays out of the core",
    },
    Room {
        name: "underpass-shared",
        tests: &["underpass"],
        rooms: &[
            "underpass-channel",
            "underpass-macros",
            "underpass-os",
            "underpass-rpc",
            "underpass-seam",
            "underpass-sync",
            "underpass-threads",
            "underpass-wire",
        ],
        outside: Some(&["loom"]),
        because: "regions are exported by an interface; their threads are suspended and woken; of channels they know how bytes are copied",
    },
    Room {
        name: "underpass-homed",
        tests: &["underpass"],
        rooms: &[
            "underpass-channel",
            "underpass-macros",
            "underpass-os",
            "underpass-port",
            "underpass-rpc",
            "underpass-seam",
            "underpass-shared",
            "underpass-sync",
            "underpass-threads",
            "underpass-wire",
        ],
        outside: Some(&["loom"]),
        because: "an object is opened by an interface, and holds the data that regions hold; its home is interrupted by task signals; of channels it knows how bytes are copied",
    },
    Room {
        name: "underpass-sync",
        tests: &["underpass"],
        rooms: &["underpass-os", "underpass-seam", "underpass-threads"],
        outside: Some(&["loom"]),
        because: "locks and channels know that threads are suspended and woken, and nothing else of them",
    },
    Room {
        name: "underpass-io",
        tests: &["underpass"],
        rooms: &["underpass-os", "underpass-threads"],
        outside: Some(&["polling"]),
        because: "I/O suspends threads until the poller wakes them; it knows no calls",
    },
    Room {
        name: "underpass-device",
        tests: &["underpass", "underpass-test-device"],
        rooms: &[
            "underpass-os",
            "underpass-processor",
            "underpass-seam",
            "underpass-sync",
            "underpass-threads",
        ],
        outside: Some(&["loom"]),
        because: "a driver maps, waits and is woken; it knows neither calls nor what a device does",
    },
    Room {
        name: "underpass-nvme",
        tests: &["underpass-test-device"],
        rooms: &["underpass"],
        because: "a driver is an ordinary domain: it uses what a user uses",
        ..BARE
    },
    Room {
        name: "underpass-virtio-blk",
        tests: &["underpass-os", "underpass-skip"],
        rooms: &["underpass", "underpass-nvme"],
        because: "it uses what a user uses, and serves the block interface of underpass-nvme",
        ..BARE
    },
    Room {
        name: "underpass-holder",
        tests: &["underpass-test-device"],
        rooms: &["underpass", "underpass-os"],
        because: "it uses what a user uses, and of underpass-os how a child is ended",
        ..BARE
    },
    Room {
        name: "underpass-grpc",
        rooms: &["underpass", "underpass-wire"],
        outside: None,
        because: "a transport uses what a user uses, and puts frames on the wire without a copy; what tonic drags in stays out of the core",
        ..BARE
    },
    Room {
        name: "underpass-node",
        rooms: &["underpass-os", "underpass-processor", "underpass-seam"],
        outside: Some(&["loom"]),
        because: "it divides processors: it knows neither threads nor calls",
        ..BARE
    },
    Room {
        name: "underpass-tracing",
        rooms: &["underpass-threads"],
        tests: &["underpass-sync"],
        outside: None,
        because: "it tells a subscriber which thread runs; what that drags in stays out of the core",
    },
    Room {
        name: "underpass-threads",
        rooms: &[
            "underpass-context",
            "underpass-node",
            "underpass-os",
            "underpass-processor",
            "underpass-seam",
        ],
        tests: &["underpass", "underpass-io", "underpass-skip", "underpass-sync"],
        outside: Some(&["backtrace", "loom"]),
        because: "threads don't know channels: what an idle activation polls is a `Line`; they start the client of the activation server",
    },
    Room {
        name: "underpass-processor",
        rooms: &["underpass-os", "underpass-seam"],
        because: "processors don't know threads: they declare the `Upcall` that threads implement",
        ..BARE
    },
    Room {
        name: "underpass-channel",
        tests: &["underpass"],
        rooms: &["underpass-os", "underpass-seam", "underpass-wire"],
        because: "a channel is passive: it knows neither threads nor processors and never waits",
        ..BARE
    },
    Room {
        name: "underpass-context",
        rooms: &["underpass-os"],
        outside: Some(&["corosensei"]),
        because: "a context is a stack and a switch, whoever pauses it",
        ..BARE
    },
    Room {
        name: "underpass-wire",
        tests: &["underpass"],
        outside: Some(&["serde"]),
        because: "how values travel is the same wherever their bytes lie",
        ..BARE
    },
    Room {
        name: "underpass-os",
        outside: Some(&["libc", "rustix"]),
        because: "it calls Linux and knows nothing of Underpass",
        ..BARE
    },
    Room { name: "underpass-seam", outside: Some(&["loom"]), because: "it is below everything", ..BARE },
    Room {
        name: "underpass-cli",
        rooms: &["underpass", "underpass-bench", "underpass-node", "underpass-os", "underpass-wire"],
        outside: None,
        because: "it runs the activation server; the demo uses what a user uses; clocks and CPUs to show, and `Encode` for its comparison over sockets",
        ..BARE
    },
    Room {
        name: "underpass-bench",
        rooms: &[
            "underpass",
            "underpass-grpc",
            "underpass-nvme",
            "underpass-os",
            "underpass-rpc",
            "underpass-test-device",
            "underpass-test-grpc",
            "underpass-threads",
        ],
        outside: None,
        because: "benchmarks use what a user uses, a disk and its driver, memory and futexes for the raw limits, both ends of a channel, \
                  and the length of a slice; with a feature, gRPC and services for it",
        ..BARE
    },
    Room {
        name: "underpass-test-device",
        rooms: &["underpass-device", "underpass-os"],
        tests: &["underpass", "underpass-nvme", "underpass-threads"],
        because: "a device of the tests speaks the protocol of underpass-device, and maps what a driver passes",
        ..BARE
    },
    Room {
        name: "underpass-test-grpc",
        rooms: &["underpass", "underpass-grpc", "underpass-tests"],
        outside: None,
        because: "services for the tests of gRPC, in a process of their own",
        ..BARE
    },
    Room { name: "underpass-skip", because: "tests of any room may say that they were skipped", ..BARE },
    Room {
        name: "underpass-tests",
        rooms: &["underpass", "underpass-node", "underpass-os"],
        tests: &[
            "underpass-channel",
            "underpass-nvme",
            "underpass-skip",
            "underpass-test-device",
            "underpass-virtio-blk",
            "underpass-wire",
        ],
        outside: None,
        because: "its tests use what a user uses, run the activation server, and play the hostile peer with the rooms that a peer needs",
    },
    Room {
        name: "async-quotes",
        rooms: &["underpass"],
        outside: Some(&["tokio"]),
        because: "an example uses what a user uses",
        ..BARE
    },
    Room { name: "order-book", rooms: &["underpass"], because: "an example uses what a user uses", ..BARE },
    Room {
        name: "grpc-greeter",
        rooms: &["underpass-grpc"],
        outside: None,
        because: "an example uses what a user uses, and is otherwise a tonic program",
        ..BARE
    },
    Room {
        name: "png-sandbox",
        rooms: &["underpass"],
        outside: Some(&["png"]),
        because: "an example uses what a user uses",
        ..BARE
    },
];

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
        (true, true) => room.rooms.contains(&name) || room.tests.contains(&name),
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
    Some(format!("{from}{of} on {name}, against the rule: {rule} (ROOMS in tests/tests/layers.rs)"))
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

#[test]
fn the_map_shows_every_room() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let packages = packages();
    let missing = packages
        .iter()
        .map(|package| text(package, "name"))
        .filter(|name| !map.contains(&format!("`{name}`")));
    none(missing.map(|name| format!("ARCHITECTURE.md does not show `{name}`")).collect());
}

/// Folders that need one another. Nothing is added here.
const CYCLES: &[Cycle] = &[
    Cycle {
        package: "underpass-rpc",
        folders: &["binding", "call", "control", "dispatch", "error", "payload"],
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
        folders: &["lrpc", "processes", "urpc"],
        because: "the child processes run the experiments' other sides",
    },
    Cycle {
        package: "underpass-bench",
        folders: &["measure", "report"],
        because: "what is measured knows how it is reported",
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
    assert!(files.iter().any(|file| file.ends_with("tests/layers.rs")), "the files are found");
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
