//! Loom models of the wait for an interrupt: the gate that ships, with a device, the dispatcher and
//! threads that wait. Loom reports a lost wake-up as a deadlock. CONTRIBUTING.md says how to run
//! them.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use underpass_device::{NextStep, VectorGate};

/// The event counter of a vector, and the kernel's watch of it, which reports once.
#[derive(Default)]
struct Counter {
    state: Mutex<CounterState>,
    changed: Condvar,
}

#[derive(Default)]
struct CounterState {
    count: u32,
    watched: bool,
    ended: bool,
    /// Of a device by UIO.
    line: Option<Line>,
}

/// The line of a device. The kernel masks it when it adds to the counter.
struct Line {
    raised: bool,
    masked: bool,
}

impl CounterState {
    /// The device signals, or its line is not masked any more.
    fn signal(&mut self) {
        match &mut self.line {
            None => self.count += 1,
            Some(line) if line.raised && !line.masked => {
                line.masked = true;
                self.count += 1;
            }
            Some(_) => {}
        }
    }
}

impl Counter {
    fn change(&self, change: impl FnOnce(&mut CounterState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// V2.
    fn signal(&self) {
        self.change(|state| {
            state.line.iter_mut().for_each(|line| line.raised = true);
            state.signal();
        });
    }

    fn unmask(&self) {
        self.change(|state| {
            if let Some(line) = &mut state.line {
                line.masked = false;
                state.signal();
            }
        });
    }

    /// Acknowledges the interrupt, if there is one. To read the device's register and to write it
    /// are two steps.
    fn acknowledge(&self) {
        let raised = self.state.lock().unwrap().line.as_ref().is_some_and(|line| line.raised);
        if raised {
            self.change(|state| state.line.iter_mut().for_each(|line| line.raised = false));
        }
    }

    /// D1, D2: waits for a report, and takes the count. `false`: the model has ended.
    fn take(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        loop {
            if state.watched && state.count > 0 {
                (state.watched, state.count) = (false, 0);
                return true;
            }
            if state.ended {
                return false;
            }
            state = self.changed.wait(state).unwrap();
        }
    }
}

/// What a thread sleeps on.
#[derive(Default)]
struct Signal {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn set(&self) {
        *self.set.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut set = self.set.lock().unwrap();
        while !std::mem::take(&mut *set) {
            set = self.changed.wait(set).unwrap();
        }
    }
}

struct Model<const N: usize> {
    gate: VectorGate,
    counter: Counter,
    /// What the device has completed.
    done: [AtomicBool; N],
    signals: [Signal; N],
}

impl<const N: usize> Model<N> {
    fn new(always: bool) -> Arc<Self> {
        let model = Arc::new(Self {
            gate: VectorGate::new(always),
            counter: Counter::default(),
            done: std::array::from_fn(|_| AtomicBool::new(false)),
            signals: std::array::from_fn(|_| Signal::default()),
        });
        model.act(model.gate.open());
        model
    }

    /// A device by UIO, which was masked when it was opened.
    fn with_line() -> Arc<Self> {
        let model = Self::new(false);
        model.counter.change(|state| state.line = Some(Line { raised: false, masked: true }));
        model
    }

    /// Does what a change of the gate obliges to.
    fn act(&self, next: NextStep) {
        match next {
            NextStep::Arm => {
                self.counter.unmask();
                self.counter.change(|state| state.watched = true);
            }
            NextStep::Post => self.upcall(),
            NextStep::Nothing => {}
        }
    }

    fn device_completes(&self, one: usize) {
        self.done[one].store(true, Ordering::Release);
        self.counter.signal();
    }

    /// U1 to U4. The handler acknowledges the interrupt, and signals the threads whose requests are
    /// completed.
    fn upcall(&self) {
        if !self.gate.begin() {
            return;
        }
        self.counter.acknowledge();
        for (done, signal) in self.done.iter().zip(&self.signals) {
            if done.load(Ordering::Acquire) {
                signal.set();
            }
        }
        let next = self.gate.end();
        self.act(next);
    }

    fn dispatch(&self) {
        while self.counter.take() {
            if self.gate.post() {
                self.upcall();
            }
        }
    }

    /// W1 to W4, until this request is completed.
    fn wait(&self, one: usize) {
        let next = self.gate.want();
        self.act(next);
        while !self.done[one].load(Ordering::Acquire) {
            self.signals[one].wait();
        }
        self.gate.unwant();
    }
}

fn start<const N: usize>(
    model: &Arc<Model<N>>,
    what: impl FnOnce(&Model<N>) + Send + 'static,
) -> thread::JoinHandle<()> {
    let model = Arc::clone(model);
    thread::spawn(move || what(&model))
}

fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Ends the model when all of `waits` have ended.
fn finish<const N: usize>(model: &Model<N>, dispatcher: thread::JoinHandle<()>) {
    model.counter.change(|state| state.ended = true);
    dispatcher.join().unwrap();
}

/// A thread waits, and the device completes what it waits for.
fn ends_one_wait(model: &Arc<Model<1>>) {
    let dispatcher = start(model, Model::dispatch);
    let device = start(model, |model| model.device_completes(0));
    model.wait(0);
    device.join().unwrap();
    finish(model, dispatcher);
}

/// Two threads wait, and the device completes one after the other.
fn ends_both_waits(model: &Arc<Model<2>>) {
    let dispatcher = start(model, Model::dispatch);
    let device = start(model, |model| {
        model.device_completes(0);
        model.device_completes(1);
    });
    let other = start(model, |model| model.wait(1));
    model.wait(0);
    other.join().unwrap();
    device.join().unwrap();
    finish(model, dispatcher);
}

#[test]
fn an_interrupt_at_any_step_ends_the_wait() {
    bounded(3, || {
        ends_one_wait(&Model::<1>::new(false));
    });
}

#[test]
fn an_interrupt_that_came_while_it_was_masked_ends_the_wait() {
    bounded(2, || {
        let model = Model::<1>::new(false);
        model.device_completes(0);
        model.done[0].store(false, Ordering::Relaxed);
        ends_one_wait(&model);
    });
}

#[test]
fn two_threads_that_wait_on_one_vector_both_go_on() {
    bounded(2, || {
        ends_both_waits(&Model::<2>::new(false));
    });
}

#[test]
fn an_interrupt_by_a_line_ends_the_wait() {
    bounded(3, || {
        ends_one_wait(&Model::<1>::with_line());
    });
}

#[test]
fn two_interrupts_by_one_line_end_both_waits() {
    bounded(2, || {
        ends_both_waits(&Model::<2>::with_line());
    });
}

#[test]
fn a_storm_that_is_over_has_lost_nothing() {
    bounded(3, || {
        let model = Model::<1>::new(false);
        model.gate.storm();
        let dispatcher = start(&model, |model| {
            let next = model.gate.calm();
            model.act(next);
            model.dispatch();
        });
        let device = start(&model, |model| model.device_completes(0));
        model.wait(0);
        device.join().unwrap();
        finish(&model, dispatcher);
    });
}

#[test]
fn a_forced_upcall_reaches_a_thread_that_waits() {
    bounded(3, || {
        let model = Model::<1>::new(false);
        let dispatcher = start(&model, |model| {
            // The device is gone: no interrupt comes.
            model.done[0].store(true, Ordering::Release);
            let next = model.gate.force();
            model.act(next);
            model.dispatch();
        });
        model.wait(0);
        finish(&model, dispatcher);
    });
}

#[test]
fn nothing_begins_after_the_close() {
    bounded(4, || {
        let model = Model::<1>::new(true);
        let dispatcher = start(&model, Model::dispatch);
        let device = start(&model, |model| model.device_completes(0));
        if !model.gate.close() {
            assert!(!model.gate.begin());
        }
        device.join().unwrap();
        finish(&model, dispatcher);
    });
}
