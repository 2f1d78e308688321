//! Raven's table of interrupts (section 5.2): how long from the device's signal to the handler.

use crate::devices::ticker::{self, DELAY, DONE, ORDER, RAISED, SILENT, VECTOR};
use crate::devices::{APPEAR, open};
use crate::measure::contest::{Contest, Subject};
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::processes::helper::{Does, Helper, HelperTask};
use crate::{BenchError, Figures, Summary};
use std::fs::File;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use underpass::device::{Device, DeviceEvent, EnabledInterrupt, InterruptOutcome, Registers};
use underpass::thread;
use underpass_os::clock::now_ns;

/// The bar for an interrupt, relative to a blocked read and a thread switch.
const BAR: f64 = 1.15;
/// The bar while polling, relative to two cache lines.
const POLLING_BAR: f64 = 2.0;
/// The device waits that long before it signals, so that a thread that sleeps is asleep.
const PAUSE: u64 = 40_000;

/// Raven's section 5.2: a handler in the supervisor kernel, and one of a user task that is active
/// on the processor. Its text has no figure for a task that has to be switched in.
const PAPER_RUNTIME_NS: f64 = 7_210.0;
const PAPER_RUNNING_NS: f64 = 14_000.0;

/// The cases, for the progress.
const PARTS: usize = 5;

/// The vectors of the ways.
const RUNTIME: u32 = 0;
const HANDLER: u32 = 1;
const BARE: u32 = 2;

/// What the handlers note: when they began, and how many have.
#[derive(Debug, Default)]
struct Noted {
    at: AtomicU64,
    count: AtomicU64,
}

impl Noted {
    fn note(&self) {
        self.at.store(now_ns(), Ordering::Relaxed);
        // SYNC with `count` load in `count`: the time above.
        self.count.fetch_add(1, Ordering::Release);
    }

    fn count(&self) -> u64 {
        // SYNC with `count` add in `note`: the time before it.
        self.count.load(Ordering::Acquire)
    }
}

/// One way for an interrupt: `wait` returns after its handler was called.
struct Way<'a> {
    name: &'static str,
    registers: &'a Registers,
    vector: u64,
    order: &'a AtomicU64,
    noted: Arc<Noted>,
    wait: Box<dyn FnMut(u64) -> Result<(), BenchError> + Send + 'a>,
}

impl Way<'_> {
    /// Has the device signal once. Returns the ns until the handler began.
    fn once(&mut self) -> Result<u64, BenchError> {
        let before = self.noted.count();
        self.registers.write(VECTOR, self.vector)?;
        self.registers.write(DELAY, PAUSE)?;
        let order = self.order.fetch_add(1, Ordering::Relaxed) + 1;
        self.registers.write(ORDER, order)?;
        (self.wait)(before)?;
        // The device has noted the time before it signalled.
        let raised = self.registers.read::<u64>(RAISED)?;
        let took = self.noted.at.load(Ordering::Relaxed).saturating_sub(raised);
        while self.registers.read::<u64>(DONE)? != order {
            std::hint::spin_loop();
        }
        Ok(took)
    }
}

impl Subject for Way<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        self.once()?;
        (0..operations).map(|_| self.once()).sum()
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        self.once()?;
        for _ in 0..operations.min(200) {
            samples.push(self.once()? as f64);
        }
        Ok(())
    }
}

/// A kernel thread that blocks in a read of the counter, and notes when it returns.
fn blocked_reader(device: &Device, noted: &Arc<Noted>) -> Result<(), BenchError> {
    let counter = UnixStream::from(device.interrupt(BARE)?.into_counter()?);
    // The option is the file's, whatever the file is.
    counter.set_nonblocking(false)?;
    let mut counter = File::from(std::os::fd::OwnedFd::from(counter));
    let (noted, measuring) = (Arc::clone(noted), std::thread::current());
    std::thread::Builder::new().name("reader".into()).spawn(move || {
        while counter.read_exact(&mut [0; 8]).is_ok() {
            noted.note();
            measuring.unpark();
        }
    })?;
    Ok(())
}

/// What a handler has to signal, beside the time.
fn handler(
    device: &Device,
    noted: &Arc<Noted>,
    event: &Arc<DeviceEvent>,
) -> Result<EnabledInterrupt, BenchError> {
    let (noted, event) = (Arc::clone(noted), Arc::clone(event));
    Ok(device.interrupt(HANDLER)?.register(move |_| {
        noted.note();
        event.signal();
        InterruptOutcome::Handled
    })?)
}

/// Runs a way, or a switch, in a user-level thread.
struct InThread<S>(S);

impl<S: Subject + Send> Subject for InThread<S> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        in_thread(|| self.0.batch(operations))
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        in_thread(|| self.0.single(operations, samples))
    }
}

fn in_thread<T: Send>(body: impl FnOnce() -> Result<T, BenchError> + Send) -> Result<T, BenchError> {
    thread::scope(|scope| scope.spawn(body).join()).map_err(|_| "a measuring thread has panicked")?
}

/// A switch between two user-level threads. Two of them give way to each other.
struct Switches;

impl Subject for Switches {
    fn name(&self) -> &str {
        "switch"
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let give_way = || (0..operations).for_each(|_| thread::yield_now());
        let start = now_ns();
        thread::scope(|scope| {
            scope.spawn(give_way);
            scope.spawn(give_way);
        });
        // Each of the two has given way so often.
        Ok((now_ns() - start) / 2)
    }

    fn single(&mut self, operations: u64, samples: &mut Vec<f64>) -> Result<(), BenchError> {
        samples.push(self.batch(operations)? as f64 / operations as f64);
        Ok(())
    }
}

/// The figures of subject 1 beside those of subject 0 and a switch, which is subject 2.
fn judged(contest: &Contest) -> Figures {
    let rounds = |subject: usize| &contest.measured[subject].rounds;
    let beside = rounds(0).iter().zip(rounds(2)).map(|(bare, switch)| bare + switch);
    let ratio = Summary::of(rounds(1).iter().zip(beside).map(|(own, beside)| own / beside)).median();
    Figures::of(contest, 1, 0)
        .with("switch_ns", contest.measured[2].slices().median())
        .with("with_switch_ratio", ratio)
        .judged("bar", BAR, ratio <= BAR)
}

/// A busy wait of a kernel thread.
fn spin(noted: &Noted, before: u64) {
    while noted.count() == before {
        std::hint::spin_loop();
    }
}

/// What all ways share.
struct Setting<'a> {
    client: &'a ScenarioClient,
    registers: &'a Registers,
    order: &'a AtomicU64,
    /// What the blocked reader notes.
    reader: &'a Arc<Noted>,
}

impl<'a> Setting<'a> {
    fn way(
        &self,
        name: &'static str,
        vector: u32,
        noted: &Arc<Noted>,
        wait: impl FnMut(u64) -> Result<(), BenchError> + Send + 'a,
    ) -> Way<'a> {
        let (registers, order, noted) = (self.registers, self.order, Arc::clone(noted));
        Way { name, registers, vector: vector.into(), order, noted, wait: Box::new(wait) }
    }

    /// The blocked reader, while the measuring thread computes on the same CPU.
    fn reader_beside_work(&self) -> Way<'a> {
        let reader = self.reader;
        self.way("blocked-read", BARE, reader, move |before| {
            spin(reader, before);
            Ok(())
        })
    }

    /// The blocked reader, while nothing else of this process runs.
    fn reader_at_rest(&self) -> Way<'a> {
        let reader = self.reader;
        self.way("blocked-read", BARE, reader, move |before| {
            while reader.count() == before {
                std::thread::park_timeout(APPEAR);
            }
            Ok(())
        })
    }

    /// Measures a way beside the blocked reader. `paper` is what Raven took, where it is known.
    fn compare(
        &self,
        (part, case, paper): (usize, &str, Option<f64>),
        bare: &mut dyn Subject,
        own: &mut dyn Subject,
    ) -> Result<(), BenchError> {
        if self.client.wants(case) {
            let contest = self.client.contest(&mut [bare, own, &mut Switches], part, PARTS)?;
            let figures = judged(&contest);
            let figures = match paper {
                Some(ns) => figures.with_detail("paper_ns", ns),
                None => figures,
            };
            self.client.report(case, figures)?;
        }
        Ok(())
    }
}

pub(super) fn measure(client: &ScenarioClient) -> Result<(), BenchError> {
    let device = open(&ticker::socket(client.scratch()))?;
    let registers = device.map_bar(0)?;
    let event = Arc::new(DeviceEvent::new());
    let [of_runtime, of_handler, of_reader]: [Arc<Noted>; 3] = Default::default();
    let in_runtime = Arc::clone(&of_runtime);
    let _runtime = device.interrupt(RUNTIME)?.handle_in_dispatcher(move |_| in_runtime.note())?;
    let enabled = handler(&device, &of_handler, &event)?;
    blocked_reader(&device, &of_reader)?;
    client.settle()?;
    let order = AtomicU64::new(0);
    let setting = Setting { client, registers: &registers, order: &order, reader: &of_reader };
    let mut runtime = setting.way("runtime", RUNTIME, &of_runtime, |before| {
        spin(&of_runtime, before);
        Ok(())
    });
    let at = (0, "interrupt/runtime", Some(PAPER_RUNTIME_NS));
    setting.compare(at, &mut setting.reader_beside_work(), &mut runtime)?;
    let running = setting.way("running", HANDLER, &of_handler, |before| {
        enabled.follow();
        while of_handler.count() == before {
            thread::yield_now();
        }
        Ok(())
    });
    let mut running = InThread(running);
    let at = (1, "interrupt/running", Some(PAPER_RUNNING_NS));
    setting.compare(at, &mut setting.reader_beside_work(), &mut running)?;
    let asleep = setting.way("asleep", HANDLER, &of_handler, |before| {
        enabled.follow();
        while of_handler.count() == before {
            event.wait(Instant::now() + APPEAR)?;
        }
        Ok(())
    });
    let mut asleep = InThread(asleep);
    let at = (2, "interrupt/asleep", None);
    setting.compare(at, &mut setting.reader_at_rest(), &mut asleep)?;
    if client.wants("interrupt/other-task") {
        // Raven's third scenario: this task is not on the processor, since another one computes
        // there.
        let near = vec![client.placement().near];
        let _other = Helper::start(&HelperTask { cpus: near, does: Does::Compute })?;
        let at = (3, "interrupt/other-task", None);
        setting.compare(at, &mut setting.reader_at_rest(), &mut asleep)?;
    }
    if client.wants("interrupt/polling") {
        polling(client, &registers, &order)?;
    }
    Ok(())
}

/// The device answers in its memory, and a thread looks there.
fn polling(client: &ScenarioClient, registers: &Registers, order: &AtomicU64) -> Result<(), BenchError> {
    registers.write(VECTOR, SILENT)?;
    registers.write(DELAY, 0u64)?;
    let mut lines = client.limit();
    let mut poll = InProcess::new("polling", 1, |_| {
        let order = order.fetch_add(1, Ordering::Relaxed) + 1;
        // A mapped register is always there.
        let _ = registers.write(ORDER, order);
        while registers.read::<u64>(DONE).is_ok_and(|done| done != order) {
            std::hint::spin_loop();
        }
    });
    let contest = client.contest(&mut [&mut lines, &mut poll], PARTS - 1, PARTS)?;
    let figures = Figures::of(&contest, 1, 0);
    let met = figures.ratio <= POLLING_BAR;
    client.report("interrupt/polling", figures.judged("bar", POLLING_BAR, met))
}
