//! A vector as its driver sees it: a handler is registered, which enables the vector. A thread may
//! wait for it, by polling first.

use crate::DeviceError;
use crate::device::DeviceInner;
use crate::interrupts::affinity::InterruptAffinity;
use crate::interrupts::dispatcher::{DispatchSource, Dispatcher, act};
use crate::interrupts::event::DeviceEvent;
use crate::interrupts::vector::{DeviceUpcall, InterruptCounts, InterruptOutcome, Vector};
use crate::interrupts::waiting::{SharedMode, WaitingMode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use underpass_processor::{AdaptiveSpin, Spin};

/// A vector that is not enabled. It is from [`Device::interrupt`](crate::Device::interrupt).
///
/// Registering a handler enables the vector (Raven, section 4.4).
#[derive(Debug)]
#[must_use = "the vector is enabled when a handler is registered"]
pub struct Interrupt {
    pub(crate) device: Arc<DeviceInner>,
    pub(crate) number: u32,
}

impl Interrupt {
    /// The number of the vector.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Enables the vector, with a handler that wants every interrupt.
    ///
    /// The handler runs on the activation of the thread that waited for the vector last, or
    /// registered it. It runs between two threads, with preemption off. So it has the registers for
    /// itself, if no other activation uses them. A thread of that activation that computes, or that
    /// holds preemption off, delays the handler until it waits, yields or comes to a `checkpoint`,
    /// or until another activation has a processor for it.
    ///
    /// The handler should be short: it records what happened, and signals a
    /// [`DeviceEvent`], a semaphore or a thread. It may read and write DMA memory and mapped
    /// registers, and write others. If it waits, the process ends with a message (`abort`): other
    /// threads of its activation, for which it would wait, could not run. If it panics, the vector
    /// is off from then on.
    ///
    /// # Errors
    /// [`Unsupported`](DeviceError::Unsupported): the device has no such vector. What the device or
    /// the system refuses.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::time::{Duration, Instant};
    /// use underpass::device::{Device, DeviceEvent, DeviceSource, InterruptOutcome};
    ///
    /// # let (socket, _device) = underpass_test_device::start_edu()?;
    /// let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
    /// let registers = device.map_bar(0)?;
    /// let came = Arc::new(DeviceEvent::new());
    /// let signal = Arc::clone(&came);
    /// let enabled = device.interrupt(0)?.register(move |_| {
    ///     signal.signal();
    ///     InterruptOutcome::Handled
    /// })?;
    /// // This register of the device raises an interrupt.
    /// registers.write(0x60, 1u32)?;
    /// assert!(came.wait(Instant::now() + Duration::from_secs(60))?);
    /// assert_eq!(enabled.counts().upcalls, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn register(
        self,
        handler: impl Fn(&DeviceUpcall<'_>) -> InterruptOutcome + Send + Sync + 'static,
    ) -> Result<EnabledInterrupt, DeviceError> {
        self.enable(true, Box::new(handler))
    }

    /// Enables the vector as [`register`](Self::register) does, for a handler that is needed only
    /// while a thread [waits](EnabledInterrupt::wait). Otherwise the vector is masked, so that a
    /// driver which polls is not disturbed.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_for_waiters(
        self,
        handler: impl Fn(&DeviceUpcall<'_>) -> InterruptOutcome + Send + Sync + 'static,
    ) -> Result<EnabledInterrupt, DeviceError> {
        self.enable(false, Box::new(handler))
    }

    fn enable(
        self,
        always: bool,
        handler: Box<dyn Fn(&DeviceUpcall<'_>) -> InterruptOutcome + Send + Sync>,
    ) -> Result<EnabledInterrupt, DeviceError> {
        let dispatcher = Dispatcher::get()?;
        let counter = self.device.backing().counter(self.number)?;
        let vector = Arc::new(Vector::new(dispatcher.key(), counter, always, handler));
        self.device.claim(self.number, &vector)?;
        let source = DispatchSource::Vector(Arc::clone(&vector));
        dispatcher.add(vector.key(), vector.events(), source).inspect_err(|_| {
            self.device.release(self.number, &vector);
        })?;
        // From here on the drop of it takes all back.
        let enabled = EnabledInterrupt {
            device: self.device,
            number: self.number,
            vector,
            mode: SharedMode::default(),
        };
        if let Some(events) = enabled.vector.events().to_signal() {
            enabled.device.backing().set_interrupt(self.number, Some(events))?;
        }
        act(&enabled.vector, enabled.vector.gate().open());
        Ok(enabled)
    }
}

/// A vector that is enabled, as long as this lives. Afterwards its handler does not run any more.
#[derive(Debug)]
pub struct EnabledInterrupt {
    device: Arc<DeviceInner>,
    number: u32,
    vector: Arc<Vector>,
    mode: SharedMode,
}

impl EnabledInterrupt {
    /// Waits until `look` finds something. It polls for about as long as a wake-up costs. Then it
    /// unmasks the vector, looks once more, and suspends the calling thread. The handler signals
    /// `event` when there may be something to find.
    ///
    /// Polling gives way to other threads that are ready. Spin-then-park pays at most twice what it
    /// would with knowledge of when the interrupt comes.
    ///
    /// # Errors
    /// [`Late`](DeviceError::Late) after `deadline`. [`Gone`](DeviceError::Gone) if the device is.
    /// [`HandlerPanicked`](DeviceError::HandlerPanicked). [`Cancelled`](DeviceError::Cancelled).
    /// [`InHandler`](DeviceError::InHandler), in a handler.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use std::time::{Duration, Instant};
    /// use underpass::device::{Device, DeviceEvent, DeviceSource, InterruptOutcome};
    ///
    /// # let (socket, _device) = underpass_test_device::start_edu()?;
    /// let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
    /// let registers = device.map_bar(0)?;
    /// let enabled = device.interrupt(0)?.register_for_waiters(|upcall| {
    ///     upcall.wake_all();
    ///     InterruptOutcome::Handled
    /// })?;
    /// // The device computes 10!, and raises an interrupt when it is ready.
    /// registers.write(0x20, 0x80u32)?;
    /// registers.write(0x08, 10u32)?;
    /// let ready = || (registers.read::<u32>(0x20).ok()? & 1 == 0).then_some(());
    /// enabled.wait(&Arc::new(DeviceEvent::new()), Instant::now() + Duration::from_secs(60), ready)?;
    /// assert_eq!(registers.read::<u32>(0x08)?, 3_628_800);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait<T>(
        &self,
        event: &Arc<DeviceEvent>,
        deadline: Instant,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, DeviceError> {
        if underpass_threads::in_injected_task() {
            return Err(DeviceError::InHandler("wait for an interrupt"));
        }
        let mode = self.mode.get();
        if mode == WaitingMode::Polling {
            return self.poll_on(deadline, look);
        }
        if mode == WaitingMode::Adaptive
            && let Some(found) = self.poll(&mut look)
        {
            self.vector.waited(false);
            return Ok(found);
        }
        self.vector.waited(true);
        self.vector.affinity().waits_here();
        self.vector.settle_here();
        let _wants = Wants::new(&self.vector, event);
        let mut polls = StormPolls(FIRST_PAUSE);
        loop {
            // W2.
            if let Some(found) = self.look_once(&mut look)? {
                return Ok(found);
            }
            if self.vector.has_panicked() {
                return Err(DeviceError::HandlerPanicked);
            }
            // W3.
            let until = if self.is_stormy() { polls.next_look().min(deadline) } else { deadline };
            if !event.wait(until)? && Instant::now() >= deadline {
                return look().ok_or(DeviceError::Late("wait for an interrupt"));
            }
        }
    }

    /// Looks once. `Gone` if nothing is there and the device had ended before.
    fn look_once<T>(&self, look: &mut impl FnMut() -> Option<T>) -> Result<Option<T>, DeviceError> {
        // The state of the device comes first: what it did before it ended is seen.
        let gone = self.device.is_gone();
        match look() {
            None if gone => Err(DeviceError::Gone),
            found => Ok(found),
        }
    }

    /// Looks until there is something, and gives way to other threads meanwhile.
    fn poll_on<T>(&self, deadline: Instant, mut look: impl FnMut() -> Option<T>) -> Result<T, DeviceError> {
        self.vector.waited(false);
        loop {
            if let Some(found) = self.look_once(&mut look)? {
                return Ok(found);
            }
            if underpass_threads::cancelled() {
                return Err(DeviceError::Cancelled);
            }
            if Instant::now() >= deadline {
                return Err(DeviceError::Late("wait for an interrupt"));
            }
            underpass_threads::yield_now();
        }
    }

    /// Later waits are in this mode.
    pub fn wait_by(&self, mode: WaitingMode) {
        self.mode.set(mode);
    }

    /// Looks for about as long as a wake-up costs.
    fn poll<T>(&self, look: &mut impl FnMut() -> Option<T>) -> Option<T> {
        let adaptive = AdaptiveSpin::new();
        let mut spin = Spin::new(&adaptive);
        loop {
            if let Some(found) = look() {
                return Some(found);
            }
            if !spin.again(false, || false) {
                return None;
            }
            underpass_threads::checkpoint();
        }
    }

    /// Upcalls go to the activation of the calling thread from now on. A wait does this by itself.
    pub fn follow(&self) {
        self.vector.settle_here();
    }

    /// Brings the hardware's interrupt and the threads that wait for it to one CPU, from now on
    /// (Raven, section 4.1). `counts` says how often that was done, and how many handlers ran on
    /// the CPU that was interrupted.
    ///
    /// # Errors
    /// [`System`](DeviceError::System): this process may not, or the kernel does not know the
    /// interrupt. [`Unsupported`](DeviceError::Unsupported): no hardware of this machine
    /// interrupts. In either case everything goes on, and nothing is moved.
    ///
    /// # Examples
    /// ```
    /// use underpass::device::{Device, DeviceSource, InterruptAffinity, InterruptOutcome};
    ///
    /// # let (socket, _device) = underpass_test_device::start_edu()?;
    /// let device = Device::open(DeviceSource::vfio_user_socket(socket))?;
    /// let enabled = device.interrupt(0)?.register(|_| InterruptOutcome::Handled)?;
    /// if let Err(e) = enabled.bring_together(InterruptAffinity::InterruptFollows) {
    ///     eprintln!("the interrupt stays on its CPU: {e}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bring_together(&self, how: InterruptAffinity) -> Result<(), DeviceError> {
        self.vector.affinity().choose(how, self.device.backing().address(), self.number)
    }

    /// How many interrupts of this vector have come to each CPU, as the kernel says.
    ///
    /// # Errors
    /// Nothing was [brought together](Self::bring_together), or the kernel does not say it.
    pub fn cpu_counts(&self) -> Result<Vec<u64>, DeviceError> {
        self.vector.affinity().counts()
    }

    /// What has become of its interrupts.
    pub fn counts(&self) -> InterruptCounts {
        self.vector.counts()
    }

    /// Whether a storm masks it at this moment. Threads that wait poll as long as it lasts.
    pub fn is_stormy(&self) -> bool {
        self.vector.gate().is_stormy()
    }
}

/// How long a thread that polls during a storm pauses at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The looks of a thread that polls during a storm.
struct StormPolls(Duration);

impl StormPolls {
    fn next_look(&mut self) -> Instant {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST_PAUSE);
        Instant::now() + pause
    }
}

/// A thread that wants interrupts.
struct Wants<'a> {
    vector: &'a Arc<Vector>,
    event: &'a Arc<DeviceEvent>,
}

impl<'a> Wants<'a> {
    /// W1.
    fn new(vector: &'a Arc<Vector>, event: &'a Arc<DeviceEvent>) -> Self {
        vector.enlist(event);
        act(vector, vector.gate().want());
        Self { vector, event }
    }
}

impl Drop for Wants<'_> {
    /// W4.
    fn drop(&mut self) {
        self.vector.gate().unwant();
        self.vector.strike(self.event);
    }
}

impl Drop for EnabledInterrupt {
    fn drop(&mut self) {
        let running = self.vector.gate().close();
        if let Ok(dispatcher) = Dispatcher::get() {
            dispatcher.remove(self.vector.key(), self.vector.events());
        }
        if self.device.release(self.number, &self.vector) {
            // If the device is gone or broken, it signals an event counter that nobody watches.
            let _ = self.device.backing().set_interrupt(self.number, None);
        }
        // A handler that drops its own registration runs itself.
        while running && self.vector.gate().is_running() && !underpass_threads::in_injected_task() {
            underpass_threads::yield_now();
        }
    }
}
