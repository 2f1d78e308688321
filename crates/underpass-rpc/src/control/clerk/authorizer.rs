//! Calls a server's `authorize` for importing clients, so that the clerk does not wait for the code
//! of the server's author.
//!
//! Each user has a queue of its own, and at most one question about a user is asked at a time. So
//! slow answers about one user occupy one kernel thread, and delay no other user while other kernel
//! threads are free. If there are more users than kernel threads, the users take turns.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use underpass_threads::critical;

/// The most kernel threads that ask.
const MOST_THREADS: usize = 16;
/// The most questions about one user's clients that can wait.
const MOST_QUESTIONS: usize = 64;
/// How long a kernel thread, except the first, stays without a question.
const IDLE: Duration = Duration::from_secs(10);

/// Asks about one client, and then makes the binding or refuses it.
pub(super) type Question = Box<dyn FnOnce() + Send>;

/// The queues, and the kernel threads that work on them. Clones share both.
#[derive(Clone, Default)]
pub(crate) struct Authorizer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queues: Mutex<Queues>,
    /// A user has its turn.
    turn: Condvar,
}

#[derive(Default)]
struct Queues {
    /// The waiting questions of each user about whom a question waits or is being asked.
    waiting: HashMap<u32, VecDeque<Question>>,
    /// The users about whom a question waits and none is being asked, in the order of their turns.
    turns: VecDeque<u32>,
    threads: usize,
    /// How many of the threads wait for a turn.
    idle: usize,
}

impl Authorizer {
    /// Starts the first kernel thread, if it doesn't run yet.
    pub(crate) fn start(&self) -> io::Result<()> {
        let _held = critical();
        let mut queues = self.queues();
        if queues.threads > 0 { Ok(()) } else { self.start_one(&mut queues) }
    }

    /// Queues a question about a client of `user`. Returns `false` if too many wait already.
    pub(super) fn ask(&self, user: u32, question: Question) -> bool {
        let mut queues = self.queues();
        let Queues { waiting, turns, .. } = &mut *queues;
        match waiting.get_mut(&user) {
            Some(waiting) if waiting.len() >= MOST_QUESTIONS => return false,
            Some(waiting) => {
                // The user's earlier questions come first.
                waiting.push_back(question);
                return true;
            }
            None => {
                waiting.insert(user, VecDeque::from([question]));
                turns.push_back(user);
            }
        }
        if queues.turns.len() > queues.idle && queues.threads < MOST_THREADS {
            // If no thread can be started, the user waits for the existing ones.
            let started = self.start_one(&mut queues);
            if started.is_err() && queues.threads == 0 {
                queues.turns.pop_back();
                queues.waiting.remove(&user);
                return false;
            }
        }
        drop(queues);
        self.0.turn.notify_one();
        true
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.0.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_one(&self, queues: &mut Queues) -> io::Result<()> {
        let own = self.clone();
        std::thread::Builder::new().name("underpass-auth".to_owned()).spawn(move || own.work())?;
        queues.threads += 1;
        Ok(())
    }

    /// The loop of each kernel thread. Questions don't panic.
    fn work(&self) {
        while let Some((user, question)) = self.next() {
            question();
            let mut queues = self.queues();
            let Queues { waiting, turns, .. } = &mut *queues;
            match waiting.get(&user).is_some_and(|waiting| !waiting.is_empty()) {
                true => turns.push_back(user),
                false => drop(waiting.remove(&user)),
            }
        }
    }

    /// The next question, and the user that it is about. `None` if this kernel thread must end.
    fn next(&self) -> Option<(u32, Question)> {
        let mut queues = self.queues();
        loop {
            if let Some(user) = queues.turns.pop_front() {
                let question = queues.waiting.get_mut(&user).and_then(VecDeque::pop_front);
                return Some((user, question.expect("a user has its turn while a question waits")));
            }
            queues.idle += 1;
            let woken = self.0.turn.wait_timeout(queues, IDLE);
            let (back, waited) = woken.unwrap_or_else(PoisonError::into_inner);
            queues = back;
            queues.idle -= 1;
            if waited.timed_out() && queues.turns.is_empty() && queues.threads > 1 {
                queues.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A question about a client of `user`. It sends `user` when it is asked, and lasts until it is
    /// released.
    fn slow(authorizer: &Authorizer, user: u32, tell: &Sender<u32>) -> Option<Sender<()>> {
        let ((release, released), tell) = (channel::<()>(), tell.clone());
        let question = move || {
            tell.send(user).unwrap();
            let _ = released.recv();
        };
        authorizer.ask(user, Box::new(question)).then_some(release)
    }

    fn next(told: &Receiver<u32>) -> u32 {
        told.recv().unwrap()
    }

    #[test]
    fn a_slow_answer_about_one_user_delays_no_other() {
        let (authorizer, (tell, told)) = (Authorizer::default(), channel());
        let slow_one = slow(&authorizer, 1, &tell).unwrap();
        assert_eq!(next(&told), 1);
        let second = slow(&authorizer, 1, &tell).unwrap();
        let other = slow(&authorizer, 2, &tell).unwrap();
        assert_eq!(next(&told), 2, "while the first is being asked");
        drop(other);
        assert!(told.try_recv().is_err(), "one question at a time for each user");
        drop(slow_one);
        assert_eq!(next(&told), 1);
        drop(second);
    }

    #[test]
    fn a_user_has_a_bounded_number_of_waiting_questions() {
        let (authorizer, (tell, told)) = (Authorizer::default(), channel());
        let asked = slow(&authorizer, 1, &tell).unwrap();
        assert_eq!(next(&told), 1);
        let waiting: Vec<_> = (0..MOST_QUESTIONS).map(|_| slow(&authorizer, 1, &tell).unwrap()).collect();
        assert!(slow(&authorizer, 1, &tell).is_none(), "too many");
        let other = slow(&authorizer, 2, &tell).unwrap();
        assert_eq!(next(&told), 2);
        drop((other, asked, waiting));
        assert!((0..MOST_QUESTIONS).all(|_| next(&told) == 1), "all are asked in the end");
        drop(tell);
        assert!(told.recv().is_err());
        // Users without questions are forgotten.
        while !authorizer.queues().waiting.is_empty() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn users_take_turns_where_kernel_threads_are_too_few() {
        let (authorizer, (tell, told)) = (Authorizer::default(), channel());
        let many = MOST_THREADS as u32;
        let mut slow_ones: Vec<_> = (0..many).map(|user| slow(&authorizer, user, &tell).unwrap()).collect();
        let mut begun: Vec<_> = (0..many).map(|_| next(&told)).collect();
        begun.sort_unstable();
        assert_eq!(begun, (0..many).collect::<Vec<_>>());
        // The first user asks again before another user comes. The other user gets its turn first.
        let again = slow(&authorizer, 0, &tell).unwrap();
        let late = slow(&authorizer, many, &tell).unwrap();
        assert!(told.try_recv().is_err() && authorizer.queues().threads == MOST_THREADS);
        drop(slow_ones.remove(0));
        assert_eq!(next(&told), many, "it has waited for its turn, and the first user has just had one");
        drop(late);
        assert_eq!(next(&told), 0);
        drop(again);
    }
}
