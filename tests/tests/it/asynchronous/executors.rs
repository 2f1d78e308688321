//! The executors under which all of this is tested.

use smol::channel::{Receiver, bounded};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts tasks on one executor.
#[derive(Clone)]
pub struct Executor {
    pub name: &'static str,
    spawn: Arc<dyn Fn(Task) + Send + Sync>,
}

impl Executor {
    /// Starts a task. Its result comes over the channel, which is closed if the task panics.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Receiver<T> {
        let (send, receive) = bounded(1);
        (self.spawn)(Box::pin(async move {
            // The result may be unwanted.
            let _ = send.send(task.await).await;
        }));
        receive
    }
}

/// Runs `test` under each executor.
pub fn on_each<F: Future<Output = ()>>(test: impl Fn(Executor) -> F) {
    let one = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let several = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
    for (name, runtime) in [("tokio, one thread", &one), ("tokio, three threads", &several)] {
        let handle = runtime.handle().clone();
        let spawn = Arc::new(move |task| drop(handle.spawn(task)));
        runtime.block_on(test(Executor { name, spawn }));
    }
    let executor = Arc::new(smol::Executor::new());
    // Weak, because a remaining handler holds the server, the server holds this closure, and it
    // would keep the executor.
    let own = Arc::downgrade(&executor);
    let spawn = Arc::new(move |task| match own.upgrade() {
        Some(executor) => executor.spawn(task).detach(),
        None => drop(task),
    });
    smol::block_on(executor.run(test(Executor { name: "smol", spawn })));
}
