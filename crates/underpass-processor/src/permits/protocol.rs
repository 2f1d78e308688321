//! The protocol of permits and states, as the README proves it, apart from kernel threads.

use crate::permits::counts::{fence_after_change, full_fence};
use crate::permits::{ActivationState, Permits, Released, state};

/// What the protocol needs of the env around it.
pub trait Environment {
    /// The permits.
    fn permits(&self) -> &Permits;

    /// Every state that there is.
    fn states(&self) -> impl Iterator<Item = &ActivationState>;

    /// Wakes who waits on this state's word.
    fn wake(&self, state: &ActivationState);

    /// Sleeps on this state's word while it is `at`. May return for no reason.
    fn wait(&self, state: &ActivationState, at: u32);

    /// Calls the parker of this state's activation.
    fn unpark(&self, state: &ActivationState);

    /// Whether this state's activation would take some of the unstarted work.
    fn takes(&self, state: &ActivationState) -> bool;

    /// Whether this state's activation would serve calls.
    fn serves(&self, state: &ActivationState) -> bool;

    /// Has an activation started, for which the permit is that the caller has in hand; `false` if
    /// there are too many.
    fn start_activation(&self) -> bool;

    /// Takes in hand a permit that lies there for an activation that is being started; whether there
    /// was one.
    fn reclaim_permit(&self) -> bool;

    /// Whether work waits that any activation may do.
    fn unstarted(&self) -> bool;

    /// Whether anybody has used a blocking bracket.
    fn bracketed(&self) -> bool;

    /// Somebody waits for a permit.
    fn wake_monitor(&self);

    /// A state has left `BLOCKED`.
    fn blocking_ended(&self);

    /// Has activations started until there are enough for all permits beside those that are blocked
    /// in the kernel.
    fn start_missing(&self);
}

/// *Grant*: states the one who has waited longest, with the permit that the caller has in hand.
pub fn grant(env: &impl Environment) {
    loop {
        let mut longest: Option<(u64, u32, &ActivationState)> = None;
        for state in env.states() {
            if let Some((ticket, at)) = state.published()
                && longest.is_none_or(|(least, ..)| ticket < least)
            {
                longest = Some((ticket, at, state));
            }
        }
        if let Some((_, at, state)) = longest
            && state.give_permit(at)
        {
            return env.wake(state);
        }
        // W2: there is one, and who was quicker has gone on.
        underpass_seam::spin_hint();
    }
}

/// *Release*: passes the permit in hand on to who waits, or frees it; how many are taken then, if it
/// was freed.
pub fn release(env: &impl Environment) -> Option<u32> {
    match env.permits().release() {
        Released::Owed => {
            grant(env);
            None
        }
        Released::Freed(left) => Some(left),
    }
}

/// *Free*: releases the permit in hand, and sees to work that came when it seemed taken.
pub fn free(env: &impl Environment) {
    let Some(left) = release(env) else { return };
    fence_after_change();
    if env.unstarted() {
        request(env);
    } else if left == 0 && env.permits().take() && !hand_to(env, |state| env.serves(state)) {
        // Where nobody runs, one who sleeps has to know that it is the last, and listens: it is
        // called to find out, or one is started.
        hand_over(env);
    }
}

/// Moves some state from `IN_BLOCKING_CALL` to `DETACHED`: the permit is in the caller's hand then.
pub fn detach(env: &impl Environment) -> bool {
    let out = |state: &ActivationState| {
        state.hint() == state::IN_BLOCKING_CALL && state.advance(state::IN_BLOCKING_CALL, state::DETACHED)
    };
    let detached = env.states().any(out);
    if detached {
        ensure_listeners(env);
    }
    detached
}

/// Whether fewer activations could run than there are permits, the others being blocked in the
/// kernel.
pub fn too_few_able(env: &impl Environment) -> bool {
    let able = |state: &&ActivationState| {
        !matches!(
            state.hint(),
            state::DETACHED | state::BLOCKED | state::LISTENING | state::LENT | state::ENDED
        )
    };
    (env.states().filter(able).count() as u32) < env.permits().counts().maximum
}

/// A state has been adjusted to `DETACHED` or `BLOCKED`. Of two who do so at once, one sees both.
pub fn ensure_listeners(env: &impl Environment) {
    fence_after_change();
    if too_few_able(env) {
        env.start_missing();
    }
}

/// *Request*: there is work that any activation may do, and it has been made visible.
pub fn request(env: &impl Environment) {
    loop {
        if env.permits().counts().free() && env.permits().take() {
            // What no sleeper would take may have been taken by who runs: for that nobody is started,
            // else there would be one more each time.
            return match hand_to_sleeper(env) {
                true => {}
                false if env.unstarted() => have_started(env),
                false => free(env),
            };
        }
        if !env.bracketed() {
            return;
        }
        full_fence();
        if env.permits().counts().free() {
            continue;
        }
        if !detach(env) || release(env).is_none() {
            return;
        }
        // It is free now; who takes it first hands it over.
    }
}

/// Hands the permit in hand over to one who sleeps, or has one started for it, or releases it.
fn hand_over(env: &impl Environment) {
    if !hand_to_sleeper(env) {
        have_started(env);
    }
}

/// Has one started for the permit in hand, or releases it.
fn have_started(env: &impl Environment) {
    if !env.start_activation() {
        // There are as many activations as there may be: each looks for work before it sleeps.
        release(env);
        return;
    }
    fence_after_change();
    // Who waits shall not wait for a birth: it was asleep a moment ago perhaps.
    if env.permits().counts().waiting > 0 && env.reclaim_permit() {
        release(env);
    }
}

/// Hands the permit in hand over to one who sleeps, if one does.
pub fn hand_to_sleeper(env: &impl Environment) -> bool {
    hand_to(env, |state| env.takes(state))
}

fn hand_to(env: &impl Environment, suits: impl Fn(&ActivationState) -> bool) -> bool {
    let mut states = env.states();
    let sleeper = states
        .find(|state| state.hint() == state::ASLEEP && suits(state) && state.give_permit(state::ASLEEP));
    if let Some(state) = sleeper {
        env.unpark(state);
    }
    sleeper.is_some()
}

/// Has somebody who sleeps wait for a permit, to take over from one who will be preempted.
pub fn enlist_sleeper<W: Environment>(env: &W) -> Option<&ActivationState> {
    let ticket = env.permits().ticket();
    let sleeper = env.states().find(|state| {
        state.hint() == state::ASLEEP
            && env.takes(state)
            && state.publish(state::ASLEEP, state::WAITING, ticket)
    })?;
    env.unpark(sleeper);
    enlist(env);
    Some(sleeper)
}

/// *Enlist*: a state has been published.
pub fn enlist(env: &impl Environment) {
    if env.permits().enlist() {
        grant(env);
    } else {
        fence_after_change();
        if detach(env) || env.reclaim_permit() {
            // By now who was to get it may have another, and work may have come that saw it taken.
            free(env);
        }
        env.wake_monitor();
    }
}

/// Takes a permit, or waits for one; `from` is `DETACHED`, `BLOCKED`, `ASLEEP` or `LISTENING`. On
/// return it has one, or lost it again to the monitor.
pub fn regain(env: &impl Environment, state: &ActivationState, from: u32) {
    if env.permits().take() {
        if !state.give_permit(from) {
            // Somebody given it or called it up meanwhile; and work may have come that saw both
            // permits taken.
            free(env);
        }
    } else if state.publish(from, state::WAITING, env.permits().ticket()) {
        enlist(env);
    }
    if from == state::BLOCKED {
        env.blocking_ended();
    }
    wait(env, state);
}

/// Waits while the state is published.
pub fn wait(env: &impl Environment, state: &ActivationState) {
    loop {
        match state.get() {
            at @ (state::WAITING | state::PREEMPTED) => env.wait(state, at),
            _ => return,
        }
    }
}

/// *Gives way*, if the state was asked to, or has lost its permit. Takes no lock and no memory: the
/// handler does it.
pub fn give_way(env: &impl Environment, state: &ActivationState) {
    let at = loop {
        let at = state.hint();
        if at != state::PREEMPTING && at != state::BLOCKED {
            return;
        }
        // If not, the monitor has adjusted it from the one to the other, or given it a permit.
        if state.publish(at, state::PREEMPTED, env.permits().ticket()) {
            break at;
        }
    };
    enlist(env);
    match at {
        state::PREEMPTING => free(env),
        _ => env.blocking_ended(),
    }
    wait(env, state);
}

/// *Begin*, from `B1` on: a blocking call.
#[inline]
pub fn begin(env: &impl Environment, state: &ActivationState) {
    if !state.advance(state::RUNNING, state::IN_BLOCKING_CALL) {
        return begin_without_permit(env, state);
    }
    fence_after_change();
    if env.permits().counts().waiting > 0 || env.unstarted() {
        begin_while_others_wait(env, state);
    }
}

#[cold]
fn begin_while_others_wait(env: &impl Environment, state: &ActivationState) {
    if state.advance(state::IN_BLOCKING_CALL, state::DETACHED) {
        ensure_listeners(env);
        free(env);
    }
}

#[cold]
fn begin_without_permit(env: &impl Environment, state: &ActivationState) {
    loop {
        match state.hint() {
            state::PREEMPTING if state.advance(state::PREEMPTING, state::DETACHED) => {
                ensure_listeners(env);
                return free(env);
            }
            state::BLOCKED if state.advance(state::BLOCKED, state::DETACHED) => return env.blocking_ended(),
            state::RUNNING => return begin(env, state),
            state::PREEMPTING | state::BLOCKED => {}
            // In a call already.
            _ => return,
        }
    }
}

/// *End* of a blocking call; `false` if the permit is gone, and the caller is to [`regain`] one.
#[inline]
pub fn end(state: &ActivationState) -> bool {
    state.advance(state::IN_BLOCKING_CALL, state::RUNNING) || state.hint() != state::DETACHED
}

/// *Idling*, `I1`: moves the state to `ASLEEP`, or a listener's to `LISTENING`, and says whether no
/// permit is taken any more.
pub fn retire(env: &impl Environment, state: &ActivationState, to: u32) -> bool {
    loop {
        match state.hint() {
            at @ (state::RUNNING | state::PREEMPTING) if state.advance(at, to) => break,
            state::BLOCKED => regain(env, state, state::BLOCKED),
            _ => {}
        }
    }
    while detach(env) {
        release(env);
    }
    release(env) == Some(0)
}

/// Whether no activation runs, so that nobody leaves the asker work with less than a full fence
/// until it sleeps: who comes to a processor after this look finds the asker's state and permit as its
/// `I1` left them, which comes before. In this order: who was blocked, and has a permit again, took it
/// before it left that state.
pub fn is_alone(env: &impl Environment) -> bool {
    fence_after_change();
    let alone =
        !env.states().any(|state| state.hint() == state::BLOCKED) && env.permits().counts().running == 0;
    // What others left before they released their permits is seen in `I4`.
    fence_after_change();
    alone
}

/// *Invite*: calls have come that any activation may serve, or nobody runs any more. If a processor
/// is free, calls one that sleeps: it looks for calls, and if it is the last, listens for more in
/// its next sleep.
pub fn invite(env: &impl Environment) {
    if env.permits().counts().free() && env.permits().take() && !hand_to(env, |state| env.serves(state)) {
        release(env);
    }
}

/// *Serve*: calls wait that nobody takes. If a processor is free, calls one that sleeps and serves,
/// or has one started.
pub fn serve(env: &impl Environment) {
    if env.permits().counts().free() && env.permits().take() && !hand_to(env, |state| env.serves(state)) {
        have_started(env);
    }
}

/// *End for good*: moves the state of one that sleeps to `ENDED`; `false` if it was handed a permit,
/// or called up. If it was the last that went to sleep, another has to know that it is now, and
/// listens.
pub fn end_for_good(env: &impl Environment, state: &ActivationState) -> bool {
    let ended = state.advance(state::ASLEEP, state::ENDED);
    fence_after_change();
    let alone = ended && env.permits().counts().running == 0;
    if alone && env.permits().take() && !hand_to(env, |state| env.serves(state)) {
        free(env);
    }
    ended
}

/// After the sleep: comes back with a permit, its own or one that it was handed.
pub fn resume(env: &impl Environment, state: &ActivationState) {
    match state.get() {
        state::ASLEEP => regain(env, state, state::ASLEEP),
        _ => wait(env, state),
    }
}
