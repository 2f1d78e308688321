//! A client, the driver and the disk are three processes, each of which may end.

use crate::common::{pattern, until, watchdog};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use underpass::CallError;
use underpass_nvme::{BlockDevice, BlockDeviceClient, BlockError};
use underpass_test_device::{Nvme, serve_at};

/// Set in the process that is the disk: its socket.
const DISK: &str = "UNDERPASS_TEST_DISK";
/// Far longer than an import takes on a busy machine.
const SOON: Duration = Duration::from_secs(100);

/// A process that is ended when this is dropped.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The disk's process: this test program, which runs this test alone.
#[test]
fn the_disk() {
    if let Some(socket) = std::env::var_os(DISK) {
        serve_at(Path::new(&socket), &mut Nvme::new(16 << 20)).unwrap();
    }
}

fn start_disk(socket: &Path) -> Process {
    let _ = std::fs::remove_file(socket);
    let program = std::env::current_exe().unwrap();
    let disk =
        Command::new(program).args(["--exact", "processes::the_disk"]).env(DISK, socket).spawn().unwrap();
    until(|| std::os::unix::net::UnixStream::connect(socket).ok());
    Process(disk)
}

fn start_driver(socket: &Path, name: &str) -> Process {
    let program = env!("CARGO_BIN_EXE_underpass-nvme");
    Process(Command::new(program).arg(socket).arg(name).spawn().unwrap())
}

fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("underpass-{name}-{}", std::process::id()))
}

/// A name that no other test program uses.
fn name(of: &str) -> String {
    format!("{of}-{}", std::process::id())
}

fn import(name: &str) -> BlockDeviceClient {
    BlockDeviceClient::import_within(name, SOON).unwrap()
}

#[test]
fn a_client_uses_the_disk_through_its_driver() {
    let _dog = watchdog();
    let (socket, name) = (socket("disk-client"), name("disk-client"));
    let _disk = start_disk(&socket);
    let _driver = start_driver(&socket, &name);
    let disk = import(&name);
    let info = disk.info().unwrap();
    assert_eq!((info.block, info.size, info.most, &*info.model), (512, 16 << 20, 1 << 20, "small disk"));
    for (seed, len) in [4096, 65_536, 1 << 20].into_iter().enumerate() {
        let bytes = pattern(seed as u32, len);
        disk.write(4096, &bytes).unwrap();
        assert!(disk.read(4096, len as u32).unwrap() == bytes, "{len}");
    }
    disk.flush().unwrap();
    assert_eq!(disk.write(1, &[0; 512]).unwrap_err(), BlockError::OutOfBounds);
    assert_eq!(disk.read(0, (1 << 20) + 512).unwrap_err(), BlockError::OutOfBounds);
    let threads: Vec<_> = (0..16u64)
        .map(|number| {
            let disk = disk.clone();
            underpass::thread::spawn(move || {
                for round in 0..10 {
                    let bytes = pattern(number as u32 + round, 8192);
                    disk.write(number * 65_536, &bytes)?;
                    assert!(disk.read(number * 65_536, 8192)? == bytes);
                }
                Ok::<(), BlockError>(())
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    let _ = std::fs::remove_file(socket);
}

#[test]
fn the_death_of_a_driver_costs_the_calls_under_way() {
    let _dog = watchdog();
    let (socket, name) = (socket("driver-death"), name("driver-death"));
    let _disk = start_disk(&socket);
    for round in 0..5u8 {
        let mut driver = start_driver(&socket, &name);
        let disk = import(&name);
        if round > 0 {
            assert_eq!(disk.read(0, 4096).unwrap(), [round; 4096], "a write that has returned stays");
        }
        disk.write(0, &[round + 1; 4096]).unwrap();
        let writers: Vec<_> = (1..5u64)
            .map(|number| {
                let disk = disk.clone();
                underpass::thread::spawn(move || {
                    loop {
                        if let Err(e) = disk.write(number * 65_536, &[round; 65_536]) {
                            return e;
                        }
                    }
                })
            })
            .collect();
        driver.kill();
        for writer in writers {
            let ended = writer.join().unwrap();
            let expected = matches!(ended, BlockError::Call(CallError::PeerDied(_) | CallError::Closed(_)));
            assert!(expected, "{ended:?}");
        }
    }
    let _ = std::fs::remove_file(socket);
}

#[test]
fn the_death_of_a_disk_is_an_error_of_each_call() {
    let _dog = watchdog();
    let (socket, name) = (socket("disk-death"), name("disk-death"));
    let mut dying = start_disk(&socket);
    let _driver = start_driver(&socket, &name);
    let disk = import(&name);
    disk.write(0, &[1; 4096]).unwrap();
    let writers: Vec<_> = (1..5u64)
        .map(|number| {
            let disk = disk.clone();
            underpass::thread::spawn(move || {
                loop {
                    if let Err(e) = disk.write(number * 65_536, &[2; 65_536]) {
                        return e;
                    }
                }
            })
        })
        .collect();
    dying.kill();
    for writer in writers {
        let ended = writer.join().unwrap();
        assert!(matches!(ended, BlockError::Failed(_) | BlockError::Restarted), "{ended:?}");
    }
    assert!(disk.read(0, 4096).is_err(), "the driver lives, and says that its disk is gone");
    let _ = std::fs::remove_file(socket);
}
