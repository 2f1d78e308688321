//! Models of parking, of remote wake-ups, of stealing and of thread ends: every interleaving of
//! small cases. Run them as CONTRIBUTING.md says.
//!
//! The protocols are the very code that ships ([`Gate`], `Ring`, `Inbox`, `Parker`). Their callers
//! are restated here in a few lines, named after the original. A lost wake-up is a deadlock, which
//! loom reports. What each model catches was tried by removing the step or the ordering. Where loom
//! can't see an ordering, the model says so.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use underpass_processor::Parker;
use underpass_seam::{Gate, StaticSlot};
use underpass_threads::lists::inbox::Inbox;
use underpass_threads::lists::linked::Linked;
use underpass_threads::lists::ring::Ring;

/// A control block, as far as the protocols know it, and the kernel's side of a sleep.
struct Control {
    next: StaticSlot<Control>,
    token: Gate<Control>,
    ended: Gate<Control>,
    holders: AtomicU32,
    /// `wake` counts up and a suspension counts down: more than one at a time is one wake-up too
    /// many.
    wakes: Mutex<u32>,
    woken: Condvar,
    /// Data that one thread writes for another: loom reports every access that is not ordered.
    room: UnsafeCell<u32>,
    /// Stands for the home and the name: wakers and holders read it, the waiter and the last holder
    /// write it.
    home: UnsafeCell<u32>,
}

impl Control {
    /// A block for one run of a model. Never freed, as in the runtime.
    fn new(holders: u32) -> &'static Self {
        Box::leak(Box::new(Self {
            next: StaticSlot::new(),
            token: Gate::new(),
            ended: Gate::new(),
            holders: AtomicU32::new(holders),
            wakes: Mutex::new(0),
            woken: Condvar::new(),
            room: UnsafeCell::new(0),
            home: UnsafeCell::new(0),
        }))
    }

    /// Sets its home, then registers at the gate.
    fn register_at(&'static self, gate: &Gate<Control>) -> bool {
        // SAFETY: loom checks that nobody reads it now.
        self.home.with_mut(|home| unsafe { *home += 1 });
        gate.register(self)
    }

    fn look_at_home(&self) {
        // SAFETY: loom checks that nobody writes it now.
        assert!(self.home.with(|home| unsafe { *home }) <= 2);
    }

    fn wake(&self) {
        self.look_at_home();
        let mut wakes = self.wakes.lock().unwrap();
        *wakes += 1;
        assert_eq!(*wakes, 1, "one wake for each suspension");
        self.woken.notify_one();
    }

    /// Waits until woken: what `suspend` does on a plain kernel thread.
    fn suspend(&self) {
        let mut wakes = self.wakes.lock().unwrap();
        while *wakes == 0 {
            wakes = self.woken.wait(wakes).unwrap();
        }
        *wakes -= 1;
    }

    fn is_awake(&self) -> bool {
        *self.wakes.lock().unwrap() > 0
    }

    fn write(&self, value: u32) {
        // SAFETY: loom checks that nobody else accesses it now.
        self.room.with_mut(|room| unsafe { *room = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: loom checks that nobody writes it now.
        self.room.with(|room| unsafe { *room })
    }
}

impl Linked for Control {
    fn link(&self) -> &StaticSlot<Self> {
        &self.next
    }
}

/// Explores a model with at most `preemptions` preemptions, where all of them would take too long.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

mod parking {
    use super::*;

    /// `Thread::unpark`.
    fn unpark(thread: &'static Control) {
        if let Some(waiter) = thread.token.open() {
            waiter.wake();
        }
    }

    /// `park`.
    fn park(me: &'static Control) {
        if me.register_at(&me.token) {
            me.suspend();
        }
        me.token.pass();
    }

    /// `park_timeout` with a deadline that passes at once. Returns whether it was late.
    fn park_briefly(me: &'static Control) -> bool {
        if me.register_at(&me.token) {
            if me.token.withdraw(me) {
                return true;
            }
            me.suspend();
        }
        me.token.pass();
        false
    }

    // Fails without: the registration before the suspension; the release in `open`; the acquire in
    // `pass`.
    #[test]
    fn a_park_ends_by_the_unpark_and_sees_what_came_before() {
        loom::model(|| {
            let me = Control::new(1);
            let other = thread::spawn(move || {
                me.write(7);
                unpark(me);
            });
            park(me);
            assert_eq!(me.read(), 7);
            assert!(!me.token.is_open() && !me.is_awake());
            other.join().unwrap();
        });
    }

    // Fails if a late thread passes the gate, or returns as late although it could not withdraw.
    #[test]
    fn a_permission_is_not_lost_on_a_park_that_was_late() {
        loom::model(|| {
            let me = Control::new(1);
            let other = thread::spawn(move || {
                me.write(7);
                unpark(me);
            });
            if park_briefly(me) {
                park(me);
            }
            assert_eq!(me.read(), 7);
            assert!(!me.token.is_open() && !me.is_awake(), "one permission, and it was used");
            other.join().unwrap();
        });
    }

    // Fails if `open` is a load and a store; if both unparks wake.
    #[test]
    fn of_two_unparks_one_wakes_and_at_most_one_permission_is_left() {
        loom::model(|| {
            let me = Control::new(1);
            let others: Vec<_> = (0..2).map(|_| thread::spawn(move || unpark(me))).collect();
            park(me);
            others.into_iter().for_each(|other| other.join().unwrap());
            assert!(!me.is_awake());
            me.token.pass();
            assert!(!me.token.pass());
        });
    }

    // Fails if a deadline and an unpark both end the wait: the home abandons for a thread that is
    // suspended.
    #[test]
    fn an_unpark_and_a_deadline_end_a_wait_once() {
        loom::model(|| {
            let me = Control::new(1);
            assert!(me.register_at(&me.token));
            let unparks = thread::spawn(move || unpark(me));
            let home = thread::spawn(move || {
                let late = me.token.withdraw(me);
                if late {
                    me.wake();
                }
                late
            });
            me.suspend();
            let late = home.join().unwrap();
            unparks.join().unwrap();
            assert!(!me.is_awake(), "one wake");
            assert!(me.token.pass(), "the permission is there, whichever came first (late: {late})");
        });
    }
}

mod hand_off {
    use super::*;

    // Fails without the release of the exchange in `put`, the acquire of the swap in `take_all`, or
    // the link set before the exchange.
    #[test]
    fn two_producers_lose_nothing_and_each_keeps_its_order() {
        bounded(3, || {
            let inbox = Arc::new(Inbox::default());
            let producers: Vec<_> = (0..2u32)
                .map(|producer| {
                    let inbox = inbox.clone();
                    thread::spawn(move || {
                        for number in 0..2 - producer {
                            let item = Control::new(1);
                            item.write(10 * (producer + 1) + number);
                            inbox.put(item);
                        }
                    })
                })
                .collect();
            let mut taken = Vec::new();
            inbox.take_all(|item| taken.push(item.read()));
            producers.into_iter().for_each(|producer| producer.join().unwrap());
            inbox.take_all(|item| taken.push(item.read()));
            assert!(inbox.is_empty());
            let first: Vec<u32> = taken.iter().copied().filter(|number| *number < 20).collect();
            assert_eq!(first, [10, 11]);
            taken.sort_unstable();
            assert_eq!(taken, [10, 11, 20]);
        });
    }

    // Fails if `take_all` empties the inbox by a load and a store.
    #[test]
    fn a_thread_comes_back_into_the_inbox_that_it_was_taken_from() {
        // The chain is linked through the blocks: one that was taken may be put in again while
        // others are on their way.
        bounded(3, || {
            let inbox = Arc::new(Inbox::default());
            let (a, b) = (Control::new(1), Control::new(1));
            inbox.put(a);
            let other = inbox.clone();
            let producer = thread::spawn(move || other.put(b));
            let mut seen = [0; 2];
            let mut again = Vec::new();
            inbox.take_all(|item| again.push(item));
            for item in again {
                seen[usize::from(std::ptr::eq(item, b))] += 1;
                if std::ptr::eq(item, a) {
                    inbox.put(a);
                }
            }
            producer.join().unwrap();
            inbox.take_all(|item| seen[usize::from(std::ptr::eq(item, b))] += 1);
            assert_eq!(seen, [2, 1]);
        });
    }

    // Fails if the home looks at its inbox before the thread has left its stack (here: `left`), or
    // if the wake-up is forgotten.
    #[test]
    fn a_wake_before_the_suspension_waits_until_the_thread_has_left_its_stack() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::default());
            let me = Control::new(1);
            assert!(me.register_at(&me.token));
            let other = inbox.clone();
            // Another activation unparks it: `wake_remotely`.
            let waker = thread::spawn(move || {
                if let Some(waiter) = me.token.open() {
                    other.put(waiter);
                }
            });
            // This kernel thread runs `me` until it has paused, then the scheduler: `pause`, then
            // `attend`.
            me.write(1);
            let mut runs = 0;
            while runs == 0 {
                inbox.take_all(|thread| {
                    assert_eq!(thread.read(), 1, "it has paused");
                    runs += 1;
                });
                thread::yield_now();
            }
            waker.join().unwrap();
            inbox.take_all(|_| runs += 1);
            assert_eq!(runs, 1);
        });
    }

    /// `ASLEEP` of `Parker`.
    const ASLEEP: u32 = 2;

    // Fails without either fence: `look_up`'s light barrier, `sleep`'s heavy one.
    #[test]
    fn a_remote_waker_unparks_the_sleeping_home_or_is_seen() {
        loom::model(|| {
            let place = Arc::new((Inbox::default(), Parker::new(), Mutex::new(0u32), Condvar::new()));
            let other = place.clone();
            let waker = thread::spawn(move || {
                let (inbox, parker, wakeups, woken) = &*other;
                inbox.put(Control::new(1));
                fence(Ordering::SeqCst);
                if parker.asleep() && parker.announce() {
                    *wakeups.lock().unwrap() += 1;
                    woken.notify_all();
                }
            });
            let (inbox, parker, wakeups, woken) = &*place;
            while inbox.is_empty() {
                if !parker.prepare() {
                    continue;
                }
                fence(Ordering::SeqCst);
                if inbox.is_empty() {
                    let mut wakeups = wakeups.lock().unwrap();
                    let before = *wakeups;
                    while *wakeups == before && parker.word().load(Ordering::SeqCst) == ASLEEP {
                        wakeups = woken.wait(wakeups).unwrap();
                    }
                }
                parker.wake_up();
            }
            waker.join().unwrap();
            let mut came = 0;
            inbox.take_all(|_: &'static Control| came += 1);
            assert_eq!(came, 1);
        });
    }
}

mod ready_ring {
    use super::*;

    fn item(number: u32) -> &'static Control {
        let item = Control::new(1);
        item.write(number);
        item
    }

    /// Checks that each number was taken exactly once.
    fn count(taken: impl IntoIterator<Item = u32>, all: u32) {
        let mut taken: Vec<u32> = taken.into_iter().collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..all).collect::<Vec<_>>(), "each once");
    }

    // Fails without the release of `tail` in `put` or its acquire in `take` (an item from the round
    // before, or none), and if `head` is stored instead of exchanged. Loom can't show the acquire
    // of `head` in `put` (a slot that is overwritten before it was read), since it has no loads
    // that see later stores.
    #[test]
    fn two_stealers_take_each_once_while_the_ring_goes_round() {
        bounded(3, || {
            let ring = Arc::new(Ring::<Control, 2>::default());
            let stealers: Vec<_> = (0..2)
                .map(|_| {
                    let ring = ring.clone();
                    thread::spawn(move || ring.take().map(Control::read))
                })
                .collect();
            let mut own = Vec::new();
            for number in 0..3 {
                let mut left = item(number);
                while let Err(back) = ring.put(left) {
                    left = back;
                    own.extend(ring.take().map(Control::read));
                }
            }
            for stealer in stealers {
                own.extend(stealer.join().unwrap());
            }
            own.extend(std::iter::from_fn(|| ring.take().map(Control::read)));
            count(own, 3);
        });
    }

    // Fails if a taker combines an old `tail` with a new `head` (a comparison as unsigned numbers).
    #[test]
    fn a_slow_taker_takes_nothing_that_was_taken() {
        bounded(3, || {
            let ring = Arc::new(Ring::<Control, 2>::default());
            assert!(ring.put(item(0)).is_ok());
            let takers: Vec<_> = (0..2)
                .map(|_| {
                    let ring = ring.clone();
                    thread::spawn(move || [ring.take().map(Control::read), ring.take().map(Control::read)])
                })
                .collect();
            assert!(ring.put(item(1)).is_ok());
            let mut all: Vec<u32> =
                takers.into_iter().flat_map(|taker| taker.join().unwrap()).flatten().collect();
            all.extend(std::iter::from_fn(|| ring.take().map(Control::read)));
            count(all, 2);
        });
    }

    #[test]
    fn a_full_ring_gives_the_item_back() {
        loom::model(|| {
            let ring = Arc::new(Ring::<Control, 2>::default());
            assert!(ring.put(item(0)).is_ok() && ring.put(item(1)).is_ok());
            let other = ring.clone();
            let taker = thread::spawn(move || other.take().map(Control::read));
            let third = ring.put(item(2));
            let first = taker.join().unwrap();
            assert_eq!(
                first,
                Some(0),
                "nobody else takes, so there is one to take: first come, first served"
            );
            let rest: Vec<u32> = std::iter::from_fn(|| ring.take().map(Control::read)).collect();
            match third {
                Ok(()) => assert_eq!(rest, [1, 2]),
                Err(back) => assert_eq!((rest, back.read()), (vec![1], 2)),
            }
        });
    }
}

mod joins {
    use super::*;

    /// `room` holds a result; then it is taken or discarded; then the block is another's.
    const RESULT: u32 = 1;
    const TAKEN: u32 = 2;
    const RETIRED: u32 = 3;

    /// `Body::take` and `Body::discard`.
    fn take_result(control: &Control) {
        assert_eq!(control.read(), RESULT, "a result is taken once, and the block is not given away before");
        control.write(TAKEN);
    }

    /// `release`.
    fn release(control: &Control) {
        if control.holders.load(Ordering::Acquire) == 1 || control.holders.fetch_sub(1, Ordering::AcqRel) == 1
        {
            assert_eq!(control.read(), TAKEN, "the block is given back once, and after the result has gone");
            control.write(RETIRED);
            // SAFETY: loom checks that nobody reads it now.
            control.home.with_mut(|home| unsafe { *home = 0 });
        }
    }

    /// `finish`, of a thread that has left its result.
    fn end(control: &'static Control) {
        control.write(RESULT);
        if control.ended.is_registered(control) {
            take_result(control);
            return release(control);
        }
        match control.ended.open() {
            Some(waiter) if std::ptr::eq(waiter, control) => {
                take_result(control);
                release(control);
            }
            waiter => {
                waiter.inspect(|waiter| waiter.wake());
            }
        }
    }

    /// `JoinHandle::join`.
    fn join(control: &'static Control, me: &'static Control) {
        if me.register_at(&control.ended) {
            me.suspend();
        }
        take_result(control);
        release(control);
    }

    /// `JoinHandle::drop`.
    fn detach(control: &'static Control) {
        if !control.ended.register(control) {
            take_result(control);
            release(control);
        }
    }

    // Fails without the release or the acquire of `open` and `register`.
    #[test]
    fn a_join_waits_for_the_end_and_has_the_result() {
        loom::model(|| {
            let (control, me) = (Control::new(1), Control::new(0));
            let thread = thread::spawn(move || end(control));
            join(control, me);
            thread.join().unwrap();
            assert_eq!(control.read(), RETIRED);
            assert!(!me.is_awake());
        });
    }

    // Fails if the thread wakes itself as a joiner, or overlooks that it was just detached
    // (`Finished::Unheeded`).
    #[test]
    fn a_result_that_nobody_wants_is_dropped_once() {
        loom::model(|| {
            let control = Control::new(1);
            let thread = thread::spawn(move || end(control));
            detach(control);
            thread.join().unwrap();
            assert_eq!(control.read(), RETIRED);
        });
    }

    // Fails without the acquire of the load or the release of the subtraction in `release`, and if
    // either path retires twice.
    #[test]
    fn the_last_of_two_holders_gives_the_block_back() {
        loom::model(|| {
            // The handle, and a `Thread` of it.
            let (control, me) = (Control::new(2), Control::new(0));
            let thread = thread::spawn(move || end(control));
            let holder = thread::spawn(move || {
                control.look_at_home();
                release(control);
            });
            join(control, me);
            thread.join().unwrap();
            holder.join().unwrap();
            assert_eq!(control.read(), RETIRED);
        });
    }

    // Fails if the thread's own handle is not counted once it is detached.
    #[test]
    fn a_detached_thread_and_a_holder_give_the_block_back_once() {
        loom::model(|| {
            let control = Control::new(2);
            let thread = thread::spawn(move || end(control));
            let holder = thread::spawn(move || {
                control.look_at_home();
                release(control);
            });
            detach(control);
            thread.join().unwrap();
            holder.join().unwrap();
            assert_eq!(control.read(), RETIRED);
        });
    }
}
