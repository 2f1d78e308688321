//! The cases for an executor of futures: the same code for each of them.

use crate::{BATCH, Children};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// An executor whose tasks all run on the calling thread.
pub trait Executor: Copy + 'static {
    /// Starts a task and runs tasks until it has ended: a case is measured from within.
    fn within<T: 'static>(self, task: impl Future<Output = T> + 'static) -> T;

    /// Starts a task; what is returned waits for its end and its result.
    fn spawn<T: 'static>(self, task: impl Future<Output = T> + 'static) -> impl Future<Output = T> + 'static;

    /// Starts a task that nobody waits for.
    fn start(self, task: impl Future<Output = ()> + 'static);
}

/// Lets the other tasks run: the task is ready again at once, behind those that are ready already.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// `yield`: two tasks give way to each other, `count` switches in all.
///
/// # Panics
/// The other task had fewer than its half of the turns: then something else was measured.
pub fn yields(executor: impl Executor, count: u64) -> Duration {
    executor.within(async move {
        let stop = Rc::new(Cell::new(false));
        let seen = stop.clone();
        let other = executor.spawn(async move {
            let mut turns = 0;
            while !seen.get() {
                turns += 1;
                yield_now().await;
            }
            turns
        });
        yield_now().await;
        let begun = Instant::now();
        for _ in 0..count.div_ceil(2) {
            yield_now().await;
        }
        let taken = begun.elapsed();
        stop.set(true);
        let turns: u64 = other.await;
        assert!(turns >= count / 2, "{turns} turns of the other task in {count} switches");
        taken
    })
}

/// `fork-join`: a task starts a child and waits for its end and its result, `count` times.
pub fn fork_join(executor: impl Executor, count: u64) -> Duration {
    executor.within(async move {
        let begun = Instant::now();
        for number in 0..count {
            black_box(executor.spawn(async move { black_box(number) + 1 }).await);
        }
        begun.elapsed()
    })
}

/// `fork`: a task starts `count` children, and after each [`BATCH`] gives way until all of them
/// have run.
pub fn fork(executor: impl Executor, count: u64) -> Duration {
    static CHILDREN: Children = Children::new();
    executor.within(async move {
        let begun = Instant::now();
        let mut started = CHILDREN.have_run();
        let last = started + count;
        while started < last {
            let batch = BATCH.min(last - started);
            for _ in 0..batch {
                executor.start(async { CHILDREN.run() });
            }
            started += batch;
            while CHILDREN.have_run() < started {
                yield_now().await;
            }
        }
        begun.elapsed()
    })
}

/// `park`: `count` cycles in which two tasks wake each other with bare [`Waker`]s, a task's `park`
/// and `unpark`.
pub fn park(executor: impl Executor, count: u64) -> Duration {
    cycles(executor, count, Spot::default, Spot::unpark, Spot::park)
}

/// `count` cycles of ping-pong over a pair of what `make` makes: `wake` one, `wait` for the other.
pub fn cycles<T: 'static>(
    executor: impl Executor,
    count: u64,
    make: impl Fn() -> T,
    wake: impl Fn(&T) + Copy + 'static,
    wait: impl AsyncFn(&T) + Copy + 'static,
) -> Duration {
    let ours = Rc::new((make(), make()));
    executor.within(async move {
        let theirs = ours.clone();
        let other = executor.spawn(async move {
            for _ in 0..=count {
                wait(&theirs.0).await;
                wake(&theirs.1);
            }
        });
        wake(&ours.0);
        wait(&ours.1).await;
        let begun = Instant::now();
        for _ in 0..count {
            wake(&ours.0);
            wait(&ours.1).await;
        }
        let taken = begun.elapsed();
        other.await;
        taken
    })
}

/// Where a task waits to be woken by another of the same thread.
#[derive(Default)]
struct Spot {
    woken: Cell<bool>,
    /// Kept from one wait to the next, because to clone it costs a locked instruction.
    waker: RefCell<Option<Waker>>,
}

impl Spot {
    /// Wakes the task that waits here, or will.
    fn unpark(&self) {
        self.woken.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Waits for `unpark`.
    async fn park(&self) {
        poll_fn(|context| {
            if self.woken.replace(false) {
                return Poll::Ready(());
            }
            let mut waker = self.waker.borrow_mut();
            if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
                *waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
