//! The steps of the permit protocol, as the README proves it, apart from kernel threads.

use crate::permits::counts::{fence_after_change, full_fence};
use crate::permits::{ActivationState, Permits, Released, state};

/// What the protocol needs of its surroundings: the pool with kernel threads, or a model.
pub trait Environment {
    /// The counts of permits.
    fn permits(&self) -> &Permits;

    /// The states of all activations.
    fn states(&self) -> impl Iterator<Item = &ActivationState>;

    /// Wakes the activation that waits for a permit on this state's word.
    fn wake(&self, state: &ActivationState);

    /// Sleeps on this state's word while it is `at`. May return spuriously.
    fn wait(&self, state: &ActivationState, at: u32);

    /// Unparks this state's activation.
    fn unpark(&self, state: &ActivationState);

    /// Whether this state's activation would take some of the unstarted work.
    fn takes(&self, state: &ActivationState) -> bool;

    /// Whether this state's activation would serve calls.
    fn serves(&self, state: &ActivationState) -> bool;

    /// Requests the start of an activation, and leaves the permit that the caller has in hand for
    /// it. Returns `false` if there may be no more activations; then the caller still has the
    /// permit.
    fn start_activation(&self) -> bool;

    /// Takes in hand a permit that was left for an activation to be started. Returns `false` if
    /// there is none.
    fn reclaim_permit(&self) -> bool;

    /// Whether work waits that any activation may do.
    fn unstarted(&self) -> bool;

    /// Whether any activation has ever announced a blocking call.
    fn uses_blocking_calls(&self) -> bool;

    /// Wakes the monitor, because an activation waits for a permit.
    fn wake_monitor(&self);

    /// An activation has left `BLOCKED`.
    fn blocking_ended(&self);

    /// Whether another domain wants a processor.
    fn wanted_elsewhere(&self) -> bool {
        false
    }

    /// Lends the processor of the permit in hand to another domain. Returns `false` if none takes
    /// it; then the caller still has the permit.
    fn lend(&self) -> bool {
        false
    }

    /// Has activations started until those that are not blocked in the kernel are enough for all
    /// permits.
    fn start_missing(&self);

    /// Whether the kernel thread of this state's activation runs, or is ready to run: a hint.
    fn runs(&self, state: &ActivationState) -> bool;

    /// Interrupts this state's activation, so that it gives way if it was asked to. Returns `false`
    /// if that is not possible.
    fn interrupt(&self, state: &ActivationState) -> bool;
}

/// *Grant*: gives the permit that the caller has in hand to the activation that has waited longest.
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
        // W2: some activation waits. Another granter was faster with this one, so progress was
        // made.
        underpass_seam::spin_hint();
    }
}

/// *Release*: passes the permit in hand on to a waiting activation, or frees it. If it was freed,
/// returns how many are taken now.
pub fn release(env: &impl Environment) -> Option<u32> {
    match env.permits().release() {
        Released::Owed => {
            grant(env);
            None
        }
        Released::Freed(left) => Some(left),
    }
}

/// *Free*: releases the permit in hand, then looks for work that came while the permit seemed
/// taken.
pub fn free(env: &impl Environment) {
    let Some(left) = release(env) else { return };
    fence_after_change();
    if env.unstarted() {
        request(env);
    } else if left == 0 && env.permits().take() && !hand_to(env, |state| env.serves(state)) {
        // No activation runs. One of the sleepers has to know that it is the last, so that it
        // listens. Wake one to find that out, or have one started.
        hand_over(env);
    }
}

/// Changes the state of some activation from `IN_BLOCKING_CALL` to `DETACHED`. If it returns
/// `true`, the caller has the permit in hand.
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

/// Whether fewer activations are able to run than there are permits, because the others are blocked
/// in the kernel.
pub fn too_few_able(env: &impl Environment) -> bool {
    let able = |state: &&ActivationState| {
        !matches!(
            state.hint(),
            state::DETACHED | state::BLOCKED | state::LISTENING | state::LENT | state::ENDED
        )
    };
    (env.states().filter(able).count() as u32) < env.permits().counts().own_maximum
}

/// To be called after an activation has become `DETACHED` or `BLOCKED`. Of two callers at once, at
/// least one sees both changes.
pub fn ensure_listeners(env: &impl Environment) {
    fence_after_change();
    if too_few_able(env) {
        env.start_missing();
    }
}

/// *Request*: there is work that any activation may do, and the caller has made it visible.
pub fn request(env: &impl Environment) {
    loop {
        if env.permits().counts().free() && env.permits().take() {
            // If no sleeper takes the work, a running activation may have taken it already. So
            // check again before starting an activation; otherwise each such request would add one.
            return match hand_to_sleeper(env) {
                true => {}
                false if env.unstarted() => have_started(env),
                false => free(env),
            };
        }
        if !env.uses_blocking_calls() {
            return;
        }
        full_fence();
        if env.permits().counts().free() {
            continue;
        }
        if !detach(env) || release(env).is_none() {
            return;
        }
        // The permit is free now. Whichever activation takes it first hands it over.
    }
}

/// Hands the permit in hand over to a sleeper. If there is none, has an activation started for it,
/// or releases it.
fn hand_over(env: &impl Environment) {
    if !hand_to_sleeper(env) {
        have_started(env);
    }
}

/// Has an activation started for the permit in hand, or releases the permit.
fn have_started(env: &impl Environment) {
    if !env.start_activation() {
        // There are as many activations as there may be. Each looks for work before it sleeps.
        release(env);
        return;
    }
    fence_after_change();
    // Prefer a waiting activation to a new one: starting a kernel thread is slower. The waiter may
    // have been asleep a moment ago.
    if env.permits().counts().waiting > 0 && env.reclaim_permit() {
        release(env);
    }
}

/// Hands the permit in hand over to a sleeper that would take unstarted work. Returns `false` if
/// there is none.
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

/// Makes a sleeper that suits wait for a permit, so that it takes over from an activation that will
/// be preempted.
pub fn enlist_sleeper<W: Environment>(
    env: &W,
    suits: impl Fn(&ActivationState) -> bool,
) -> Option<&ActivationState> {
    let ticket = env.permits().ticket();
    let sleeper = env.states().find(|state| {
        state.hint() == state::ASLEEP && suits(state) && state.publish(state::ASLEEP, state::WAITING, ticket)
    })?;
    env.unpark(sleeper);
    enlist(env);
    Some(sleeper)
}

/// *Enlist*: an activation has been published as waiting.
pub fn enlist(env: &impl Environment) {
    if env.permits().enlist() {
        grant(env);
    } else {
        fence_after_change();
        if detach(env) || env.reclaim_permit() {
            // The waiter for which it was taken may have another permit by now. Work may also have
            // come that saw this permit taken.
            free(env);
        }
        env.wake_monitor();
    }
}

/// Takes a permit, or waits for one. `from` is `DETACHED`, `BLOCKED`, `ASLEEP`, `LISTENING` or
/// `LENT`. On return the activation has a permit, or had one that the monitor has taken away again.
pub fn regain(env: &impl Environment, state: &ActivationState, from: u32) {
    if env.permits().take() {
        if !state.give_permit(from) {
            // Another caller gave it a permit or published it meanwhile. Work may also have come
            // that saw both permits taken.
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

/// Waits while the activation is published as waiting.
pub fn wait(env: &impl Environment, state: &ActivationState) {
    loop {
        match state.get() {
            at @ (state::WAITING | state::PREEMPTED) => env.wait(state, at),
            _ => return,
        }
    }
}

/// *Gives way*, if the activation was asked to, or has lost its permit. Takes neither lock nor
/// memory, since the signal handler does it.
pub fn give_way(env: &impl Environment, state: &ActivationState) {
    let at = loop {
        let at = state.hint();
        if at != state::PREEMPTING && at != state::BLOCKED {
            return;
        }
        // If it fails, the monitor has changed `PREEMPTING` to `BLOCKED`, or has given it a permit.
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

/// *End the excess*: the domain was asked for a processor that is in use. Permits that are left in
/// blocking calls are freed. Then as many activations are asked to give way as run beyond the
/// permits, and all that were asked are interrupted.
///
/// An activation that is blocked in the kernel is not asked. Returns `false` if that, or a signal
/// that could not be sent, leaves something to the monitor.
#[must_use = "if this is false, the monitor has to be woken"]
pub fn end_excess(env: &impl Environment) -> bool {
    let excess = || {
        let counts = env.permits().counts();
        counts.running.saturating_sub(counts.maximum)
    };
    // SYNC with the fence of `share_idle`: an activation that frees its permit finds what is owed,
    // or the caller finds the permit free.
    fence_after_change();
    while excess() > 0 && detach(env) {
        free(env);
    }
    let mut left = excess();
    for state in env.states().filter(|state| state.hint() == state::PREEMPTING) {
        // The monitor has asked it, and may have left it to come to a scheduling point.
        if env.interrupt(state) {
            left = left.saturating_sub(1);
        }
    }
    for state in env.states() {
        if left == 0 {
            return true;
        }
        let computes = state.hint() == state::RUNNING && env.runs(state);
        if computes && state.advance(state::RUNNING, state::PREEMPTING) && env.interrupt(state) {
            left -= 1;
        }
    }
    left == 0
}

/// *Begin* of a blocking call, from `B1` on.
#[inline]
pub fn begin(env: &impl Environment, state: &ActivationState) {
    if !state.advance(state::RUNNING, state::IN_BLOCKING_CALL) {
        return begin_without_permit(env, state);
    }
    fence_after_change();
    let counts = env.permits().counts();
    if counts.waiting > 0 || env.unstarted() {
        begin_while_others_wait(env, state);
    } else if counts.limited && env.wanted_elsewhere() {
        begin_and_lend(env, state);
    }
}

/// B5: another domain wants the processor meanwhile.
#[cold]
fn begin_and_lend(env: &impl Environment, state: &ActivationState) {
    if state.advance(state::IN_BLOCKING_CALL, state::DETACHED) {
        ensure_listeners(env);
        if !env.lend() {
            return free(env);
        }
        // Work may have come that saw this permit taken. It wants a processor now.
        fence_after_change();
        if env.unstarted() {
            request(env);
            env.wake_monitor();
        }
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
            // It is in a blocking call already.
            _ => return,
        }
    }
}

/// *End* of a blocking call. Returns `false` if the permit is gone; then the caller has to
/// [`regain`] one.
#[inline]
pub fn end(state: &ActivationState) -> bool {
    state.advance(state::IN_BLOCKING_CALL, state::RUNNING) || state.hint() != state::DETACHED
}

/// *Idling*, `I1`: changes the state to `ASLEEP`, or a listener's to `LISTENING`. Returns whether
/// no permit is taken any more.
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

/// *Keep*, after [`retire`] to `ASLEEP`: takes the permit again, since another domain is to have
/// the caller's processor meanwhile. Returns `false` if the permit has gone elsewhere. Then there
/// is no processor to donate.
pub fn keep(env: &impl Environment) -> bool {
    env.permits().take()
}

/// After the sleep: the processor is back, and the caller goes on with the permit that it has kept.
pub fn use_kept(env: &impl Environment, state: &ActivationState) {
    if !state.give_permit(state::ASLEEP) {
        // Another thread gave it a permit or published it meanwhile.
        free(env);
    }
}

/// Whether no activation runs. Then nobody leaves the caller work with less than a full fence until
/// it sleeps (A′ of the README).
///
/// An activation that comes to a processor after this check finds the caller's state and permit as
/// its `I1` left them, since `I1` comes before the check. The order of the two checks matters: an
/// activation that was blocked, and has a permit again, took the permit before it left `BLOCKED`.
pub fn is_alone(env: &impl Environment) -> bool {
    fence_after_change();
    let alone =
        !env.states().any(|state| state.hint() == state::BLOCKED) && env.permits().counts().running == 0;
    // `I4` sees what others left before they released their permits.
    fence_after_change();
    alone
}

/// *Invite*: calls have come that any activation may serve, or no activation runs any more. If a
/// permit is free, wakes a sleeper. It looks for calls, and if it is the last, it listens for more
/// in its next sleep.
pub fn invite(env: &impl Environment) {
    let sleeper = |state: &ActivationState| state.hint() == state::ASLEEP && env.serves(state);
    while env.permits().counts().free() && env.permits().take() && !hand_to(env, |state| env.serves(state)) {
        let Some(left) = release(env) else { return };
        fence_after_change();
        if env.unstarted() {
            return request(env);
        }
        // An activation that went to sleep while this permit seemed taken does not know that it is
        // the last. As in `free` it is woken to find that out. But none is started for calls.
        if left > 0 || !env.states().any(sleeper) {
            return;
        }
    }
}

/// *Serve*: calls wait, and no activation takes them. If a permit is free, wakes a sleeper that
/// serves calls, or has an activation started.
pub fn serve(env: &impl Environment) {
    if env.permits().counts().free() && env.permits().take() && !hand_to(env, |state| env.serves(state)) {
        have_started(env);
    }
}

/// *End for good*: changes the state of a sleeper to `ENDED`. Returns `false` if it was given a
/// permit or published as waiting meanwhile. If it was the last that went to sleep, another sleeper
/// has to know that it is the last now, so that it listens.
pub fn end_for_good(env: &impl Environment, state: &ActivationState) -> bool {
    let ended = state.advance(state::ASLEEP, state::ENDED);
    fence_after_change();
    let alone = ended && env.permits().counts().running == 0;
    if alone && env.permits().take() && !hand_to(env, |state| env.serves(state)) {
        free(env);
    }
    ended
}

/// After the sleep: returns with a permit, one that it takes or one that it was given.
pub fn resume(env: &impl Environment, state: &ActivationState) {
    match state.get() {
        state::ASLEEP => regain(env, state, state::ASLEEP),
        _ => wait(env, state),
    }
}
