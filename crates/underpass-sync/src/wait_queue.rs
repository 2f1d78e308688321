//! A spin lock around some data and lists of waiters. A waiter's node lies on its own stack.
//!
//! All unsafe code about nodes is here. The proof is in `README.md`.

use crate::lock_cell::UnsafeCell;
use crate::runtime::{Control, const_fn, wake};
use crate::spin_lock::{self, SpinLock};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use underpass_seam::atomic::{AtomicBool, Ordering};

/// Waiters that are woken for each time inside.
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
    /// To loom, spinning is endless: here it has the others wait. It tries the spin lock by itself.
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

/// A waiter's place in a list.
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

// SAFETY: `inside` is reached only with the lock held, and nodes are too while they are linked; so
// data, and payloads, which others look into, move between threads at the most. Nodes refer to
// nothing else.
unsafe impl<D: Send, P: Send, const LISTS: usize> Sync for WaitQueue<D, P, LISTS> {}
// SAFETY: a linked node's owner borrows the queue: one that can be moved has none.
unsafe impl<D: Send, P: Send, const LISTS: usize> Send for WaitQueue<D, P, LISTS> {}

/// What to do with a waiter.
pub(crate) enum Verdict<R> {
    /// Take it out, and be done: whoever takes it wakes it.
    Take(R),
    /// Take it out, and go on to the next: somebody else wakes it.
    Drop,
    /// Leave it, and go on to the next.
    Skip,
    /// Leave it, and be done.
    Stop,
}

/// Where a waiter is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListEnd {
    Front,
    Back,
}

/// What a waiter does once it is in its list. No closure, for these can't be made to go into their
/// caller.
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

    /// Whether no list had waiters when somebody last left. Who must not miss a waiter learned of
    /// it by something that synchronizes, such as the mutex of a condition.
    #[inline]
    pub(crate) fn looks_empty(&self) -> bool {
        self.spin.hints() == 0
    }

    /// Goes inside. Nothing may be waited for there, and nothing of a user's run.
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
    /// How many wait in `list`.
    pub(crate) fn waiting(&self, list: usize) -> usize {
        let mut waiting = 0;
        self.lock().take::<()>(list, |_, _, _| {
            waiting += 1;
            Verdict::Skip
        });
        waiting
    }
}

/// The inside of a queue, until dropped.
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

    /// Whether nobody is in `list`.
    #[inline]
    pub(crate) fn is_empty(&mut self, list: usize) -> bool {
        self.with(|inside| inside.lists[list].head.is_null())
    }

    /// The ticket that the next waiter will get: those that wait have lower ones, but for those put
    /// in front, which keep none in order.
    #[inline]
    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.with(|inside| inside.tickets)
    }

    /// Looks at the waiters of `list`, longest wait first, until one is taken or it is told to
    /// stop.
    ///
    /// Whoever is taken must be woken, after this value is dropped.
    #[inline]
    pub(crate) fn take<R>(
        &mut self,
        list: usize,
        mut judge: impl FnMut(&'static Control, u64, &mut P) -> Verdict<R>,
    ) -> Option<(&'static Control, R)> {
        self.with(|inside| {
            let mut next = inside.lists[list].head;
            // SAFETY: null, or linked; and linked nodes live, since their owners don't leave before
            // they are taken out.
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

    /// Takes the first of `list`.
    #[inline]
    pub(crate) fn pop(&mut self, list: usize) -> Option<&'static Control> {
        self.take(list, |_, _, _| Verdict::Take(())).map(|(who, ())| who)
    }

    /// Leaves the inside, and wakes everybody who was in `list` until then, some at a time.
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

    /// Puts `who` into `list`, leaves the inside and runs `then`; gives the payload back as it is
    /// when `who` is out of the list again.
    ///
    /// `then` suspends `who`, or whatever takes long enough for others to take it out. Should it be
    /// in the list still when `then` has ended, it is taken out.
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

    /// As `enlist`, and goes into the caller.
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
        // Nobody else refers to the node now, which loom checks.
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
    /// With the lock held, and `node` in no list.
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

    /// With the lock held, and `node` linked here.
    #[inline]
    fn unlink(&mut self, node: &Node<P>) {
        let mut around = (ptr::null(), ptr::null());
        Self::set(ptr::from_ref(node), |body| around = (body.prev, body.next));
        let (prev, next) = around;
        self.join(prev, next);
        // SYNC with `linked` load in `Entry::drop`: the payload. From here on the node may be gone.
        node.linked.store(false, Ordering::Release);
    }

    /// `next` comes after `prev`; null stands for an end of the list.
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
        // SAFETY: it is linked, or about to be by its owner, so it lives.
        let node = unsafe { &*node };
        // SAFETY: the lock is held, and no other reference into a body outlives its closure.
        node.body.with_mut(|body| set(unsafe { &mut *body }));
    }
}

/// A waiter that is, or was, in a list; out of it for certain once this is dropped.
pub(crate) struct Entry<'a, D, P, const LISTS: usize> {
    queue: &'a WaitQueue<D, P, LISTS>,
    node: &'a Node<P>,
}

impl<D, P, const LISTS: usize> Entry<'_, D, P, LISTS> {
    /// Takes the waiter out; `false` if somebody has already.
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
