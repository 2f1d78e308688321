//! The client: all its callers run on the thread that measures.

use crate::setup::{BLOCKS, Calls, ROOM, Waiter, calls, node};
use iceoryx2::pending_response::PendingResponse;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::prelude::*;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use underpass_rpc_peer::{Client, Load, Outcome, Totals, Work, repeat_async};

type Port = iceoryx2::port::client::Client<ipc::Service, [u8], u64, [u8], ()>;
type Pending = PendingResponse<ipc::Service, [u8], u64, [u8], ()>;

/// How long the server may take to see a client.
const APPEAR: Duration = Duration::from_secs(5);

/// A client port, and the events of a client that blocks.
struct Connected {
    port: Port,
    number: u64,
    events: Option<Events>,
    /// Whether a caller has received something since this was cleared.
    progress: Cell<bool>,
}

struct Events {
    server: Notifier<ipc::Service>,
    own: Listener<ipc::Service>,
}

/// The client of this process, and the ports that it keeps beside the one that it calls over.
struct Connections {
    node: Node<ipc::Service>,
    service: Calls,
    directory: PathBuf,
    blocks: bool,
    ports: Vec<Connected>,
}

pub(crate) fn poll(directory: &Path) -> Outcome<Box<dyn Client>> {
    Connections::open(directory, false)
}

pub(crate) fn block(directory: &Path) -> Outcome<Box<dyn Client>> {
    Connections::open(directory, true)
}

impl Connections {
    fn open(directory: &Path, blocks: bool) -> Outcome<Box<dyn Client>> {
        let node = node()?;
        let service = calls(&node, directory)?;
        let mut all = Self { node, service, directory: directory.to_owned(), blocks, ports: Vec::new() };
        all.connect()?;
        Ok(Box::new(all))
    }

    fn connect(&mut self) -> Outcome<&Connected> {
        let port = self.service.client_builder().initial_max_slice_len(ROOM);
        let port = port.override_request_preallocation(|_| BLOCKS).create()?;
        let number = self.ports.len() as u64;
        let (node, directory) = (&self.node, &self.directory);
        let events = match self.blocks {
            false => None,
            true => Some(Events {
                server: Waiter::Server.notifier(node, directory)?,
                own: Waiter::Client(number).listen(node, directory)?,
            }),
        };
        let connected = Connected { port, number, events, progress: Cell::new(false) };
        connected.wait()?;
        self.ports.push(connected);
        Ok(&self.ports[self.ports.len() - 1])
    }
}

impl Connected {
    /// Waits until the server has seen this port. What it answers before is lost.
    fn wait(&self) -> Outcome {
        let begun = Instant::now();
        while begun.elapsed() < APPEAR {
            let request = self.port.loan_slice_uninit(0)?.write_from_slice(&[]).send()?;
            if let Some(events) = &self.events {
                events.server.notify()?;
            }
            if request.is_connected() {
                return Ok(());
            }
            thread::sleep(Duration::from_micros(100));
        }
        Err("the server does not see the client".into())
    }

    async fn call(&self, work: &Work) -> Outcome {
        let bytes = work.request();
        let mut request = self.port.loan_slice_uninit(bytes.len())?.write_from_slice(bytes);
        *request.user_header_mut() = self.number;
        let pending = request.send()?;
        if let Some(events) = &self.events {
            events.server.notify()?;
        }
        poll_fn(|_| self.look(&pending, work)).await
    }

    /// Whether the answer is there.
    fn look(&self, pending: &Pending, work: &Work) -> Poll<Outcome> {
        let mut connected = true;
        loop {
            match pending.receive() {
                Ok(Some(response)) => {
                    self.progress.set(true);
                    return Poll::Ready(work.check(response.payload()));
                }
                Ok(None) if !connected => {
                    return Poll::Ready(Err("the server has closed the connection".into()));
                }
                // The server closes it as soon as it has answered. So the answer may have come
                // after the look.
                Ok(None) if !pending.is_connected() => connected = false,
                Ok(None) => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// All callers of `load`, polled by turns. If none of them has received anything, a client that
    /// blocks does so now: an answer that came after a caller's last look has its notification
    /// after it.
    fn repeat(&self, load: &Load) -> Outcome<Totals> {
        let sleep = async |time: Duration| thread::sleep(time);
        let caller = |_| Box::pin(repeat_async(load, &sleep, async |work: &Work| self.call(work).await));
        let mut callers: Vec<_> = (0..load.callers()).map(caller).collect();
        let mut ended = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while !callers.is_empty() {
            self.progress.set(false);
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
            match &self.events {
                Some(events) if !self.progress.get() && !callers.is_empty() => {
                    events.own.blocking_wait(|_| ())?;
                }
                _ => std::hint::spin_loop(),
            }
        }
        Totals::of(ended)
    }
}

impl Client for Connections {
    fn load(&mut self, load: &Arc<Load>) -> Outcome<Totals> {
        self.ports[0].repeat(load)
    }

    fn another(&mut self) -> Outcome {
        self.connect()?.repeat(&Load::single())?;
        Ok(())
    }
}
