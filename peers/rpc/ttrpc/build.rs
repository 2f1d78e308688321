//! Generates the messages and the service, without `protoc`.

use ttrpc_codegen::{Codegen, Customize, ProtobufCustomize};

fn main() {
    println!("cargo:rerun-if-changed=proto/calls.proto");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    Codegen::new()
        .out_dir(&out)
        .input("proto/calls.proto")
        .include("proto")
        .rust_protobuf()
        .customize(Customize { async_all: true, gen_mod: true, ..Default::default() })
        .rust_protobuf_customize(ProtobufCustomize::default().gen_mod_rs(true))
        .run()
        .expect("the service is generated");
    // An included file can't have attributes of the module that includes it.
    let modules = std::fs::read_to_string(format!("{out}/mod.rs")).expect("it is generated");
    let modules: String =
        modules.lines().filter(|line| !line.starts_with("#!")).map(|line| format!("{line}\n")).collect();
    std::fs::write(format!("{out}/modules.rs"), modules).expect("the directory can be written");
}
