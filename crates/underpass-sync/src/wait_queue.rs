//! A wait queue: some data and lists of waiters under a spin lock. The node of a waiter lies on its
//! own stack.
//!
//! All unsafe code about nodes is here. The proof is in `README.md`.

use crate::lock_cell::UnsafeCell;
use crate::runtime::{Control, const_fn, wake};
use crate::spin_lock::{self, SpinLock};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use underpass_seam::atomic::{AtomicBool, Ordering};

/// How many waiters are woken in each visit to the queue.
const BATCH: usize = 16;

/// Data `D` and lists of waiters, each with a payload `P`, under a spin lock.
///
/// | field | accessed by |
/// |---|---|
/// | `spin` | see there; its hints say which lists have waiters |
/// | `inside` | the thread that holds `spin` |
pub(crate) struct WaitQueue<D, P, const LISTS: usize> {
    spin: SpinLock,
    inside: UnsafeCell<Contents<D, P, LISTS>>,
    /// Under loom a spin would never end, so the threads wait here for their turn. Loom tests the
    /// spin lock separately.
    #[cfg(underpass_loom)]
    order: loom::sync::Mutex<()>,
}

struct Contents<D, P, const LISTS: usize> {
    data: D,
    lists: [List<P>; LISTS],
    tickets: u64,
}

struct List<P> {
    head: *const Node<P>,
    tail: *const Node<P>,
}

/// The node of a waiter in a list.
///
/// | field | accessed by |
/// |---|---|
/// | `who`, `list` | any thread; they never change |
/// | `linked` | set by its owner before it is linked; cleared once, with the lock held, as the last access of the thread that takes it out |
/// | `body` | while `linked`: the thread that holds the lock; else its owner |
struct Node<P> {
    who: &'static Control,
    list: usize,
    linked: AtomicBool,
    body: UnsafeCell<Body<P>>,
}

struct Body<P> {
    prev: *const Node<P>,
    next: *const Node<P>,
    ticket: u64,
    payload: P,
}

// SAFETY: `inside` is accessed only with the lock held, and so are nodes while they are linked. So
// data and payloads, which other threads access, have to be movable between threads, and no more.
// Nodes refer to nothing else.
unsafe impl<D: Send, P: Send, const LISTS: usize> Sync for WaitQueue<D, P, LISTS> {}
// SAFETY: the owner of a linked node borrows the queue, so a queue that can be moved has no nodes.
unsafe impl<D: Send, P: Send, const LISTS: usize> Send for WaitQueue<D, P, LISTS> {}

/// What to do with a waiter.
pub(crate) enum Verdict<R> {
    /// Take it out, and stop. The caller of `take` wakes it.
    Take(R),
    /// Take it out, and go on to the next. Another thread wakes it.
    Drop,
    /// Leave it, and go on to the next.
    Skip,
    /// Leave it, and stop.
    Stop,
}

/// The end of a list at which a waiter is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListEnd {
    Front,
    Back,
}

/// What a waiter does after it was put into its list. It is a trait because closures can't be
/// forced to be inlined.
pub(crate) trait Then<D, P, R, const LISTS: usize> {
    fn then(self, entry: &Entry<'_, D, P, LISTS>) -> R;
}

struct Closure<F>(F);

impl<D, P, R, F: FnOnce(&Entry<'_, D, P, LISTS>) -> R, const LISTS: usize> Then<D, P, R, LISTS>
    for Closure<F>
{
    #[inline(always)]
    fn then(self, entry: &Entry<'_, D, P, LISTS>) -> R {
        (self.0)(entry)
    }
}

impl<D, P, const LISTS: usize> WaitQueue<D, P, LISTS> {
    const_fn! {
        pub(crate) fn new(data: D) -> WaitQueue<D, P, LISTS> {
            let lists = [const { List { head: ptr::null(), tail: ptr::null() } }; LISTS];
            WaitQueue {
                spin: SpinLock::new(),
                inside: UnsafeCell::new(Contents { data, lists, tickets: 0 }),
                #[cfg(underpass_loom)]
                order: loom::sync::Mutex::new(()),
            }
        }
    }

    /// Whether no list had waiters when the last thread left the queue. A caller that must not miss
    /// a waiter has learned of it in a way that synchronizes, such as the mutex of a condition.
    #[inline]
    pub(crate) fn looks_empty(&self) -> bool {
        self.spin.hints() == 0
    }

    /// Enters the queue. The caller must not wait while it holds the guard, and must not run or
    /// drop anything of a user's.
    #[inline]
    pub(crate) fn lock(&self) -> QueueGuard<'_, D, P, LISTS> {
        #[cfg(underpass_loom)]
        let order = self.order.lock().unwrap();
        QueueGuard {
            queue: self,
            inside: self.spin.enter(),
            #[cfg(underpass_loom)]
            order,
            stays: PhantomData,
        }
    }
}

#[cfg(all(test, not(underpass_loom)))]
impl<D, P, const LISTS: usize> WaitQueue<D, P, LISTS> {
    /// How many threads wait in `list`.
    pub(crate) fn waiting(&self, list: usize) -> usize {
        let mut waiting = 0;
        self.lock().take::<()>(list, |_, _, _| {
            waiting += 1;
            Verdict::Skip
        });
        waiting
    }
}

/// The lock on a queue, which is released when this is dropped.
pub(crate) struct QueueGuard<'q, D, P, const LISTS: usize> {
    queue: &'q WaitQueue<D, P, LISTS>,
    inside: spin_lock::SpinGuard<'q>,
    #[cfg(underpass_loom)]
    #[allow(dead_code)]
    order: loom::sync::MutexGuard<'q, ()>,
    stays: PhantomData<*mut ()>,
}

impl<'q, D, P, const LISTS: usize> QueueGuard<'q, D, P, LISTS> {
    #[inline]
    fn with<R>(&mut self, with: impl FnOnce(&mut Contents<D, P, LISTS>) -> R) -> R {
        // SAFETY: the lock is held as long as this value lives, and it is borrowed mutably.
        self.queue.inside.with_mut(|inside| with(unsafe { &mut *inside }))
    }

    /// Whether `list` has no waiters.
    #[inline]
    pub(crate) fn is_empty(&mut self, list: usize) -> bool {
        self.with(|inside| inside.lists[list].head.is_null())
    }

    /// The ticket of the next waiter. All present waiters have lower tickets. A list is in the
    /// order of its tickets, except for waiters that were put in front.
    #[inline]
    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.with(|inside| inside.tickets)
    }

    /// Calls `judge` for the waiters of `list`, the longest wait first, until it takes one or says
    /// to stop.
    ///
    /// The caller has to wake a taken waiter after it has dropped this guard.
    #[inline]
    pub(crate) fn take<R>(
        &mut self,
        list: usize,
        mut judge: impl FnMut(&'static Control, u64, &mut P) -> Verdict<R>,
    ) -> Option<(&'static Control, R)> {
        self.with(|inside| {
            let mut next = inside.lists[list].head;
            // SAFETY: null, or linked. Linked nodes are alive, since their owners don't leave
            // before they are taken out.
            while let Some(node) = unsafe { next.as_ref() } {
                let who = node.who;
                let verdict = node.body.with_mut(|body| {
                    // SAFETY: it is linked, and the lock is held.
                    let body = unsafe { &mut *body };
                    next = body.next;
                    judge(who, body.ticket, &mut body.payload)
                });
                match verdict {
                    Verdict::Take(result) => {
                        inside.lists[list].unlink(node);
                        return Some((who, result));
                    }
                    Verdict::Drop => inside.lists[list].unlink(node),
                    Verdict::Skip => {}
                    Verdict::Stop => return None,
                }
            }
            None
        })
    }

    /// Takes the first waiter of `list`.
    #[inline]
    pub(crate) fn pop(&mut self, list: usize) -> Option<&'static Control> {
        self.take(list, |_, _, _| Verdict::Take(())).map(|(who, ())| who)
    }

    /// Wakes all waiters that are in `list` now, `BATCH` of them in each visit to the queue.
    pub(crate) fn wake_all(self, list: usize) {
        let (queue, mut held) = (self.queue, self);
        let end = held.next_ticket();
        loop {
            let mut some = [None; BATCH];
            for one in &mut some {
                *one = held.take(list, |_, ticket, _| match ticket < end {
                    true => Verdict::Take(()),
                    false => Verdict::Stop,
                });
            }
            drop(held);
            some.into_iter().flatten().for_each(|(who, ())| wake(who));
            if some[BATCH - 1].is_none() {
                return;
            }
            held = queue.lock();
        }
    }

    /// Puts `who` into `list`, leaves the queue, and runs `then`. Returns the payload as it is when
    /// `who` is out of the list again.
    ///
    /// `then` suspends `who`. If `who` is still in the list when `then` has ended, it is taken out.
    #[inline]
    pub(crate) fn enlist<R>(
        self,
        who: &'static Control,
        list: usize,
        place: ListEnd,
        payload: P,
        then: impl FnOnce(&Entry<'_, D, P, LISTS>) -> R,
    ) -> (R, P) {
        self.enlist_then(who, list, place, payload, Closure(then))
    }

    /// As `enlist`, and is inlined into the caller.
    #[inline(always)]
    pub(crate) fn enlist_then<R>(
        mut self,
        who: &'static Control,
        list: usize,
        place: ListEnd,
        payload: P,
        then: impl Then<D, P, R, LISTS>,
    ) -> (R, P) {
        let body = Body { prev: ptr::null(), next: ptr::null(), ticket: self.next_ticket(), payload };
        let node = Node { who, list, linked: AtomicBool::new(true), body: UnsafeCell::new(body) };
        self.with(|inside| {
            inside.tickets += 1;
            inside.lists[list].link(&node, place);
        });
        // Takes the node out even if `then` unwinds.
        let entry = Entry { queue: self.queue, node: &node };
        drop(self);
        let result = then.then(&entry);
        drop(entry);
        // No other thread refers to the node now. Loom checks that.
        node.body.with_mut(|_| ());
        (result, node.body.into_inner().payload)
    }
}

impl<D, P, const LISTS: usize> Deref for QueueGuard<'_, D, P, LISTS> {
    type Target = D;
    #[inline]
    fn deref(&self) -> &D {
        // SAFETY: the lock is held as long as this value lives.
        self.queue.inside.with(|inside| unsafe { &(*inside).data })
    }
}

impl<D, P, const LISTS: usize> DerefMut for QueueGuard<'_, D, P, LISTS> {
    #[inline]
    fn deref_mut(&mut self) -> &mut D {
        // SAFETY: as above, and this value is borrowed mutably.
        self.queue.inside.with_mut(|inside| unsafe { &mut (*inside).data })
    }
}

impl<D, P, const LISTS: usize> Drop for QueueGuard<'_, D, P, LISTS> {
    #[inline]
    fn drop(&mut self) {
        let hints = self.with(|inside| {
            let bit = |(list, of): (usize, &List<P>)| u32::from(!of.head.is_null()) << list;
            inside.lists.iter().enumerate().map(bit).fold(0, |hints, bit| hints | bit)
        });
        self.inside.hint(hints);
    }
}

impl<P> List<P> {
    /// Only with the lock held, for a `node` that is in no list.
    #[inline]
    fn link(&mut self, node: &Node<P>, place: ListEnd) {
        let (prev, next) = match place {
            ListEnd::Back => (self.tail, ptr::null()),
            ListEnd::Front => (ptr::null(), self.head),
        };
        Self::set(ptr::from_ref(node), |body| (body.prev, body.next) = (prev, next));
        self.join(prev, node);
        self.join(node, next);
    }

    /// Only with the lock held, for a `node` that is in this list.
    #[inline]
    fn unlink(&mut self, node: &Node<P>) {
        let mut around = (ptr::null(), ptr::null());
        Self::set(ptr::from_ref(node), |body| around = (body.prev, body.next));
        let (prev, next) = around;
        self.join(prev, next);
        // SYNC with `linked` load in `Entry::drop`: the payload. After this store the node may be
        // gone.
        node.linked.store(false, Ordering::Release);
    }

    /// Makes `next` follow `prev`. Null stands for an end of the list.
    #[inline]
    fn join(&mut self, prev: *const Node<P>, next: *const Node<P>) {
        match prev.is_null() {
            true => self.head = next,
            false => Self::set(prev, |body| body.next = next),
        }
        match next.is_null() {
            true => self.tail = prev,
            false => Self::set(next, |body| body.prev = prev),
        }
    }

    #[inline]
    fn set(node: *const Node<P>, set: impl FnOnce(&mut Body<P>)) {
        // SAFETY: it is linked, or its owner is about to link it, so it is alive.
        let node = unsafe { &*node };
        // SAFETY: the lock is held, and no other reference into the body outlives its closure.
        node.body.with_mut(|body| set(unsafe { &mut *body }));
    }
}

/// A waiter that is, or was, in a list. When this has been dropped, it is certainly out of the
/// list.
pub(crate) struct Entry<'a, D, P, const LISTS: usize> {
    queue: &'a WaitQueue<D, P, LISTS>,
    node: &'a Node<P>,
}

impl<D, P, const LISTS: usize> Entry<'_, D, P, LISTS> {
    /// Takes the waiter out. `false` if another thread has done so before.
    pub(crate) fn abandon(&self) -> bool {
        let mut held = self.queue.lock();
        // Relaxed: it changes only with the lock held.
        let linked = self.node.linked.load(Ordering::Relaxed);
        if linked {
            held.with(|inside| inside.lists[self.node.list].unlink(self.node));
        }
        linked
    }
}

impl<D, P, const LISTS: usize> Drop for Entry<'_, D, P, LISTS> {
    #[inline]
    fn drop(&mut self) {
        // SYNC with `linked` store in `List::unlink`: the payload.
        if self.node.linked.load(Ordering::Acquire) {
            self.abandon();
        }
    }
}
