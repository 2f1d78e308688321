//! Running a program on real threads.

use super::program::{Dice, Fate, Kind, Program, Step, mix};
use super::steps::alone;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use underpass_sync::Mutex;
use underpass_threads::{Builder, JoinHandle, blocking, checkpoint, current, scope, sleep, spawn, yield_now};

underpass_threads::thread_local! {
    /// The seed of the thread's program.
    static SEED: Cell<u64> = Cell::new(0);
    /// Is dropped with the thread.
    static KEPT: RefCell<Vec<Kept>> = RefCell::new(Vec::new());
}

thread_local! {
    /// Belongs to the kernel thread: its pinned threads share it.
    static SHARED: Rc<Cell<u64>> = Rc::default();
}

/// Counts the values that are alive.
struct Kept(Arc<Stage>);

impl Kept {
    fn new(stage: &Arc<Stage>) -> Self {
        stage.alive.fetch_add(1, Ordering::Relaxed);
        Self(stage.clone())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where detached threads leave their results.
#[derive(Default)]
pub struct Stage {
    count: AtomicU64,
    sum: AtomicU64,
    alive: AtomicU64,
    /// How often it was taken.
    pub lock: Mutex<u64>,
}

impl Stage {
    /// The watchdog bounds this.
    pub fn wait_for_detached(&self, (count, sum): (u64, u64), locks: u64) {
        while self.count.load(Ordering::Acquire) < count || self.alive.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        assert_eq!((self.count.load(Ordering::Relaxed), self.sum.load(Ordering::Relaxed)), (count, sum));
        assert_eq!(*self.lock.lock().unwrap(), locks);
    }
}

/// A thread that was started, user-level or of the kernel.
pub enum Started {
    User(JoinHandle<u64>),
    Kernel(std::thread::JoinHandle<u64>),
}

impl Started {
    pub fn join(self) -> u64 {
        let result = match self {
            Self::User(thread) => thread.join(),
            Self::Kernel(thread) => blocking(|| thread.join()),
        };
        result.unwrap_or_else(|panic| *panic.downcast::<u64>().expect("it panicked with its result"))
    }
}

pub fn builder(kind: Kind) -> Builder {
    match kind {
        Kind::Plain | Kind::Kernel => Builder::new(),
        Kind::Named => Builder::new().name("actor"),
        Kind::Stack(bytes) => Builder::new().stack_size(bytes),
        // SAFETY: migrating actors hold nothing that belongs to their kernel thread across a pause:
        // see `Checks`.
        Kind::Migrating => unsafe { Builder::new().migrating() },
        Kind::Dedicated => Builder::new().dedicated(),
    }
}

pub fn start(kind: Kind, body: impl FnOnce() -> u64 + Send + 'static) -> Started {
    match kind {
        Kind::Kernel => Started::Kernel(std::thread::spawn(body)),
        Kind::Plain => Started::User(spawn(body)),
        kind => Started::User(builder(kind).spawn(body).expect("what it asks for can be had")),
    }
}

/// What a thread can rely on, whatever happened since it last looked.
struct Checks {
    seed: u64,
    kind: Kind,
    id: underpass_threads::ThreadId,
    /// Pinned threads have a kernel thread, and may hold what it shares.
    home: Option<(std::thread::ThreadId, Rc<Cell<u64>>)>,
}

impl Checks {
    fn begin(program: &Program, stage: &Arc<Stage>) -> Self {
        assert_eq!(SEED.with(Cell::get), 0, "a new thread has variables of its own");
        SEED.with(|seed| seed.set(program.seed));
        KEPT.with(|kept| kept.borrow_mut().push(Kept::new(stage)));
        let pinned = program.kind != Kind::Migrating;
        let home = pinned.then(|| (std::thread::current().id(), SHARED.with(Rc::clone)));
        Self { seed: program.seed, kind: program.kind, id: current().id(), home }
    }

    fn look(&self) {
        assert_eq!(SEED.with(Cell::get), self.seed);
        assert_eq!(current().id(), self.id);
        assert_eq!(current().name() == Some("actor"), self.kind == Kind::Named);
        if let Some((home, shared)) = &self.home {
            assert_eq!(std::thread::current().id(), *home);
            shared.set(shared.get() + 1);
            SHARED.with(|own| assert!(Rc::ptr_eq(own, shared)));
        }
    }
}

/// Yields once in `sides` times, at random.
pub fn perturb(dice: &mut Dice, sides: u64) {
    if dice.below(sides) == 0 {
        match dice.below(8) {
            0..4 => yield_now(),
            4..6 => checkpoint(),
            6 => sleep(Duration::from_micros(dice.below(30))),
            _ => (0..dice.below(2000)).for_each(|_| std::hint::spin_loop()),
        }
    }
}

/// Runs `program` on the calling thread, which is new. Yields once in `sides` steps.
///
/// Panics with the result if the program does.
pub fn perform(program: &Program, stage: &Arc<Stage>, sides: u64) -> u64 {
    let mut dice = Dice(program.seed ^ sides);
    let checks = Checks::begin(program, stage);
    let mut late = Vec::new();
    let mut passed_on: Option<Started> = None;
    let mut sum = program.seed;
    for step in &program.steps {
        perturb(&mut dice, sides);
        checks.look();
        match step {
            Step::Start { child, fate } => match fate {
                Fate::JoinedAtOnce => sum = mix(sum, begin(child, stage, sides, None).join()),
                Fate::JoinedLast => late.push(begin(child, stage, sides, None)),
                Fate::JoinedBySibling => passed_on = Some(begin(child, stage, sides, passed_on.take())),
                Fate::Detached => drop(begin_detached(child, stage, sides)),
            },
            Step::Scope { children } => sum = mix(sum, in_scope(children, stage, sides, &mut dice)),
            step => sum = alone(step, sum, stage, &mut dice, sides),
        }
    }
    perturb(&mut dice, sides);
    checks.look();
    late.extend(passed_on);
    let mut late_sum = 0u64;
    // In any order.
    while !late.is_empty() {
        let which = dice.below(late.len() as u64) as usize;
        late_sum = late_sum.wrapping_add(late.swap_remove(which).join());
    }
    checks.look();
    if program.panics {
        let _kept = Kept::new(stage);
        resume_unwind(Box::new(sum ^ late_sum));
    }
    sum ^ late_sum
}

/// Starts a child, which also joins `sibling` and adds its result.
fn begin(child: &Arc<Program>, stage: &Arc<Stage>, sides: u64, sibling: Option<Started>) -> Started {
    let (child, stage) = (child.clone(), stage.clone());
    start(child.kind, move || match sibling {
        None => perform(&child, &stage, sides),
        Some(sibling) => {
            let own = catch_unwind(AssertUnwindSafe(|| perform(&child, &stage, sides)));
            let others = sibling.join();
            match own {
                Ok(own) => own.wrapping_add(others),
                Err(panic) => resume_unwind(Box::new(panic.downcast::<u64>().unwrap().wrapping_add(others))),
            }
        }
    })
}

/// Starts a child whose result goes to the stage. Its handle is to be dropped once, with what it
/// left there.
fn begin_detached(child: &Arc<Program>, stage: &Arc<Stage>, sides: u64) -> Option<JoinHandle<Kept>> {
    let kept = Kept::new(stage);
    let (kind, child, stage) = (child.kind, child.clone(), stage.clone());
    let body = move || {
        let result = perform(&child, &stage, sides);
        stage.sum.fetch_add(result, Ordering::Relaxed);
        stage.count.fetch_add(1, Ordering::Release);
        kept
    };
    if kind == Kind::Kernel {
        drop(std::thread::spawn(body));
        return None;
    }
    Some(builder(kind).spawn(body).expect("what it asks for can be had"))
}

/// Runs children that borrow, and joins some of them by hand. Returns the sum of their results.
fn in_scope(children: &[Program], stage: &Arc<Stage>, sides: u64, dice: &mut Dice) -> u64 {
    let sum = AtomicU64::new(0);
    scope(|scope| {
        for child in children {
            let sum = &sum;
            let add = move || {
                sum.fetch_add(perform(child, stage, sides), Ordering::Relaxed);
            };
            let thread = scope.spawn_with(builder(child.kind), add).expect("what it asks for can be had");
            match dice.below(4) {
                0 => thread.join().expect("children of scopes don't panic"),
                1 => std::mem::drop(thread),
                _ => perturb(dice, sides),
            }
        }
    });
    sum.into_inner()
}
