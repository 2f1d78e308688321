//! The client: all its callers run on the thread that measures.

use crate::driver::sweep;
use crate::message::{Assembler, Message};
use crate::setup::{ANSWERS, APPEAR, Member, REQUESTS, RESPONSE, Waiting, again};
use rusteron_client::{
    AeronExclusivePublication, AeronImage, AeronSubscription, Handlers, IdleStrategy, IntoCString,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use underpass_rpc_peer::{Client, Load, Outcome, Totals, Work, repeat_async};

/// Requests that are sent over a publication, and the image by which their answers come.
struct Connected {
    requests: AeronExclusivePublication,
    answers: AeronImage,
    _subscription: AeronSubscription,
    assembler: RefCell<Assembler>,
    sent: Cell<u64>,
    received: Cell<u64>,
    /// What callers have done since the last look.
    progress: Cell<i32>,
}

/// The client of this process, and the connections that it keeps beside the one that it calls over.
struct Connections {
    connections: Vec<Connected>,
    idle: Box<dyn IdleStrategy>,
    member: Member,
    // Dropped last: it removes what a killed server has left behind.
    _sweep: SweepAtEnd,
}

struct SweepAtEnd;

impl Drop for SweepAtEnd {
    fn drop(&mut self) {
        sweep();
    }
}

pub(crate) fn spin(run: &Path) -> Outcome<Box<dyn Client>> {
    Connections::open(run, Waiting::Spin)
}

pub(crate) fn back_off(run: &Path) -> Outcome<Box<dyn Client>> {
    Connections::open(run, Waiting::BackOff)
}

impl Connections {
    fn open(run: &Path, waiting: Waiting) -> Outcome<Box<dyn Client>> {
        let (member, idle) = (Member::join(run)?, waiting.strategy());
        let mut all = Self { connections: Vec::new(), idle, member, _sweep: SweepAtEnd };
        all.connect()?;
        Ok(Box::new(all))
    }

    fn connect(&mut self) -> Outcome {
        self.connections.push(Connected::new(&self.member)?);
        Ok(())
    }

    /// All callers of `load`, polled by turns over one connection.
    fn repeat(&mut self, at: usize, load: &Load) -> Outcome<Totals> {
        let Self { connections, idle, member, .. } = self;
        let connection = &connections[at];
        let sleep = async |time: Duration| thread::sleep(time);
        let call = async |work: &Work| connection.call(member, work).await;
        let mut callers: Vec<_> =
            (0..load.callers()).map(|_| Box::pin(repeat_async(load, &sleep, &call))).collect();
        let mut ended = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while !callers.is_empty() {
            let mut failed = None;
            callers.retain_mut(|caller| match caller.as_mut().poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(Ok(totals)) => {
                    ended.push(totals);
                    false
                }
                Poll::Ready(Err(error)) => {
                    failed = Some(error);
                    false
                }
            });
            if let Some(error) = failed {
                return Err(error);
            }
            idle.idle(connection.progress.replace(0));
        }
        Totals::of(ended)
    }
}

impl Connected {
    /// Joins the two publications, and waits until the server has joined them too.
    fn new(member: &Member) -> Outcome<Self> {
        let channel = RESPONSE.into_c_string();
        let subscription =
            member.aeron.async_add_subscription(&channel, ANSWERS, Handlers::NONE, Handlers::NONE)?;
        let subscription = subscription.poll_blocking(APPEAR)?;
        let way_back = subscription.get_constants()?.registration_id();
        let requests = member.publish(format!("aeron:ipc?response-correlation-id={way_back}"), REQUESTS)?;
        let answers = appear(|| subscription.image_at_index(0).filter(|_| requests.is_connected()))?;
        Ok(Self {
            requests,
            answers,
            _subscription: subscription,
            assembler: RefCell::default(),
            sent: Cell::new(0),
            received: Cell::new(0),
            progress: Cell::new(0),
        })
    }

    async fn call(&self, member: &Member, work: &Work) -> Outcome {
        poll_fn(|_| self.send(member, work)).await?;
        let turn = self.sent.get();
        self.sent.set(turn + 1);
        poll_fn(|_| self.receive(member, turn, work)).await
    }

    fn send(&self, member: &Member, work: &Work) -> Poll<Outcome> {
        match self.requests.offer(work.request()) {
            Ok(_) => {
                self.progress.set(1);
                Poll::Ready(Ok(()))
            }
            Err(error) if again(&error) => Poll::Pending,
            Err(error) => Poll::Ready(Err(member.gone(&error.to_string()))),
        }
    }

    /// Receives the answer to the call of this turn, if it is the next one.
    fn receive(&self, member: &Member, turn: u64, work: &Work) -> Poll<Outcome> {
        if self.received.get() != turn {
            return Poll::Pending;
        }
        let mut answered = None;
        while answered.is_none() {
            let mut assembler = self.assembler.borrow_mut();
            let fragments = assembler.poll(&self.answers, 1, |answer| {
                answered = Some(work.check(match &answer {
                    Message::Frame(bytes) => bytes,
                    Message::Assembled(bytes) => bytes,
                }));
            })?;
            if fragments == 0 {
                return match self.answers.is_closed() || !self.requests.is_connected() {
                    true => Poll::Ready(Err(member.gone("the server is not connected"))),
                    false => Poll::Pending,
                };
            }
            self.progress.set(1);
        }
        self.received.set(turn + 1);
        Poll::Ready(answered.unwrap_or(Ok(())))
    }
}

/// What `look` finds, as soon as it finds something.
fn appear<T>(mut look: impl FnMut() -> Option<T>) -> Outcome<T> {
    let begun = Instant::now();
    while begun.elapsed() < APPEAR {
        if let Some(found) = look() {
            return Ok(found);
        }
        thread::sleep(Duration::from_micros(100));
    }
    Err("the server does not see the client".into())
}

impl Client for Connections {
    fn load(&mut self, load: &Arc<Load>) -> Outcome<Totals> {
        self.repeat(0, load)
    }

    fn another(&mut self) -> Outcome {
        self.connect()?;
        self.repeat(self.connections.len() - 1, &Load::single())?;
        Ok(())
    }
}
