//! What the tests of the disk share.
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use underpass::device::{Device, DeviceSource};
use underpass_nvme::{DiskOptions, NvmeDisk};
use underpass_test_device::{FAULT, NvmeFault};

/// Far more than any test takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Ends the process with a dump, unless dropped in time.
pub struct Watchdog {
    _calm: Sender<()>,
}

/// Watches over the calling test.
pub fn watchdog() -> Watchdog {
    watchdog_of(LIMIT)
}

/// The same, for a test that may take `limit`.
pub fn watchdog_of(limit: Duration) -> Watchdog {
    let (calm, watched) = channel::<()>();
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    std::thread::spawn(move || {
        if watched.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{name} hangs:\n{}", underpass::thread::dump());
            for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
                let of = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
                eprintln!(
                    "kernel thread {} in {} ({})",
                    of("comm").trim(),
                    of("wchan"),
                    of("syscall").trim()
                );
            }
            std::process::abort();
        }
    });
    Watchdog { _calm: calm }
}

/// Checks again and again until `found` returns something. The watchdog bounds it.
pub fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = found() {
            return found;
        }
        std::thread::yield_now();
    }
}

/// Numbers that look random, and are the same for the same seed.
pub struct Deck(u64);

impl Deck {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `below`.
    pub fn draw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// A disk of 4 MiB on a kernel thread of its own. Its commands may take any time.
pub fn disk() -> (NvmeDisk, Device) {
    disk_within(2 * LIMIT)
}

/// The same. Its commands may take `span`.
pub fn disk_within(span: Duration) -> (NvmeDisk, Device) {
    let (socket, _device) = underpass_test_device::start_nvme().unwrap();
    let device = Device::open(DeviceSource::vfio_user_socket(socket)).unwrap();
    // On a busy machine a start may take longer than a test wants to wait for a command.
    let options = DiskOptions::default().patience(span);
    (until(|| NvmeDisk::open(device.clone(), options).ok()), device)
}

/// The disk lies in this way from now on.
pub fn lie(device: &Device, fault: NvmeFault) {
    let registers = device.map_bar(0).unwrap();
    registers.write(FAULT, fault as u32).unwrap();
    // A read comes after all writes.
    registers.read::<u32>(0).unwrap();
}

/// Bytes that differ from place to place.
pub fn pattern(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed as u8).collect()
}
