//! A device as a process: `underpass-test-device KIND SOCKET`.
#![forbid(unsafe_code)]

use std::path::Path;
use underpass_test_device::{Edu, Nvme, serve_at};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["edu", socket] => Ok(serve_at(Path::new(socket), &mut Edu::new()?)?),
        ["nvme", socket] => Ok(serve_at(Path::new(socket), &mut Nvme::new(64 << 20))?),
        _ => Err("usage: underpass-test-device edu|nvme SOCKET".into()),
    }
}
