//! Makes the checked-in code of the `.proto` files: `cargo run --manifest-path
//! tools/grpc-code/Cargo.toml`.
//!
//! `protox` takes the place of `protoc`, so that nobody has to install that.
#![forbid(unsafe_code)]

use prost::Message;
use std::error::Error;
use std::path::Path;

/// A `.proto` file, the folder of its code, and the file of its descriptors, if it has one.
const FILES: [(&str, &str, Option<&str>); 2] = [
    ("tests/grpc/proto/interop.proto", "tests/grpc/src/generated", Some("interop.bin")),
    ("examples/grpc-greeter/proto/greeter.proto", "examples/grpc-greeter/src/generated", None),
];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (proto, folder, descriptors) in FILES {
        let (proto, folder) = (root.join(proto), root.join(folder));
        let compiled = protox::compile([&proto], [proto.parent().ok_or("a file has a folder")?])?;
        if let Some(name) = descriptors {
            std::fs::write(folder.join(name), compiled.encode_to_vec())?;
        }
        tonic_prost_build::configure().bytes(".").build_transport(false).out_dir(&folder).compile_fds(compiled)?;
    }
    Ok(())
}
