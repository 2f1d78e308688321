//! Disks behind vhost-user: one of our own, which can lie, and `qemu-storage-daemon`.

use crate::pretended::{Lie, PretendedDisk};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use underpass::device::{Device, DeviceError, DeviceSource};
use underpass::thread::spawn;
use underpass_harness::skip;
use underpass_nvme::{BlockDevice, BlockError, DiskService};
use underpass_virtio_blk::{VirtioDisk, VirtioDiskOptions, VirtioError};

/// Far more than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// For a request that never ends.
const SHORT: Duration = Duration::from_millis(100);
const SIZE: usize = 4 << 20;

/// Ends the process, unless dropped in time.
fn watchdog() -> Sender<()> {
    let (calm, watched) = channel::<()>();
    std::thread::spawn(move || {
        if watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a test hangs:\n{}", underpass::thread::dump());
            std::process::abort();
        }
    });
    calm
}

/// Checks again and again until `found` returns something. The watchdog bounds it.
fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = found() {
            return found;
        }
        std::thread::yield_now();
    }
}

fn pattern(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed as u8).collect()
}

/// A disk of our own, and the way to have it lie.
fn pretended(patience: Duration) -> (VirtioDisk, PretendedDisk) {
    let (socket, control) = PretendedDisk::start(SIZE);
    let device = open(socket).unwrap();
    (VirtioDisk::open(device, VirtioDiskOptions::default().patience(patience)).unwrap(), control)
}

fn open(socket: OwnedFd) -> Result<Device, DeviceError> {
    Device::open(DeviceSource::vhost_user_socket(socket).patience(LIMIT))
}

/// What every disk has to do.
fn use_it(disk: &Arc<VirtioDisk>) {
    assert_eq!(disk.size().unwrap(), SIZE as u64);
    for (seed, len) in [512, 1024, 4096, 65_536, 131_072, 132_096, 1 << 20].into_iter().enumerate() {
        let (offset, bytes) = (512 * (seed as u64 + 1), pattern(seed as u32, len));
        disk.write(offset, &bytes).unwrap();
        disk.flush().unwrap();
        let mut read = vec![0; len];
        disk.read(offset, &mut read).unwrap();
        assert!(read == bytes, "{len} bytes");
    }
    for (offset, len) in [(1, 512), (0, 511), (SIZE as u64, 512), (u64::MAX - 511, 512)] {
        assert!(matches!(disk.read(offset, &mut vec![0; len]), Err(VirtioError::OutOfBounds)));
        assert!(matches!(disk.write(offset, &vec![0; len]), Err(VirtioError::OutOfBounds)));
    }
    // More threads than there are slots.
    let threads: Vec<_> = (0..24u32)
        .map(|number| {
            let disk = Arc::clone(disk);
            spawn(move || {
                let offset = u64::from(number) * 65_536;
                for round in 0..4 {
                    let bytes = pattern(number * 8 + round, 16_384);
                    disk.write(offset, &bytes)?;
                    let mut read = vec![0; bytes.len()];
                    disk.read(offset, &mut read)?;
                    assert!(read == bytes, "{number} {round}");
                }
                Ok::<(), VirtioError>(())
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    for round in 0..3 {
        disk.write(0, &[round; 4096]).unwrap();
        disk.reset().unwrap();
        let mut read = [0xff; 4096];
        disk.read(0, &mut read).unwrap();
        assert_eq!(read, [round; 4096], "a reset keeps the bytes");
    }
    assert_eq!(disk.counts().1, 0);
}

#[test]
fn what_was_written_is_read() {
    let _dog = watchdog();
    let (disk, _control) = pretended(2 * LIMIT);
    use_it(&Arc::new(disk));
}

#[test]
fn a_disk_of_qemu_is_driven_without_a_virtual_machine() {
    let _dog = watchdog();
    let Some(daemon) = Daemon::start() else { skip!("there is no qemu-storage-daemon") };
    let device = until(|| Device::open(DeviceSource::vhost_user(&daemon.socket).patience(LIMIT)).ok());
    let disk = Arc::new(VirtioDisk::open(device, VirtioDiskOptions::default().patience(2 * LIMIT)).unwrap());
    use_it(&disk);
    disk.write(0, &pattern(9, 8192)).unwrap();
    disk.flush().unwrap();
    assert!(std::fs::read(&daemon.file).unwrap()[..8192] == pattern(9, 8192), "it is in the daemon's file");
    // Another driver after the first one.
    drop(disk);
    let device = until(|| Device::open(DeviceSource::vhost_user(&daemon.socket).patience(LIMIT)).ok());
    let disk = VirtioDisk::open(device, VirtioDiskOptions::default().patience(2 * LIMIT)).unwrap();
    let mut read = vec![0; 8192];
    disk.read(0, &mut read).unwrap();
    assert!(read == pattern(9, 8192));
}

/// `qemu-storage-daemon` with one disk. It is ended when this is dropped.
struct Daemon {
    child: Child,
    socket: PathBuf,
    file: PathBuf,
}

impl Daemon {
    /// `None`: there is no such program.
    fn start() -> Option<Self> {
        let place = |what| std::env::temp_dir().join(format!("underpass-{what}-{}", std::process::id()));
        let (socket, file) = (place("vhost"), place("image"));
        std::fs::write(&file, vec![0; SIZE]).unwrap();
        let _ = std::fs::remove_file(&socket);
        let blocks = format!("driver=file,node-name=disk,filename={}", file.display());
        let export = format!(
            "type=vhost-user-blk,id=export,node-name=disk,writable=on,addr.type=unix,addr.path={}",
            socket.display()
        );
        let started = Command::new("qemu-storage-daemon")
            .args(["--blockdev", &blocks, "--export", &export])
            .stdin(Stdio::null())
            .spawn();
        let Ok(child) = started else {
            let _ = std::fs::remove_file(&file);
            return None;
        };
        Some(Self { child, socket, file })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_file(&self.file);
    }
}

#[test]
fn a_disk_that_lies_costs_an_error_at_the_most() {
    let _dog = watchdog();
    for lie in [Lie::Silent, Lie::UnknownRequest, Lie::ManyEnded, Lie::Twice, Lie::NoStatus] {
        let (disk, control) = pretended(SHORT);
        control.lie(lie);
        until(|| {
            // A disk that repeats what is true may succeed by chance.
            let written = disk.write(0, &[1; 512]);
            match lie {
                Lie::Twice | Lie::ManyEnded => (disk.counts().1 > 0).then_some(()),
                Lie::NoStatus => matches!(written, Err(VirtioError::Status(0xff))).then_some(()),
                _ => matches!(written, Err(VirtioError::Device(DeviceError::Late(_)))).then_some(()),
            }
            .or_else(|| if disk.needs_reset() { disk.reset().err().and(None) } else { None })
        });
        control.lie(Lie::None);
        until(|| match disk.write(0, &[2; 512]) {
            Ok(()) => Some(()),
            Err(_) => disk.reset().err().and(None),
        });
    }
}

#[test]
fn answers_that_can_t_be_end_the_device() {
    let _dog = watchdog();
    for answer in [&[][..], &[1; 3], &[0xff; 64], &[1, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3]] {
        let (ours, theirs) = underpass_os::DeviceStream::pair().unwrap();
        theirs.send(&[answer, &[9][..answer.len().min(1)]].concat(), &[]).unwrap();
        drop(theirs);
        let opened = open(ours.into());
        assert!(matches!(opened, Err(DeviceError::Gone | DeviceError::Malformed(_))), "{opened:?}");
    }
    let (ours, _theirs) = underpass_os::DeviceStream::pair().unwrap();
    let late = Device::open(DeviceSource::vhost_user_socket(OwnedFd::from(ours)).patience(SHORT));
    assert!(matches!(late, Err(DeviceError::Late(_))), "{late:?}");
}

#[test]
fn a_disk_that_ends_is_gone() {
    let _dog = watchdog();
    let (disk, control) = pretended(2 * LIMIT);
    disk.write(0, &[1; 512]).unwrap();
    control.lie(Lie::Silent);
    let disk = Arc::new(disk);
    let waiting = spawn({
        let disk = Arc::clone(&disk);
        move || disk.write(0, &[2; 512])
    });
    until(|| (disk.counts().0.blocked >= 1).then_some(()));
    control.end();
    let ended = waiting.join().unwrap();
    assert!(matches!(ended, Err(VirtioError::Device(DeviceError::Gone))), "{ended:?}");
    assert!(disk.reset().is_err());
}

#[test]
fn a_service_resets_its_disk_and_goes_on() {
    let _dog = watchdog();
    let (disk, control) = pretended(SHORT);
    let service = DiskService::new(disk);
    until(|| service.write(0, &[7; 4096]).ok());
    assert_eq!(service.info().unwrap().size, SIZE as u64);
    control.lie(Lie::Silent);
    let failed = service.write(0, &[8; 4096]);
    assert!(matches!(failed, Err(BlockError::Failed(_) | BlockError::Restarted)), "{failed:?}");
    control.lie(Lie::None);
    let read = until(|| service.read(0, 4096).ok());
    assert!(read == [7; 4096] || read == [8; 4096]);
    service.flush().unwrap();
    assert_eq!(service.read(0, u32::MAX).unwrap_err(), BlockError::OutOfBounds);
    assert_eq!(service.write(1, &[0; 512]).unwrap_err(), BlockError::OutOfBounds);
}
