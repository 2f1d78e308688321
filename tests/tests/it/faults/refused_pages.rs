//! The system refuses pages of the memory that both sides share (`SIGBUS`), as it may with
//! `vm.overcommit_memory` of 2. Here a truncated file takes the place of those pages.

use super::SERVER;
use std::ffi::{c_int, c_void};
use std::fs::{File, OpenOptions, read_to_string, remove_file};
use std::os::fd::AsRawFd;
use underpass::CallError;
use underpass_harness::alone;
use underpass_tests::{Probe, ProbeClient, Room, ServerProcess, Watchdog};

unsafe extern "C" {
    fn mmap(at: *mut c_void, len: usize, access: c_int, kind: c_int, file: c_int, from: i64) -> *mut c_void;
}

/// A file of which no page is available.
fn cut_off() -> File {
    let path = std::env::temp_dir().join(Room::name("cut-off"));
    let file = OpenOptions::new().create_new(true).read(true).write(true).open(&path).unwrap();
    remove_file(path).unwrap();
    file
}

/// Puts such pages in the place of this process's mappings of files called `named`, except the
/// first `spared` bytes of each. Returns how many mappings there were.
fn refuse(named: &str, spared: usize) -> usize {
    /// `PROT_READ | PROT_WRITE`, `MAP_SHARED | MAP_FIXED`.
    const HOW: (c_int, c_int) = (3, 0x11);
    let (file, maps) = (cut_off(), read_to_string("/proc/self/maps").unwrap());
    let mappings = maps.lines().filter(|line| line.contains(named)).map(|line| {
        let (begin, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let address = |digits| usize::from_str_radix(digits, 16).unwrap();
        let begin = address(begin) + spared;
        (begin, address(end) - begin)
    });
    mappings
        .map(|(begin, len)| {
            // SAFETY: the mapping is shared memory. Its owner expects that others write to it at
            // any moment.
            let there = unsafe { mmap(begin as *mut c_void, len, HOW.0, HOW.1, file.as_raw_fd(), 0) };
            assert_eq!(there as usize, begin);
        })
        .count()
}

fn comes_back(client: &ProbeClient, len: usize) {
    assert!(client.echo(&vec![7; len]).unwrap() == vec![7; len], "{len} bytes");
}

#[test]
fn a_refused_page_of_an_overflow_buffer_is_the_error_of_one_call() {
    alone!();
    let _watchdog = Watchdog::new("a_page_of_an_overflow_buffer_that_is_refused");
    let server = ServerProcess::start(SERVER, &Room::name("refused"), "probe");
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    const LEN: usize = 200_000;
    comes_back(&client, LEN);
    comes_back(&client, LEN);
    assert!(refuse("memfd:underpass-overflow", 0) > 0);
    match client.echo(&vec![7; LEN]) {
        Err(CallError::NoResources(_, why)) => assert!(why.contains("vm.overcommit_memory"), "{why}"),
        other => panic!("{:?}", other.map(|bytes| bytes.len())),
    }
    // The overflow buffer is not used again.
    comes_back(&client, 10);
    drop(client);
    comes_back(&ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap(), LEN);
}

#[test]
fn a_page_of_an_a_stack_that_is_refused_is_the_error_of_its_calls() {
    alone!();
    let _watchdog = Watchdog::new("a_page_of_an_a_stack_that_is_refused");
    let server = ServerProcess::start(SERVER, &Room::name("refused-stack"), "probe");
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    const LEN: usize = 150;
    comes_back(&client, LEN);
    assert!(refuse("memfd:underpass-binding", underpass_channel::layout::STACKS) > 0);
    for _ in 0..3 {
        match client.echo(&[7; LEN]) {
            Err(CallError::NoResources(_, why)) => assert!(why.contains("vm.overcommit_memory"), "{why}"),
            other => panic!("{:?}", other.map(|bytes| bytes.len())),
        }
    }
    // Messages in the cells still work.
    assert_eq!(client.echo(&[7; 8]).unwrap(), [7; 8]);
    drop(client);
    comes_back(&ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap(), LEN);
}
