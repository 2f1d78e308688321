//! Builds for other systems and processors end with what is missing.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, id};

/// A crate of `supported.rs` alone, without the `core` that is installed for this target only.
const ALONE: &str = "#![feature(no_core, rustc_attrs)]\n#![no_core]\n#![allow(internal_features, unused_macros)]\n\
                     #[rustc_builtin_macro]\nmacro_rules! compile_error { () => {} }\n";

/// What the compiler says of it for `target`, which need not be installed.
fn told(target: &str) -> (bool, String) {
    let directory = std::env::temp_dir().join(format!("underpass-supported-{}-{target}", id()));
    fs::create_dir_all(&directory).unwrap();
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/supported.rs");
    let supported = fs::read_to_string(own).unwrap().replacen("//!", "//", 1);
    fs::write(directory.join("lib.rs"), format!("{ALONE}{supported}")).unwrap();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "metadata",
            "--target",
            target,
            "lib.rs",
        ])
        // For `no_core`, which is in no stable compiler.
        .env("RUSTC_BOOTSTRAP", "1")
        .current_dir(&directory)
        .output()
        .unwrap();
    fs::remove_dir_all(&directory).unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn other_targets_are_told_what_they_lack() {
    for target in
        ["x86_64-apple-darwin", "aarch64-apple-darwin", "x86_64-pc-windows-msvc", "x86_64-unknown-freebsd"]
    {
        let (built, said) = told(target);
        assert!(!built && said.contains("error: Underpass runs on Linux only"), "{target}: {said}");
        assert!(!said.contains("x86-64 only"), "{target}: one reason is enough: {said}");
    }
    for target in ["aarch64-unknown-linux-gnu", "i686-unknown-linux-gnu", "x86_64-unknown-linux-gnux32"] {
        let (built, said) = told(target);
        assert!(!built && said.contains("error: Underpass runs on x86-64 only"), "{target}: {said}");
    }
}

#[test]
fn linux_on_x86_64_is_told_nothing() {
    for target in ["x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl"] {
        let (built, said) = told(target);
        assert!(built && said.is_empty(), "{target}: {said}");
    }
}
