//! A directory and a pipe that look like a device of UIO, since few machines have one. The guest
//! drives a real one.

use crate::{
    Device, DeviceError, DeviceEvent, DeviceHolder, DeviceSource, DeviceUpcall, InterruptAffinity,
    InterruptOutcome,
};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use underpass_os::Fifo;

/// Where the command register of a PCI device is, and what masks its interrupt.
const COMMAND: u64 = 4;
const MASKED: u16 = 1 << 10;

/// The files of one device.
struct Pretended {
    root: PathBuf,
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(120)
}

impl Pretended {
    /// A device of the kernel's driver `driver`.
    fn new(name: &str, driver: &str) -> Self {
        let root = std::env::temp_dir().join(format!("underpass-uio-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let device = Self { root };
        fs::create_dir_all(device.place("device")).unwrap();
        device.tell("name", format!("{driver}\n"));
        device.tell("event", "3\n");
        device
    }

    /// One of `uio_pci_generic`, with registers in region 0 and ports in region 1.
    fn pci(name: &str) -> Self {
        let device = Self::new(name, "uio_pci_generic");
        Fifo::own(&device.file()).unwrap();
        device.tell("device/config", [0; 64]);
        device.tell("device/resource0", [0; 4096]);
        device.tell(
            "device/resource",
            "0x00000000febd0000 0x00000000febd0fff 0x0000000000040200\n\
             0x000000000000c000 0x000000000000c01f 0x0000000000040101\n\
             0x0000000000000000 0x0000000000000000 0x0000000000000000\n",
        );
        device
    }

    fn file(&self) -> PathBuf {
        self.root.join("uio0")
    }

    fn place(&self, what: &str) -> PathBuf {
        self.root.join("class/uio0").join(what)
    }

    fn tell(&self, what: &str, told: impl AsRef<[u8]>) {
        let place = self.place(what);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, told).unwrap();
    }

    fn source(&self) -> DeviceSource {
        DeviceSource::uio_below(self.file(), self.root.join("class"))
    }

    fn configuration(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.place("device/config")).unwrap()
    }

    fn is_masked(&self) -> bool {
        masked(&self.configuration())
    }

    /// What the kernel does at the interrupt that makes the count `count`.
    fn interrupt(&self, count: u32) {
        let configuration = self.configuration();
        assert!(!masked(&configuration), "otherwise the device can't interrupt");
        configuration.write_all_at(&MASKED.to_le_bytes(), COMMAND).unwrap();
        OpenOptions::new().write(true).open(self.file()).unwrap().write_all(&count.to_ne_bytes()).unwrap();
    }

    fn until_unmasked(&self) {
        let late = far();
        while self.is_masked() {
            assert!(Instant::now() < late, "the interrupt is unmasked");
            underpass_threads::yield_now();
            std::thread::yield_now();
        }
    }
}

impl Drop for Pretended {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn masked(configuration: &File) -> bool {
    let mut command = [0; 2];
    configuration.read_exact_at(&mut command, COMMAND).unwrap();
    u16::from_le_bytes(command) & MASKED != 0
}

#[test]
fn an_interrupt_is_masked_until_its_handler_has_run() {
    let pretended = Pretended::pci("unmasked");
    let device = Device::open(pretended.source()).unwrap();
    assert_eq!(device.interrupts(), 1);
    assert!(pretended.is_masked(), "nobody wants interrupts yet");
    let (came, was_masked) = (Arc::new(DeviceEvent::new()), Arc::new(AtomicBool::new(true)));
    let (signal, all, configuration) = (came.clone(), was_masked.clone(), pretended.configuration());
    let handler = move |_: &DeviceUpcall<'_>| {
        all.fetch_and(masked(&configuration), Ordering::Relaxed);
        signal.signal();
        InterruptOutcome::Handled
    };
    let enabled = device.interrupt(0).unwrap().register(handler).unwrap();
    // Three came before this driver.
    for count in 4..=103 {
        pretended.until_unmasked();
        pretended.interrupt(count);
        assert!(came.wait(far()).unwrap(), "the handler has run");
    }
    pretended.until_unmasked();
    assert!(was_masked.load(Ordering::Relaxed), "it is masked while the handler runs");
    let counts = enabled.counts();
    assert_eq!((counts.interrupts, counts.upcalls, counts.spurious), (100, 100, 0));
    let second = device.interrupt(0).unwrap().register(|_| InterruptOutcome::Handled);
    assert!(matches!(second, Err(DeviceError::Unsupported(_))), "{second:?}");
    pretended.interrupt(104);
    assert!(came.wait(far()).unwrap(), "the first one goes on");
    // Otherwise the end of the upcall may unmask it after the drop has masked it.
    pretended.until_unmasked();
    drop(enabled);
    assert!(pretended.is_masked(), "nobody wants interrupts any more");
}

#[test]
fn a_thread_that_waits_unmasks_the_interrupt() {
    let pretended = Pretended::pci("waits");
    let device = Device::open(pretended.source()).unwrap();
    let ready = Arc::new(AtomicBool::new(false));
    let enabled = device.interrupt(0).unwrap().register_for_waiters(|upcall| {
        upcall.wake_all();
        InterruptOutcome::Handled
    });
    let enabled = enabled.unwrap();
    assert!(pretended.is_masked(), "no thread waits");
    let looks = ready.clone();
    let waiting = underpass_threads::spawn(move || {
        let event = Arc::new(DeviceEvent::new());
        let waited = enabled
            .wait(&event, far(), || looks.load(Ordering::Acquire).then_some(()))
            .map(|()| enabled.counts());
        (waited, enabled)
    });
    pretended.until_unmasked();
    ready.store(true, Ordering::Release);
    pretended.interrupt(4);
    let (counts, _enabled) = waiting.join().unwrap();
    assert_eq!(counts.unwrap().blocked, 1);
}

#[test]
fn the_runtime_handles_such_an_interrupt_too() {
    let pretended = Pretended::pci("runtime");
    let device = Device::open(pretended.source()).unwrap();
    let (send, came) = std::sync::mpsc::channel();
    let handled = device.interrupt(0).unwrap().handle_in_dispatcher(move |count| send.send(count).unwrap());
    for count in [4, 6] {
        pretended.until_unmasked();
        pretended.interrupt(count);
    }
    let wait = || came.recv_timeout(Duration::from_secs(120)).unwrap();
    assert_eq!((wait(), wait()), (1, 2));
    pretended.until_unmasked();
    drop(handled.unwrap());
    assert!(pretended.is_masked());
}

#[test]
fn registers_of_a_pci_device_are_its_memory() {
    let pretended = Pretended::pci("memory");
    let device = Device::open(pretended.source()).unwrap();
    let registers = device.map_bar(0).unwrap();
    assert_eq!((registers.size(), registers.is_mapped(0, 4096)), (4096, true));
    registers.write(0x20, 0x1234_5678u32).unwrap();
    assert_eq!(fs::read(pretended.place("device/resource0")).unwrap()[0x20..0x24], [0x78, 0x56, 0x34, 0x12]);
    for other in [1, 2, 3] {
        let none = device.map_bar(other);
        assert!(matches!(none, Err(DeviceError::Unsupported(_))), "{other}: {none:?}");
    }
}

#[test]
fn registers_are_those_that_a_driver_of_the_kernel_names() {
    let pretended = Pretended::new("named", "another driver");
    fs::write(pretended.file(), [7; 8192]).unwrap();
    pretended.tell("maps/map1/size", "0x80\n");
    pretended.tell("maps/map1/offset", "0x100\n");
    let device = Device::open(pretended.source()).unwrap();
    let registers = device.map_bar(1).unwrap();
    assert_eq!((registers.size(), registers.read::<u8>(0x7f).unwrap()), (0x80, 7));
    registers.write(0, 1u8).unwrap();
    assert_eq!(fs::read(pretended.file()).unwrap()[4096 + 0x100], 1);
    assert!(matches!(registers.read::<u8>(0x80), Err(DeviceError::OutOfBounds { .. })));
    assert!(matches!(device.map_bar(0), Err(DeviceError::Unsupported(_))));
    for size in ["0xffffffffffffffff", "0xfffffffffffff000", "many", ""] {
        pretended.tell("maps/map1/size", size);
        let wrong = device.map_bar(1);
        assert!(matches!(wrong, Err(DeviceError::System(_))), "{size}: {wrong:?}");
    }
}

#[test]
fn memory_without_an_iommu_is_refused() {
    let pretended = Pretended::pci("dma");
    let device = Device::open(pretended.source()).unwrap();
    let refused = device.dma(4096).unwrap_err().to_string();
    assert!(refused.contains("IOMMU") && refused.contains("vfio-pci"), "{refused}");
    let held = DeviceHolder::open(pretended.source(), 4096);
    assert!(matches!(held, Err(DeviceError::Unsupported(_))), "{held:?}");
}

#[test]
fn what_such_a_device_lacks_is_an_error() {
    let pretended = Pretended::pci("lacks");
    let device = Device::open(pretended.source()).unwrap();
    let counter = device.interrupt(0).unwrap().into_counter();
    assert!(matches!(counter, Err(DeviceError::Unsupported(_))), "{counter:?}");
    assert!(matches!(device.interrupt(1), Err(DeviceError::Unsupported(_))));
    assert!(matches!(device.reset(), Err(DeviceError::Unsupported("reset"))));
    pretended.tell("device/reset", "");
    device.reset().unwrap();
    assert_eq!(fs::read(pretended.place("device/reset")).unwrap(), b"1");
    let enabled = device.interrupt(0).unwrap().register(|_| InterruptOutcome::Handled).unwrap();
    let moved = enabled.bring_together(InterruptAffinity::InterruptFollows);
    assert!(moved.is_err(), "the machine has no such interrupt");
}
