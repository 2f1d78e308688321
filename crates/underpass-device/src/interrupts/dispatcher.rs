//! The first level of dispatch: one kernel thread of the domain knows all sources of events,
//! handles some itself, and brings the others to the domain's activations (Raven, section 4.3).

use crate::DeviceError;
use crate::interrupts::gate::NextStep;
use crate::interrupts::vector::Vector;
use crate::lock::lock;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use underpass_os::clock::now_ns;
use underpass_os::{Alarm, Poller, Ready};

/// For so long, in ns, an upcall waits for the activation that it was brought to. Then any other
/// may run it. This is several times what a wake-up costs.
const PATIENCE: u64 = 200_000;

/// The alarm's key. Sources have smaller ones.
const ALARM: u64 = u64::MAX - 1;

/// One source of events.
pub(crate) enum DispatchSource {
    /// A vector of a device: its handler is the domain's.
    Vector(Arc<Vector>),
    /// The runtime handles it itself, here. It is watched once.
    Runtime(Box<dyn Fn() + Send + Sync>),
}

/// What is to be done at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Look whether the upcall of this number has begun.
    Begun(u64),
    /// End the masking of a storm.
    Calm,
}

/// What is to be done, and when.
///
/// The alarm goes off no later than the first of them is due. It is not set anew for each: a
/// timeout of the poller would be, and would delay the upcall that was brought just before.
#[derive(Default)]
struct TimerQueue {
    queue: BinaryHeap<Reverse<(u64, u64, Timer)>>,
    /// When the alarm goes off.
    alarm: Option<u64>,
}

/// The table of all sources. Its kernel thread starts with the first one.
///
/// | field | its writer |
/// |---|---|
/// | `sources` | whoever adds or removes a source; only the kernel thread looks them up |
/// | `timers` | the kernel thread, and activations that bring an upcall or find a storm |
/// | `alarm` | threads that change the timers, under their lock |
pub(crate) struct Dispatcher {
    poller: Poller,
    alarm: Alarm,
    sources: Mutex<HashMap<u64, Arc<DispatchSource>>>,
    timers: Mutex<TimerQueue>,
    next: AtomicU64,
}

static DISPATCHER: OnceLock<Dispatcher> = OnceLock::new();

impl Dispatcher {
    /// This domain's dispatcher. Starts it if that was not done yet.
    pub(crate) fn get() -> Result<&'static Self, DeviceError> {
        static STARTING: Mutex<()> = Mutex::new(());
        if let Some(dispatcher) = DISPATCHER.get() {
            return Ok(dispatcher);
        }
        let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if DISPATCHER.get().is_none() {
            let (poller, alarm) = (Poller::new()?, Alarm::new()?);
            poller.add(&alarm, ALARM)?;
            std::thread::Builder::new()
                .name("underpass-interrupts".to_owned())
                .spawn(|| DISPATCHER.wait().run())
                .map_err(DeviceError::System)?;
            DISPATCHER.get_or_init(|| Self {
                poller,
                alarm,
                sources: Mutex::default(),
                timers: Mutex::default(),
                next: AtomicU64::new(0),
            });
        }
        Ok(DISPATCHER.wait())
    }

    /// A key for a source.
    pub(crate) fn key(&self) -> u64 {
        // Relaxed: it only has to be unique.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a source, which nothing reports yet.
    pub(crate) fn add(&self, key: u64, file: impl AsFd, source: DispatchSource) -> Result<(), DeviceError> {
        lock(&self.sources).insert(key, Arc::new(source));
        self.poller.add_quietly(file, key).map_err(|e| {
            lock(&self.sources).remove(&key);
            DeviceError::System(e)
        })
    }

    /// Reports the source once, as soon as its file has something to read.
    pub(crate) fn arm(&self, key: u64, file: impl AsFd) {
        self.poller.listen_once(file, key);
    }

    /// Removes a source. It may be reported once more at this moment.
    pub(crate) fn remove(&self, key: u64, file: impl AsFd) {
        self.poller.remove(file);
        let removed = lock(&self.sources).remove(&key);
        // Outside of the lock, since this may end what the source refers to.
        drop(removed);
    }

    /// Masks a vector for `span` ns.
    pub(crate) fn calm_after(&self, key: u64, span: u64) {
        self.at(now_ns() + span, key, Timer::Calm);
    }

    /// Has an activation run the upcall of `vector`.
    pub(crate) fn bring(&self, vector: &Arc<Vector>) {
        let number = vector.posted();
        let upcall = Arc::clone(vector);
        underpass_threads::inject(vector.home(), move || upcall.upcall());
        self.at(now_ns() + PATIENCE, vector.key(), Timer::Begun(number));
    }

    fn at(&self, when: u64, key: u64, timer: Timer) {
        let mut timers = lock(&self.timers);
        timers.queue.push(Reverse((when, key, timer)));
        if timers.alarm.is_none_or(|set| when < set) {
            timers.alarm = Some(when);
            self.alarm.set(when);
        }
    }

    fn run(&self) {
        loop {
            match self.poller.wait(None) {
                Ok(ready) => ready.into_iter().for_each(|ready| match ready {
                    Ready::Bell => {}
                    Ready::File(ALARM) => self.fire(),
                    Ready::File(key) => self.dispatch(key),
                }),
                // The kernel is out of memory. Either that passes, or the process does not live
                // long.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn source(&self, key: u64) -> Option<Arc<DispatchSource>> {
        lock(&self.sources).get(&key).cloned()
    }

    /// D2, D3.
    fn dispatch(&self, key: u64) {
        match self.source(key).as_deref() {
            Some(DispatchSource::Vector(vector)) if vector.take() => self.bring(vector),
            Some(DispatchSource::Runtime(handler)) => handler(),
            _ => {}
        }
    }

    /// Does what is due, and sets the alarm for the rest.
    fn fire(&self) {
        self.alarm.has_gone_off();
        let now = now_ns();
        while let Some(first) = self.first() {
            let (when, key, timer) = first;
            let source = self.source(key);
            let vector = match source.as_deref() {
                Some(DispatchSource::Vector(vector)) => Some(vector),
                _ => None,
            };
            let vector = vector.filter(|vector| match timer {
                // Most upcalls have begun long before.
                Timer::Begun(number) => vector.waits(number),
                Timer::Calm => true,
            });
            if when > now && vector.is_some() {
                break;
            }
            if !self.take_first(first) {
                // An earlier one has come meanwhile.
                continue;
            }
            match (vector, timer) {
                (Some(vector), Timer::Begun(_)) => {
                    let upcall = Arc::clone(vector);
                    underpass_threads::inject_anywhere(move || upcall.upcall());
                }
                (Some(vector), Timer::Calm) => vector.calm(),
                (None, _) => {}
            }
        }
        let mut timers = lock(&self.timers);
        timers.alarm = timers.queue.peek().map(|Reverse((when, ..))| *when);
        timers.alarm.inspect(|&when| self.alarm.set(when));
    }

    fn first(&self) -> Option<(u64, u64, Timer)> {
        lock(&self.timers).queue.peek().map(|Reverse(first)| *first)
    }

    /// Removes `first`, if it is still the first.
    fn take_first(&self, first: (u64, u64, Timer)) -> bool {
        let mut timers = lock(&self.timers);
        let same = timers.queue.peek() == Some(&Reverse(first));
        if same {
            timers.queue.pop();
        }
        same
    }
}

/// Does what a change of the gate of `vector` obliges to.
pub(crate) fn act(vector: &Arc<Vector>, next: NextStep) {
    // A vector exists only once the dispatcher does.
    let Some(dispatcher) = DISPATCHER.get() else { return };
    match next {
        NextStep::Nothing => {}
        NextStep::Arm => {
            vector.events().unmask();
            dispatcher.arm(vector.key(), vector.events());
        }
        NextStep::Post => dispatcher.bring(vector),
    }
}

/// Watches `file`, and calls `then` once when the peer is gone. Returns the key, for
/// [`Dispatcher::remove`].
pub(crate) fn watch_for_end<T: Send + Sync + 'static>(
    file: impl AsFd,
    of: Weak<T>,
    then: fn(&T),
) -> Result<u64, DeviceError> {
    let dispatcher = Dispatcher::get()?;
    let key = dispatcher.key();
    // Not armed: a file that is watched quietly still reports that its peer is gone.
    let handler = Box::new(move || {
        if let Some(of) = of.upgrade() {
            then(&of);
        }
    });
    dispatcher.add(key, file, DispatchSource::Runtime(handler))?;
    Ok(key)
}
