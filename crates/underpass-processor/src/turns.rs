//! The protocol of slots and seats, as the README proves it, apart from kernel threads.

use crate::seat::{Seat, state};
use crate::slots::{Released, Slots, fence_after_change, full_fence};

/// What the protocol needs of the world around it.
pub trait World {
    /// The slots.
    fn slots(&self) -> &Slots;

    /// Every seat that there is.
    fn seats(&self) -> impl Iterator<Item = &Seat>;

    /// Wakes who waits on this seat's word.
    fn wake(&self, seat: &Seat);

    /// Sleeps on this seat's word while it is `at`. May return for no reason.
    fn wait(&self, seat: &Seat, at: u32);

    /// Calls the parker of this seat's activation.
    fn rouse(&self, seat: &Seat);

    /// Whether this seat's activation would take some of the unstarted work.
    fn takes(&self, seat: &Seat) -> bool;

    /// Whether this seat's activation would serve calls.
    fn serves(&self, seat: &Seat) -> bool;

    /// Has an activation started, for which the slot is that the caller has in hand; `false` if
    /// there are too many.
    fn beget(&self) -> bool;

    /// Takes in hand a slot that lies there for an activation that is being started; whether there
    /// was one.
    fn reclaim(&self) -> bool;

    /// Whether work waits that any activation may do.
    fn unstarted(&self) -> bool;

    /// Whether anybody has used a blocking bracket.
    fn bracketed(&self) -> bool;

    /// Somebody waits for a slot.
    fn heed(&self);

    /// A seat has left `STUCK`.
    fn unstuck(&self);

    /// Has activations started until there are enough for all slots beside those that are blocked
    /// in the kernel.
    fn replenish(&self);
}

/// *Grant*: seats the one who has waited longest, with the slot that the caller has in hand.
pub fn grant(world: &impl World) {
    loop {
        let mut longest: Option<(u64, u32, &Seat)> = None;
        for seat in world.seats() {
            if let Some((ticket, at)) = seat.published()
                && longest.is_none_or(|(least, ..)| ticket < least)
            {
                longest = Some((ticket, at, seat));
            }
        }
        if let Some((_, at, seat)) = longest
            && seat.seat(at)
        {
            return world.wake(seat);
        }
        // W2: there is one, and who was quicker has gone on.
        underpass_seam::spin_hint();
    }
}

/// *Release*: passes the slot in hand on to who waits, or frees it; how many are taken then, if it
/// was freed.
pub fn release(world: &impl World) -> Option<u32> {
    match world.slots().release() {
        Released::Owed => {
            grant(world);
            None
        }
        Released::Freed(left) => Some(left),
    }
}

/// *Free*: releases the slot in hand, and sees to work that came when it seemed taken.
pub fn free(world: &impl World) {
    let Some(left) = release(world) else { return };
    fence_after_change();
    if world.unstarted() {
        request(world);
    } else if left == 0 && world.slots().take() && !hand_to(world, |seat| world.serves(seat)) {
        // Where nobody runs, one who sleeps has to know that it is the last, and listens: it is
        // called to find out, or one is started.
        hand_over(world);
    }
}

/// Moves some seat from `OUT` to `DETACHED`: the slot is in the caller's hand then.
pub fn detach(world: &impl World) -> bool {
    let out = |seat: &Seat| seat.hint() == state::OUT && seat.advance(state::OUT, state::DETACHED);
    let detached = world.seats().any(out);
    if detached {
        see_to_listeners(world);
    }
    detached
}

/// Whether fewer activations could run than there are slots, the others being blocked in the
/// kernel.
pub fn short(world: &impl World) -> bool {
    let able = |seat: &&Seat| {
        !matches!(seat.hint(), state::DETACHED | state::STUCK | state::LISTENING | state::LENT | state::ENDED)
    };
    (world.seats().filter(able).count() as u32) < world.slots().counts().maximum
}

/// A seat has been moved to `DETACHED` or `STUCK`. Of two who do so at once, one sees both.
pub fn see_to_listeners(world: &impl World) {
    fence_after_change();
    if short(world) {
        world.replenish();
    }
}

/// *Request*: there is work that any activation may do, and it has been made visible.
pub fn request(world: &impl World) {
    loop {
        if world.slots().counts().free() && world.slots().take() {
            // What no sleeper would take may have been taken by who runs: for that nobody is born,
            // else there would be one more each time.
            return match hand_to_sleeper(world) {
                true => {}
                false if world.unstarted() => have_born(world),
                false => free(world),
            };
        }
        if !world.bracketed() {
            return;
        }
        full_fence();
        if world.slots().counts().free() {
            continue;
        }
        if !detach(world) || release(world).is_none() {
            return;
        }
        // It is free now; who takes it first hands it over.
    }
}

/// Hands the slot in hand over to one who sleeps, or has one born for it, or releases it.
fn hand_over(world: &impl World) {
    if !hand_to_sleeper(world) {
        have_born(world);
    }
}

/// Has one born for the slot in hand, or releases it.
fn have_born(world: &impl World) {
    if !world.beget() {
        // There are as many activations as there may be: each looks for work before it sleeps.
        release(world);
        return;
    }
    fence_after_change();
    // Who waits shall not wait for a birth: it was asleep a moment ago perhaps.
    if world.slots().counts().waiting > 0 && world.reclaim() {
        release(world);
    }
}

/// Hands the slot in hand over to one who sleeps, if one does.
pub fn hand_to_sleeper(world: &impl World) -> bool {
    hand_to(world, |seat| world.takes(seat))
}

fn hand_to(world: &impl World, suits: impl Fn(&Seat) -> bool) -> bool {
    let mut seats = world.seats();
    let sleeper = seats.find(|seat| seat.hint() == state::ASLEEP && suits(seat) && seat.seat(state::ASLEEP));
    if let Some(seat) = sleeper {
        world.rouse(seat);
    }
    sleeper.is_some()
}

/// Has somebody who sleeps wait for a slot, to take over from one who will be preempted.
pub fn call_up<W: World>(world: &W) -> Option<&Seat> {
    let ticket = world.slots().ticket();
    let sleeper = world.seats().find(|seat| {
        seat.hint() == state::ASLEEP
            && world.takes(seat)
            && seat.publish(state::ASLEEP, state::WAITING, ticket)
    })?;
    world.rouse(sleeper);
    enlist(world);
    Some(sleeper)
}

/// *Enlist*: a seat has been published.
pub fn enlist(world: &impl World) {
    if world.slots().enlist() {
        grant(world);
    } else {
        fence_after_change();
        if detach(world) || world.reclaim() {
            // By now who was to get it may have another, and work may have come that saw it taken.
            free(world);
        }
        world.heed();
    }
}

/// Takes a slot, or waits for one; `from` is `DETACHED`, `STUCK`, `ASLEEP` or `LISTENING`. On
/// return it has one, or lost it again to the monitor.
pub fn regain(world: &impl World, seat: &Seat, from: u32) {
    if world.slots().take() {
        if !seat.seat(from) {
            // Somebody seated it or called it up meanwhile; and work may have come that saw both
            // slots taken.
            free(world);
        }
    } else if seat.publish(from, state::WAITING, world.slots().ticket()) {
        enlist(world);
    }
    if from == state::STUCK {
        world.unstuck();
    }
    wait(world, seat);
}

/// Waits while the seat is published.
pub fn wait(world: &impl World, seat: &Seat) {
    loop {
        match seat.get() {
            at @ (state::WAITING | state::PREEMPTED) => world.wait(seat, at),
            _ => return,
        }
    }
}

/// *Gives way*, if the seat was asked to, or has lost its slot. Takes no lock and no memory: the
/// handler does it.
pub fn give_way(world: &impl World, seat: &Seat) {
    let at = loop {
        let at = seat.hint();
        if at != state::PREEMPTING && at != state::STUCK {
            return;
        }
        // If not, the monitor has moved it from the one to the other, or given it a slot.
        if seat.publish(at, state::PREEMPTED, world.slots().ticket()) {
            break at;
        }
    };
    enlist(world);
    match at {
        state::PREEMPTING => free(world),
        _ => world.unstuck(),
    }
    wait(world, seat);
}

/// *Begin*, from `B1` on: a blocking call.
#[inline]
pub fn begin(world: &impl World, seat: &Seat) {
    if !seat.advance(state::RUNNING, state::OUT) {
        return begin_otherwise(world, seat);
    }
    fence_after_change();
    if world.slots().counts().waiting > 0 || world.unstarted() {
        begin_among_others(world, seat);
    }
}

#[cold]
fn begin_among_others(world: &impl World, seat: &Seat) {
    if seat.advance(state::OUT, state::DETACHED) {
        see_to_listeners(world);
        free(world);
    }
}

#[cold]
fn begin_otherwise(world: &impl World, seat: &Seat) {
    loop {
        match seat.hint() {
            state::PREEMPTING if seat.advance(state::PREEMPTING, state::DETACHED) => {
                see_to_listeners(world);
                return free(world);
            }
            state::STUCK if seat.advance(state::STUCK, state::DETACHED) => return world.unstuck(),
            state::RUNNING => return begin(world, seat),
            state::PREEMPTING | state::STUCK => {}
            // In a call already.
            _ => return,
        }
    }
}

/// *End* of a blocking call; `false` if the slot is gone, and the caller is to [`regain`] one.
#[inline]
pub fn end(seat: &Seat) -> bool {
    seat.advance(state::OUT, state::RUNNING) || seat.hint() != state::DETACHED
}

/// *Idling*, `I1`: moves the seat to `ASLEEP`, or a listener's to `LISTENING`, and says whether no
/// slot is taken any more.
pub fn retire(world: &impl World, seat: &Seat, to: u32) -> bool {
    loop {
        match seat.hint() {
            at @ (state::RUNNING | state::PREEMPTING) if seat.advance(at, to) => break,
            state::STUCK => regain(world, seat, state::STUCK),
            _ => {}
        }
    }
    while detach(world) {
        release(world);
    }
    release(world) == Some(0)
}

/// Whether no activation runs, so that nobody leaves the asker work with less than a full fence
/// until it sleeps: who comes to a processor after this look finds the asker's seat and slot as its
/// `I1` left them, which comes before. In this order: who was stuck, and has a slot again, took it
/// before it left that state.
pub fn is_alone(world: &impl World) -> bool {
    fence_after_change();
    let alone = !world.seats().any(|seat| seat.hint() == state::STUCK) && world.slots().counts().running == 0;
    // What others left before they released their slots is seen in `I4`.
    fence_after_change();
    alone
}

/// *Invite*: calls have come that any activation may serve, or nobody runs any more. If a processor
/// is free, calls one that sleeps: it looks for calls, and if it is the last, listens for more in
/// its next sleep.
pub fn invite(world: &impl World) {
    if world.slots().counts().free() && world.slots().take() && !hand_to(world, |seat| world.serves(seat)) {
        release(world);
    }
}

/// *Serve*: calls wait that nobody takes. If a processor is free, calls one that sleeps and serves,
/// or has one started.
pub fn serve(world: &impl World) {
    if world.slots().counts().free() && world.slots().take() && !hand_to(world, |seat| world.serves(seat)) {
        have_born(world);
    }
}

/// *End for good*: moves the seat of one that sleeps to `ENDED`; `false` if it was handed a slot,
/// or called up. If it was the last that went to sleep, another has to know that it is now, and
/// listens.
pub fn end_for_good(world: &impl World, seat: &Seat) -> bool {
    let ended = seat.advance(state::ASLEEP, state::ENDED);
    fence_after_change();
    let alone = ended && world.slots().counts().running == 0;
    if alone && world.slots().take() && !hand_to(world, |seat| world.serves(seat)) {
        free(world);
    }
    ended
}

/// After the sleep: comes back with a slot, its own or one that it was handed.
pub fn resume(world: &impl World, seat: &Seat) {
    match seat.get() {
        state::ASLEEP => regain(world, seat, state::ASLEEP),
        _ => wait(world, seat),
    }
}
