//! What the tests of devices share: a watchdog, and devices that are processes.
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use underpass::device::{Device, DeviceSource};

/// Far more than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A time that no wait of a test reaches.
pub fn far() -> Instant {
    Instant::now() + 2 * LIMIT
}

/// Ends the process with a list of its kernel threads, unless dropped in time.
pub struct Watchdog {
    _calm: Sender<()>,
}

/// Watches over the calling test.
pub fn watchdog() -> Watchdog {
    let (calm, watched) = channel::<()>();
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    std::thread::spawn(move || {
        if watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
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
        underpass::thread::yield_now();
        std::thread::yield_now();
    }
}

/// A device that is a process of its own. It is ended when this is dropped.
pub struct DeviceProcess {
    child: Child,
    socket: PathBuf,
    arguments: Vec<String>,
}

impl DeviceProcess {
    /// Starts a device.
    pub fn start(arguments: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("underpass-test-device-{}-{number}", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let mut all = vec![arguments[0].to_owned(), socket.to_str().unwrap().to_owned()];
        all.extend(arguments[1..].iter().map(|&more| more.to_owned()));
        Self { child: Self::spawn(&all), socket, arguments: all }
    }

    fn spawn(arguments: &[String]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_underpass-test-device")).args(arguments).spawn().unwrap()
    }

    /// Starts it again after it was killed.
    pub fn restart(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
        self.child = Self::spawn(&self.arguments);
    }

    /// Where its socket is.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Opens it, as soon as it listens.
    pub fn open(&self) -> Device {
        until(|| Device::open(DeviceSource::vfio_user(&self.socket)).ok())
    }

    /// Kills it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for DeviceProcess {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_file(&self.socket);
    }
}
