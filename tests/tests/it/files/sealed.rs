//! Sealed memory: it is read in place, nobody can change it, and it is freed when its last holder
//! ends.

use crate::files::liars::{announcement_of_files, bind, outcome, procedure};
use crate::files::{import, server};
use crate::hostile::end::{BAD_ARGUMENTS, DONE, out_of_band};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use underpass::{Sealed, Shared};
use underpass_os::{Memory, PayloadFile};
use underpass_tests::{Files, Porter, ServerProcess, Watchdog, until};

/// The mappings of sealed memory in `pid`.
fn sealed_of(pid: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| line.contains("underpass-sealed")).count()
}

fn passes(porter: &impl Porter, bytes: &[u8]) {
    let total: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
    let sealed = Sealed::new(bytes).unwrap();
    assert_eq!(porter.total(sealed.clone()), Ok((total, false)));
    assert_eq!(porter.total(sealed), Ok((total, false)), "again");
    assert_eq!(porter.total_shared(Shared::from(bytes)), Ok(total));
}

fn has_no_more(server: &ServerProcess, files: &Files) {
    until("the server to let go", || (sealed_of(server.pid()) == 0 && files.others() == 0).then_some(()));
}

#[test]
fn bytes_of_any_number_are_read_and_not_changed() {
    let _watchdog = Watchdog::new("bytes_of_any_number_are_read_and_not_changed");
    let server = server("sealed");
    let porter = import(&server);
    porter.null().unwrap();
    let files = Files::of(server.pid());
    for len in [0, 1, 55, 56, 4096, 40_000, 1 << 20, 5_000_001] {
        let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
        passes(&porter, &bytes);
    }
    let (beside, sealed) = porter.seal(100_000).unwrap();
    assert_eq!((beside.len(), &*sealed[0], &*sealed[1]), (50_000, &[7; 100_000][..], &sealed[0][..]));
    // The memory goes back to its maker.
    assert_eq!(porter.total(sealed[0].clone()), Ok((700_000, false)));
    has_no_more(&server, &files);
}

#[test]
fn memory_that_could_change_is_the_error_of_one_call() {
    let _watchdog = Watchdog::new("memory_that_could_change_is_the_error_of_one_call");
    let server = server("unsealed");
    let porter = import(&server);
    porter.null().unwrap();
    let files = Files::of(server.pid());
    let end = bind(&server);
    // Memory without seals; sealed memory that is mapped writable; a file that is not memory.
    let unsealed = PayloadFile::create("underpass-sealed").unwrap();
    unsealed.write(&[1; 5000], 0).unwrap();
    let (_mapped, writable) = Memory::create("underpass-sealed", 8192).unwrap();
    let null = File::open("/dev/null").unwrap();
    let good = Sealed::new(&[1; 5000]).unwrap();
    for (file, told) in [
        (unsealed.as_fd(), BAD_ARGUMENTS),
        (writable.as_fd(), BAD_ARGUMENTS),
        (null.as_fd(), BAD_ARGUMENTS),
        (good.as_fd(), DONE),
    ] {
        end.say(&announcement_of_files(0, 1, 0), &[file]);
        end.post(&out_of_band(0, procedure("total")));
        assert_eq!(outcome(&end), (0, told));
    }
    drop(end);
    passes(&porter, &[3; 10_000]);
    has_no_more(&server, &files);
}

#[test]
fn sealed_memory_is_freed_with_its_last_holder_whichever_dies() {
    let _watchdog = Watchdog::new("sealed_memory_is_freed_with_its_last_holder_whichever_dies");
    let mut server = server("sealed-dies");
    let porter = import(&server);
    let sealed = Sealed::new(&[9; 300_000]).unwrap();
    for _ in 0..3 {
        porter.keep(sealed.clone()).unwrap();
    }
    assert_eq!(sealed_of(server.pid()), 3);
    let file = File::from(sealed.as_fd().try_clone_to_owned().unwrap());
    server.kill();
    assert!(porter.keep(sealed.clone()).is_err());
    // The maker's memory is unchanged, and the maker itself cannot change it.
    assert!(sealed.iter().all(|&byte| byte == 9) && file.write_at(&[1], 0).is_err());
}
