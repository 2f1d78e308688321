//! A file system in user space (FUSE) with one file, `page`. It never answers a read.
//!
//! The numbers and layouts are those of the kernel's `fuse.h`. None of its structures has gaps.

use std::fs::File;
use std::io::{self, Read, Write, copy, sink, stderr, stdin, stdout};
use std::os::fd::AsFd;

/// The size of the file in bytes.
const SIZE: u64 = 4096;
/// The file's node. The directory's node is 1.
const FILE: u64 = 2;
/// Bytes of the header of a request, and of an answer.
const REQUEST: usize = 40;
const ANSWER: u32 = 16;
/// Kinds of requests. For the last three the kernel waits for no answer: `FORGET`, `INTERRUPT`,
/// `BATCH_FORGET`.
const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const INIT: u32 = 26;
const SILENT: [u32; 3] = [2, 36, 42];
/// `ENOSYS`: the kernel works without such a request.
const NO_SUCH_REQUEST: i32 = 38;

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

fn longs<const N: usize>(longs: [u64; N]) -> Vec<u8> {
    longs.into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// `struct fuse_attr` of a node.
fn attributes(node: u64) -> Vec<u8> {
    let mode = if node == FILE { 0o100_444 } else { 0o040_555 };
    // Inode number, size, blocks; three times in s; the same three in ns; mode, links, owners,
    // device, block size, flags.
    [longs([node, SIZE, 8, 0, 0, 0]), words([0, 0, 0, mode, 1, 0, 0, 0, SIZE as u32, 0])].concat()
}

/// The answer to a request, without its header. The error is an `errno`, if the file system has no
/// such request.
fn answer(request: u32, node: u64) -> Result<Vec<u8>, i32> {
    match request {
        // Version 7.31, 4 KiB of read-ahead, no flags, the kernel's own number of background
        // requests, 4 KiB per write, times in ns. Later fields are zero.
        INIT => Ok(words([7, 31, 4096, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        // The node, its generation, and how long the kernel may cache both: no time at all.
        LOOKUP => Ok([longs([FILE, 0, 0, 0, 0]), attributes(FILE)].concat()),
        GETATTR => Ok([longs([0, 0]), attributes(node)].concat()),
        // A handle and no flags.
        OPEN => Ok(longs([0, 0])),
        _ => Err(NO_SUCH_REQUEST),
    }
}

/// Serves the FUSE whose device is the standard output, until the standard input ends. For each
/// read request it writes one byte to the standard error, and never answers.
///
/// # Errors
/// The errors of reading the device and writing to it.
///
/// # Panics
/// If a request is shorter than its header.
pub fn withhold() -> io::Result<()> {
    let mut device = File::from(stdout().as_fd().try_clone_to_owned()?);
    std::thread::spawn(|| {
        let _ = copy(&mut stdin(), &mut sink());
        // The device is closed with the process, and the kernel fails all requests without an
        // answer.
        std::process::exit(0);
    });
    let mut request = vec![0; 1 << 17];
    loop {
        let length = device.read(&mut request)?;
        let header = &request[..length.min(REQUEST)];
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_ne_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let (what, unique, node) = (word(4), long(8), long(16));
        if what == READ {
            stderr().write_all(b"r")?;
        } else if !SILENT.contains(&what) {
            let (error, bytes) = answer(what, node).map_or_else(|e| (-e, Vec::new()), |bytes| (0, bytes));
            let head = words([ANSWER + bytes.len() as u32, error.cast_unsigned()]);
            device.write_all(&[head, longs([unique]), bytes].concat())?;
        }
    }
}
