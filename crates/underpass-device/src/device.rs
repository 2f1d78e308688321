//! A device, and the ways to open one.

use crate::DeviceError;
use crate::backing::Backing;
use crate::dma::{DmaMemory, KeptMemory};
use crate::holder::held_device::{HeldDevice, HeldPart};
use crate::interrupts::dispatcher::{Dispatcher, watch_for_end};
use crate::interrupts::interrupt::Interrupt;
use crate::interrupts::vector::Vector;
use crate::iova::IovaSpace;
use crate::lock::{LockHeld, lock};
use crate::registers::Registers;
use crate::uio::{self, Uio};
use crate::vfio_pci::VfioPci;
use crate::vfio_user::client::VfioUser;
use crate::vhost_user::client::VhostUser;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use underpass_os::DeviceStream;

/// Through what a device is reached.
#[derive(Debug)]
pub struct DeviceSource {
    way: Way,
    patience: Duration,
}

#[derive(Debug)]
enum Way {
    Path(PathBuf),
    Socket(OwnedFd),
    Address(String),
    Files(Box<[OwnedFd; 3]>),
    Held(Box<HeldDevice>),
    /// The file, and what tells of all such devices.
    Uio(PathBuf, PathBuf),
    Vhost(PathBuf),
    VhostSocket(OwnedFd),
}

impl DeviceSource {
    /// For so long a device may take to answer a message, unless
    /// [`patience`](Self::patience) says otherwise.
    pub const PATIENCE: Duration = Duration::from_secs(10);

    /// A device that is another process, by vfio-user: its socket is at `path`.
    pub fn vfio_user(path: impl Into<PathBuf>) -> Self {
        Self { way: Way::Path(path.into()), patience: Self::PATIENCE }
    }

    /// The same, by a connected Unix stream that was passed to this process. A sandboxed driver,
    /// which can open nothing itself, gets its device in this way.
    pub fn vfio_user_socket(socket: impl Into<OwnedFd>) -> Self {
        Self { way: Way::Socket(socket.into()), patience: Self::PATIENCE }
    }

    /// A virtio device that is another process, by vhost-user: its socket is at `path`. It has one
    /// queue and one vector. Region 0 has the registers of a virtio device on a bus of memory
    /// (virtio 1.1, section 4.2.2), except that of its kind, which is 0.
    pub fn vhost_user(path: impl Into<PathBuf>) -> Self {
        Self { way: Way::Vhost(path.into()), patience: Self::PATIENCE }
    }

    /// The same, by a connected Unix stream that was passed to this process.
    pub fn vhost_user_socket(socket: impl Into<OwnedFd>) -> Self {
        Self { way: Way::VhostSocket(socket.into()), patience: Self::PATIENCE }
    }

    /// A PCI device that the kernel's driver `vfio-pci` holds, by its address, such as
    /// `0000:00:03.0`. It needs an IOMMU, and the right to open the group in `/dev/vfio`.
    pub fn vfio_pci(address: impl Into<String>) -> Self {
        Self { way: Way::Address(address.into()), patience: Self::PATIENCE }
    }

    /// The same, by the files of the device, of its container and of its group, which another
    /// process has opened and passed.
    pub fn vfio_pci_files(device: OwnedFd, container: OwnedFd, group: OwnedFd) -> Self {
        Self { way: Way::Files(Box::new([device, container, group])), patience: Self::PATIENCE }
    }

    /// A device that a driver of the kernel's UIO holds, such as `uio_pci_generic`: its file is at
    /// `path`, such as `/dev/uio0`. It has one vector. Region `n` is what that driver maps as
    /// number `n`, or else base address register `n`.
    ///
    /// *When to use it:* for registers and interrupts without an IOMMU. No IOMMU keeps the device
    /// from memory, so [`dma`](Device::dma) is an error.
    ///
    /// # Examples
    /// ```no_run
    /// use std::sync::Arc;
    /// use std::time::{Duration, Instant};
    /// use underpass::device::{Device, DeviceEvent, DeviceSource, InterruptOutcome};
    ///
    /// let device = Device::open(DeviceSource::uio("/dev/uio0"))?;
    /// let registers = device.map_bar(0)?;
    /// let (came, acknowledges) = (Arc::new(DeviceEvent::new()), registers.clone());
    /// let signal = Arc::clone(&came);
    /// let _enabled = device.interrupt(0)?.register(move |_| {
    ///     // Until this the device holds its line. The runtime unmasks it afterwards.
    ///     let raised = acknowledges.read::<u32>(0x24).unwrap_or(0);
    ///     let _ = acknowledges.write(0x64, raised);
    ///     signal.signal();
    ///     InterruptOutcome::Handled
    /// })?;
    /// registers.write(0x60, 1u32)?;
    /// assert!(came.wait(Instant::now() + Duration::from_secs(1))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn uio(path: impl Into<PathBuf>) -> Self {
        Self::uio_below(path, uio::ALL)
    }

    /// The same, with another place for what tells of such devices.
    pub(crate) fn uio_below(path: impl Into<PathBuf>, all: impl Into<PathBuf>) -> Self {
        Self { way: Way::Uio(path.into(), all.into()), patience: Self::PATIENCE }
    }

    /// A device that a [holder](crate::DeviceHolder) has lent to this process.
    pub fn held(device: HeldDevice) -> Self {
        Self { way: Way::Held(Box::new(device)), patience: Self::PATIENCE }
    }

    /// The way to open the same device again, if there is one.
    pub(crate) fn again(&self) -> Option<Self> {
        let way = match &self.way {
            Way::Path(path) => Way::Path(path.clone()),
            Way::Address(address) => Way::Address(address.clone()),
            _ => return None,
        };
        Some(Self { way, patience: self.patience })
    }

    /// Gives the device up if it does not answer a message in `span`.
    #[must_use]
    pub fn patience(self, span: Duration) -> Self {
        Self { patience: span, ..self }
    }

    pub(crate) fn open(self) -> Result<(Box<dyn Backing>, Option<HeldPart>), DeviceError> {
        let stream = match self.way {
            Way::Path(path) => DeviceStream::connect(&path)?,
            Way::Socket(socket) => DeviceStream::adopt(socket)?,
            Way::Address(address) => return Ok((Box::new(VfioPci::open(&address)?), None)),
            Way::Files(files) => {
                let [device, container, group] = *files;
                return Ok((Box::new(VfioPci::adopt(device, container, group)?), None));
            }
            Way::Uio(path, all) => return Ok((Box::new(Uio::open(&path, &all)?), None)),
            Way::Vhost(path) => {
                let stream = DeviceStream::connect(&path)?;
                return Ok((Box::new(VhostUser::open(stream, self.patience)?), None));
            }
            Way::VhostSocket(socket) => {
                let stream = DeviceStream::adopt(socket)?;
                return Ok((Box::new(VhostUser::open(stream, self.patience)?), None));
            }
            Way::Held(held) => {
                let (backing, part) = held.open(self.patience)?;
                return Ok((backing, Some(part)));
            }
        };
        Ok((Box::new(VfioUser::open(stream, self.patience)?), None))
    }
}

/// A device that this domain drives. Clones are the same device, which is closed with the last of
/// them, and of what was taken from it.
///
/// # Examples
/// ```
/// use underpass::device::{Device, DeviceSource};
///
/// # let (socket, _device) = underpass_test_device::start_edu()?;
/// let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
/// let registers = device.map_bar(0)?;
/// assert_eq!(registers.read::<u32>(0)? >> 16, 0x100, "the device names its kind and version");
/// assert_eq!(device.interrupts(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Device {
    inner: Arc<DeviceInner>,
}

/// | field | its writer |
/// |---|---|
/// | `gone` | the dispatcher, and threads that find it |
/// | `iovas`, `vectors`, `kept` | under their locks |
#[derive(Debug)]
pub(crate) struct DeviceInner {
    backing: Box<dyn Backing>,
    gone: AtomicBool,
    iovas: Mutex<IovaSpace>,
    vectors: Mutex<HashMap<u32, Weak<Vector>>>,
    /// Memory that the device may still access.
    kept: Mutex<Vec<KeptMemory>>,
    /// The dispatcher's watch of the device's end.
    watch: OnceLock<u64>,
    /// What its holder keeps, if it has one. Dropped last: then the holder lends it to the next.
    held: Option<HeldPart>,
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// [`System`](DeviceError::System): there is no such device, or this process may not use it.
    /// [`Late`](DeviceError::Late), [`Malformed`](DeviceError::Malformed): the device does not
    /// follow its protocol.
    pub fn open(source: DeviceSource) -> Result<Self, DeviceError> {
        let (backing, held) = source.open()?;
        let iovas = held.as_ref().map_or_else(IovaSpace::default, HeldPart::addresses);
        let inner = Arc::new(DeviceInner {
            backing,
            gone: AtomicBool::new(false),
            iovas: Mutex::new(iovas),
            vectors: Mutex::default(),
            kept: Mutex::default(),
            watch: OnceLock::new(),
            held,
        });
        if let Some(file) = inner.backing.ends_with() {
            let key = watch_for_end(file, Arc::downgrade(&inner), DeviceInner::has_gone)?;
            inner.watch.get_or_init(|| key);
        }
        Ok(Self { inner })
    }

    /// The registers of base address register `number`, 0 to 5.
    ///
    /// # Errors
    /// [`Unsupported`](DeviceError::Unsupported): the device has no such region. What the device or
    /// the system refuses.
    pub fn map_bar(&self, number: u32) -> Result<Registers, DeviceError> {
        match number {
            0..=5 => Registers::new(Arc::clone(&self.inner), number),
            _ => Err(DeviceError::Unsupported("such a base address register")),
        }
    }

    /// Zeroed memory that the device can access, of at least `len` bytes.
    ///
    /// # Errors
    /// There is no memory. What the device or the system refuses.
    /// [`Unsupported`](DeviceError::Unsupported): there is no IOMMU.
    pub fn dma(&self, len: usize) -> Result<DmaMemory, DeviceError> {
        DmaMemory::new(Arc::clone(&self.inner), len)
    }

    /// Bytes of the memory that the device's [holder](crate::DeviceHolder) keeps, if it has one.
    /// [`dma`](Self::dma) takes memory from its end.
    pub fn kept(&self) -> Option<usize> {
        self.inner.held.as_ref().map(|held| held.memory().len())
    }

    /// `len` bytes from `offset` on of the memory that the device's holder keeps, with what the
    /// last driver left there. Both are multiples of 4096.
    ///
    /// The device can write there too, so what is found there is checked before it is used.
    ///
    /// # Errors
    /// [`Unsupported`](DeviceError::Unsupported): the device has no holder, or some of the bytes
    /// are in use, or not there.
    pub fn kept_memory(&self, offset: usize, len: usize) -> Result<DmaMemory, DeviceError> {
        DmaMemory::kept(Arc::clone(&self.inner), offset, len)
    }

    /// Whether the last driver [handed](Self::hand_over) the device over, with what runs on it.
    /// Otherwise it is in the state in which it was first opened.
    pub fn was_handed_over(&self) -> bool {
        self.inner.held.as_ref().is_some_and(HeldPart::was_handed_over)
    }

    /// Tells the holder that the next driver gets the device as it is, with its queues: it is not
    /// reset. That driver gets it once this device is closed, so nothing is asked of it any more.
    ///
    /// # Errors
    /// [`Unsupported`](DeviceError::Unsupported): the device has no holder.
    /// [`Gone`](DeviceError::Gone): the holder has ended.
    pub fn hand_over(&self) -> Result<(), DeviceError> {
        match &self.inner.held {
            Some(held) => held.hand_over(),
            None => Err(DeviceError::Unsupported("holder")),
        }
    }

    /// How many vectors the device has.
    pub fn interrupts(&self) -> u32 {
        self.inner.backing.vectors()
    }

    /// Vector `number`. It is enabled when a handler is registered.
    ///
    /// # Errors
    /// [`Unsupported`](DeviceError::Unsupported): the device has no such vector.
    pub fn interrupt(&self, number: u32) -> Result<Interrupt, DeviceError> {
        if number >= self.interrupts() {
            return Err(DeviceError::Unsupported("such an interrupt vector"));
        }
        Ok(Interrupt { device: Arc::clone(&self.inner), number })
    }

    /// Puts the device into the state in which it was first opened. Memory that it could still
    /// access although its [`DmaMemory`] was dropped is freed.
    ///
    /// # Errors
    /// What the device or the system refuses.
    pub fn reset(&self) -> Result<(), DeviceError> {
        self.inner.backing.reset()?;
        lock(&self.inner.kept).clear();
        Ok(())
    }

    /// Whether the device is gone: its process has ended, or it was given up.
    pub fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }
}

impl DeviceInner {
    pub(crate) fn backing(&self) -> &dyn Backing {
        &*self.backing
    }

    pub(crate) fn held(&self) -> Option<&HeldPart> {
        self.held.as_ref()
    }

    pub(crate) fn iovas(&self) -> LockHeld<'_, IovaSpace> {
        lock(&self.iovas)
    }

    /// Keeps memory that the device may still access until the device is reset or closed.
    pub(crate) fn keep(&self, memory: KeptMemory) {
        lock(&self.kept).push(memory);
    }

    pub(crate) fn is_gone(&self) -> bool {
        // SYNC with `gone` store in `has_gone`.
        self.gone.load(Ordering::Acquire)
    }

    /// The device is gone: threads that wait for its interrupts are told.
    fn has_gone(&self) {
        // SYNC with `gone` load in `is_gone`.
        self.gone.store(true, Ordering::Release);
        let vectors: Vec<_> = lock(&self.vectors).values().filter_map(Weak::upgrade).collect();
        vectors.iter().for_each(Vector::force);
    }

    /// Notes that `vector` is enabled as number `number`.
    ///
    /// # Errors
    /// Another one is.
    pub(crate) fn claim(&self, number: u32, vector: &Arc<Vector>) -> Result<(), DeviceError> {
        let mut vectors = lock(&self.vectors);
        if vectors.get(&number).and_then(Weak::upgrade).is_some() {
            return Err(DeviceError::Unsupported("second handler for this vector"));
        }
        vectors.insert(number, Arc::downgrade(vector));
        Ok(())
    }

    /// Notes that `vector` is not enabled any more. Returns whether it was.
    pub(crate) fn release(&self, number: u32, vector: &Arc<Vector>) -> bool {
        let mut vectors = lock(&self.vectors);
        let own = vectors.get(&number).is_some_and(|own| std::ptr::eq(own.as_ptr(), Arc::as_ptr(vector)));
        if own {
            vectors.remove(&number);
        }
        own
    }
}

impl Drop for DeviceInner {
    fn drop(&mut self) {
        if let (Some(&key), Some(file), Ok(dispatcher)) =
            (self.watch.get(), self.backing.ends_with(), Dispatcher::get())
        {
            dispatcher.remove(key, file);
        }
        self.backing.close();
    }
}
