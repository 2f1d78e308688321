//! Records which commit is built, and whether its sources have been changed, for the rows that the
//! command prints.
//!
//! It does so in release builds alone: no figure of another build is worth keeping, and a build for
//! tests shall not start anew with each commit. Without `git`, or in a tree that is no checkout,
//! the commit is unknown.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the command is made of, from the top of the workspace. `results` and the documents are not.
const SOURCES: [&str; 11] = [
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "bench/Cargo.toml",
    "bench/build.rs",
    "bench/figures",
    "bench/src",
    "crates",
    "rust-toolchain.toml",
    "tests/device",
    "tests/grpc",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let built = match env::var("PROFILE").as_deref() {
        Ok("release") => built_from(&top),
        _ => None,
    };
    let (commit, tree) = built.unwrap_or_else(|| (String::new(), "unknown"));
    println!("cargo::rustc-env=UNDERPASS_BENCH_COMMIT={commit}");
    println!("cargo::rustc-env=UNDERPASS_BENCH_TREE={tree}");
}

/// The commit and the state of the sources in the checkout at `top`. Cargo asks again when one of
/// them changes.
fn built_from(top: &Path) -> Option<(String, &'static str)> {
    // An archive may lie in a checkout of something else.
    let checkout = PathBuf::from(git(top, &["rev-parse", "--show-toplevel"])?);
    if checkout.canonicalize().ok()? != top.canonicalize().ok()? {
        return None;
    }
    let commit = git(top, &["rev-parse", "--verify", "HEAD"])?;
    let sources: Vec<_> = SOURCES.into_iter().filter(|source| top.join(source).exists()).collect();
    let mut arguments = vec!["status", "--porcelain", "--"];
    arguments.extend(&sources);
    let tree = if git(top, &arguments)?.is_empty() { "clean" } else { "changed" };
    watch(top, &sources);
    Some((commit, tree))
}

/// Has Cargo run this again when the sources change, or the commit that is checked out. The log of
/// `HEAD` grows with each commit, also while its branch has no file of its own. A path that is not
/// there would have Cargo run this with each build.
fn watch(top: &Path, sources: &[&str]) {
    let branch = git(top, &["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].map(str::to_owned).into_iter().chain(branch);
    let files = names.filter_map(|name| git(top, &["rev-parse", "--git-path", &name]));
    let paths = files.map(|file| top.join(file)).chain(sources.iter().map(|source| top.join(source)));
    for path in paths.filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// What `git` prints, without the line's end. `None` if it fails.
fn git(top: &Path, arguments: &[&str]) -> Option<String> {
    // `git status` shall not write the index, which others may be using.
    let output = Command::new("git")
        .args(["--no-optional-locks", "-C"])
        .arg(top)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim_end().to_owned())
}
