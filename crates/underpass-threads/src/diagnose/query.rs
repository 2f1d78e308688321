//! Queries to every activation, for dumps and the search for deadlocks.
//!
//! An activation answers for its own state, between two threads. One that doesn't come to that,
//! because a thread computes or is in a blocking call, counts as unresponsive.

use crate::sched::activations;
use crate::sched::scheduler::Scheduler;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long an activation has to begin its answer.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long an activation has to finish its answer: a report on a million threads takes its time.
const LIMIT: Duration = Duration::from_secs(30);

enum Answer<T> {
    None,
    Begun,
    Given(T),
}

/// One query. The activations write `answers`, until the asking thread closes it.
struct Query<T> {
    answers: Mutex<(Vec<Answer<T>>, bool)>,
    answered: Condvar,
}

impl<T> Query<T> {
    fn lock(&self) -> MutexGuard<'_, (Vec<Answer<T>>, bool)> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores an answer. `false`: nobody waits for it any more.
    fn put(&self, number: usize, answer: Answer<T>) -> bool {
        let mut answers = self.lock();
        let open = !answers.1;
        if open {
            answers.0[number] = answer;
            drop(answers);
            self.answered.notify_one();
        }
        open
    }
}

/// Asks all activations, and waits for their answers in the kernel. Returns the answers with the
/// numbers of their activations, then the numbers of the unresponsive ones. Not to be called on an
/// activation, which could not answer meanwhile.
pub(crate) fn all<T: Send + 'static>(
    question: impl Fn(&'static Scheduler) -> T + Send + Sync + 'static,
) -> (Vec<(usize, T)>, Vec<usize>) {
    let asked: Vec<_> = activations::all().filter(|outside| !outside.activation.has_ended()).collect();
    let answers = Mutex::new((asked.iter().map(|_| Answer::None).collect(), false));
    let shared = Arc::new((Query { answers, answered: Condvar::new() }, question));
    for (place, outside) in asked.iter().enumerate() {
        let shared = shared.clone();
        outside.inject(Box::new(move |own| {
            if shared.0.put(place, Answer::Begun) {
                let answer = (shared.1)(own);
                shared.0.put(place, Answer::Given(answer));
            }
        }));
    }
    let answers = wait(&shared.0);
    let mut given = Vec::new();
    let mut unresponsive = Vec::new();
    for (outside, answer) in asked.iter().zip(answers) {
        let number = outside.activation.number();
        match answer {
            Answer::Given(answer) => given.push((number, answer)),
            Answer::None | Answer::Begun => unresponsive.push(number),
        }
    }
    (given, unresponsive)
}

fn wait<T>(asked: &Query<T>) -> Vec<Answer<T>> {
    let begun = Instant::now();
    let mut answers = asked.lock();
    loop {
        let waits_for = |answer: &Answer<T>| match answer {
            Answer::None => Some(PATIENCE),
            Answer::Begun => Some(LIMIT),
            Answer::Given(_) => None,
        };
        let until = answers.0.iter().filter_map(waits_for).max();
        let left = until.and_then(|until| until.checked_sub(begun.elapsed())).filter(|left| !left.is_zero());
        let Some(left) = left else { break };
        answers = asked.answered.wait_timeout(answers, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    answers.1 = true;
    std::mem::take(&mut answers.0)
}
