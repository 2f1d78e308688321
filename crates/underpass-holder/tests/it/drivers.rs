//! Drivers that are started, stopped and replaced by name, and start again after a death.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use underpass::device::{Device, DeviceSource, HeldDevice, Registers};
use underpass::sync::{Condvar, Mutex};
use underpass::{CallError, Server};
use underpass_holder::{DriverError, DriverProgram, DriverTable, Drivers};

/// Far more than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// Set in the process that is the driver: the name that it exports.
const DRIVER: &str = "UNDERPASS_TEST_DRIVER";

/// What the driver of the tests serves.
#[underpass::interface(stateless)]
trait Inverter {
    /// The inverse of a number, by the device, and the process of the driver.
    fn invert(&self, number: u32) -> Result<(u32, u32), CallError>;
    /// How many drivers have had the device, as its memory says.
    #[idempotent]
    fn drivers(&self) -> Result<u64, CallError>;
}

/// The device, its registers, and how many drivers have had it.
type TakenDevice = (Device, Registers, u64);

#[derive(Clone, Default)]
struct InverterService {
    device: Arc<(Mutex<Option<TakenDevice>>, Condvar)>,
}

impl InverterService {
    fn with<R>(&self, what: impl FnOnce(&TakenDevice) -> R) -> R {
        let (place, changed) = &*self.device;
        let device = changed.wait_while(place.lock().unwrap(), |device| device.is_none()).unwrap();
        what(device.as_ref().unwrap())
    }
}

impl Inverter for InverterService {
    fn invert(&self, number: u32) -> Result<(u32, u32), CallError> {
        self.with(|(_, registers, _)| {
            registers.write(4, number).unwrap();
            Ok((registers.read(4).unwrap(), std::process::id()))
        })
    }

    fn drivers(&self) -> Result<u64, CallError> {
        self.with(|(_, _, number)| Ok(*number))
    }
}

fn take_device() -> TakenDevice {
    let held = HeldDevice::from_stdin(Instant::now() + LIMIT).unwrap();
    let device = Device::open(DeviceSource::held(held)).unwrap();
    let memory = device.kept_memory(0, 4096).unwrap();
    let number = memory.load::<u64>(0).unwrap() + 1;
    memory.store(0, number).unwrap();
    let registers = device.map_bar(0).unwrap();
    (device, registers, number)
}

/// The driver's process: this test program, which runs this test alone.
#[test]
fn the_driver() {
    let Ok(name) = std::env::var(DRIVER) else { return };
    let service = InverterService::default();
    let arriving = service.clone();
    std::thread::spawn(move || {
        let taken = take_device();
        *arriving.device.0.lock().unwrap() = Some(taken);
        arriving.device.1.notify_all();
    });
    let server = Server::new().replace().export(name, Inverter::serve(service.clone()));
    server.drain_on_signals(LIMIT).run().unwrap();
    if let Some((device, ..)) = service.device.0.lock().unwrap().take() {
        device.hand_over().unwrap();
    }
    std::process::exit(0);
}

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

/// A device at a socket, and a table.
struct Rig {
    table: DriverTable,
    socket: PathBuf,
    name: String,
}

impl Rig {
    fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let socket = std::env::temp_dir().join(&name);
        let _ = std::fs::remove_file(&socket);
        let path = socket.clone();
        std::thread::spawn(move || {
            let mut device = underpass_test_device::Edu::new().unwrap();
            let _ = underpass_test_device::serve_at(&path, &mut device);
        });
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            std::thread::yield_now();
        }
        Self { table: DriverTable::new(), socket, name }
    }

    fn device(&self) -> String {
        format!("vfio-user:{}", self.socket.display())
    }

    fn program(&self) -> DriverProgram {
        let own = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let name = format!("{DRIVER}={}", self.name);
        let arguments = [&name, &*own, "--exact", "drivers::the_driver"].map(str::to_owned).into();
        DriverProgram { program: "env".to_owned(), arguments }
    }

    fn start(&self) -> Result<(), DriverError> {
        self.table.start("inverter", &self.device(), 8192, self.program())
    }

    fn import(&self) -> InverterClient {
        InverterClient::import_within(&self.name, LIMIT).unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[test]
fn a_driver_is_started_and_stopped_by_name() {
    let _dog = watchdog();
    let rig = Rig::new("started");
    for _ in 0..2 {
        rig.start().unwrap();
        assert_eq!(rig.start(), Err(DriverError::Taken));
        let inverter = rig.import();
        let (inverse, process) = inverter.invert(5).unwrap();
        assert_eq!(inverse, !5);
        assert_eq!(inverter.drivers().unwrap(), 1, "the memory is new");
        let status = rig.table.list().unwrap();
        assert_eq!((status.len(), &*status[0].name, status[0].starts), (1, "inverter", 1));
        assert_eq!(status[0].processes, [process]);
        rig.table.stop("inverter").unwrap();
        assert_eq!(rig.table.list().unwrap(), []);
        assert!(inverter.invert(1).is_err());
        assert_eq!(rig.table.stop("inverter"), Err(DriverError::Unknown));
    }
}

#[test]
fn a_driver_is_replaced_by_name() {
    let _dog = watchdog();
    let rig = Rig::new("replaced-driver");
    assert_eq!(rig.table.replace("inverter", rig.program()), Err(DriverError::Unknown));
    rig.start().unwrap();
    let (_, first) = rig.import().invert(1).unwrap();
    rig.table.replace("inverter", rig.program()).unwrap();
    let inverter = rig.import();
    let (_, second) = inverter.invert(1).unwrap();
    assert!(second != first && inverter.drivers().unwrap() == 2);
    // A program that ends at once leaves everything as it was.
    let broken = DriverProgram { program: "false".to_owned(), arguments: Vec::new() };
    assert_eq!(rig.table.replace("inverter", broken), Err(DriverError::Ended));
    assert_eq!(inverter.invert(1).unwrap(), (!1, second));
    let missing = DriverProgram { program: "/nonexistent".to_owned(), arguments: Vec::new() };
    assert!(matches!(rig.table.replace("inverter", missing), Err(DriverError::Program(_))));
    assert_eq!(rig.table.list().unwrap()[0].processes, [second]);
    assert_eq!(rig.table.list().unwrap()[0].handed_over, 1);
}

#[test]
fn a_driver_that_dies_is_started_again() {
    let _dog = watchdog();
    let rig = Rig::new("dies");
    rig.start().unwrap();
    for death in 1..=3 {
        let inverter = rig.import();
        let (_, process) = inverter.invert(1).unwrap();
        assert_eq!(inverter.drivers().unwrap(), death, "the memory stays");
        let killed = std::process::Command::new("sh").args(["-c", &format!("kill -9 {process}")]).status();
        assert!(killed.unwrap().success());
        while inverter.invert(1).is_ok() {
            std::thread::yield_now();
        }
    }
    assert_eq!(rig.import().drivers().unwrap(), 4);
    let status = &rig.table.list().unwrap()[0];
    assert_eq!((status.starts, status.deaths, status.handed_over), (4, 3, 0));
}

#[test]
fn a_program_that_always_ends_is_not_started_for_ever() {
    let _dog = watchdog();
    let rig = Rig::new("ends");
    let broken = DriverProgram { program: "false".to_owned(), arguments: Vec::new() };
    // Whether it has the device before it ends is chance.
    let started = rig.table.start("inverter", &rig.device(), 1, broken);
    assert!(matches!(started, Ok(()) | Err(DriverError::Ended)), "{started:?}");
    if started.is_ok() {
        while !rig.table.list().unwrap()[0].processes.is_empty() {
            std::thread::yield_now();
        }
        rig.table.stop("inverter").unwrap();
    }
    // The name is free again.
    rig.start().unwrap();
    assert_eq!(rig.import().invert(2).unwrap().0, !2);
}

#[test]
fn what_is_no_device_is_refused() {
    let _dog = watchdog();
    let table = DriverTable::new();
    let program = || DriverProgram { program: "true".to_owned(), arguments: Vec::new() };
    for device in ["", "nonsense", "usb:1", "vfio-user:/nonexistent", "vfio-pci:ffff:ff:1f.7"] {
        let refused = table.start("none", device, 4096, program());
        assert!(matches!(refused, Err(DriverError::Device(_))), "{device}: {refused:?}");
    }
    assert_eq!(table.list().unwrap(), []);
}
