//! A client of a package whose calls block: each caller is a kernel thread with a connection of its
//! own.

use crate::{Client, Load, Outcome, Totals, Work, repeat};
use std::sync::Arc;
use std::thread;

/// A connection that carries one call at a time.
pub trait Connection: Send {
    /// Makes a call, and checks its answer.
    ///
    /// # Errors
    /// The call failed, or its answer is wrong.
    fn call(&mut self, work: &Work) -> Outcome;
}

/// The client: its connections, and how to make more of them.
pub struct ThreadClient<C> {
    connect: Box<dyn Fn() -> Outcome<C>>,
    connections: Vec<C>,
}

impl<C: Connection> ThreadClient<C> {
    /// A client without connections yet: the first load makes those that it needs.
    pub fn new(connect: impl Fn() -> Outcome<C> + 'static) -> Self {
        Self { connect: Box::new(connect), connections: Vec::new() }
    }

    fn connected(&mut self, count: usize) -> Outcome {
        while self.connections.len() < count {
            self.connections.push((self.connect)()?);
        }
        Ok(())
    }
}

impl<C: Connection> Client for ThreadClient<C> {
    fn load(&mut self, load: &Arc<Load>) -> Outcome<Totals> {
        self.connected(load.callers())?;
        let callers = &mut self.connections[..load.callers()];
        if let [only] = callers {
            return repeat(load, thread::sleep, |work| only.call(work));
        }
        thread::scope(|scope| {
            let one = |connection: &'_ mut C| repeat(load, thread::sleep, |work| connection.call(work));
            let threads: Vec<_> =
                callers.iter_mut().map(|connection| scope.spawn(move || one(connection))).collect();
            let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| "a caller panicked")?);
            Totals::of(joined.collect::<Outcome<Vec<_>>>()?)
        })
    }

    fn another(&mut self) -> Outcome {
        self.connected(self.connections.len() + 1)?;
        if let Some(last) = self.connections.last_mut() {
            last.call(&Work::new(0))?;
        }
        Ok(())
    }
}
