//! Streams of both directions: servers die, and clients.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use super::journal::Journals;
use super::messages::pause;
use super::victim::{Ended, Shared};
use super::{CREDITS, GLANCE, MESSAGES, NAME, Outcome, Survivor, holds, id, in_order};
use std::sync::{Arc, Mutex};
use underpass::stream::{Stream, StreamError, StreamOptions, StreamSendError, StreamSender};
use underpass::{CallError, ImportError, Running, Server, thread};
use underpass_tests::{Numbers, ServerProcess, until};

/// The interface between the dying processes and their survivors.
#[underpass::interface]
pub trait Flow {
    /// The messages of a round.
    fn give(&self, round: u64) -> Result<Stream<u64>, CallError>;
    /// Takes the messages of a round.
    fn take(&self, rows: Stream<u64>) -> Result<(), CallError>;
}

/// What one end has sent or read, and how that ended.
#[derive(Debug)]
enum Report {
    Sent(u64, Result<(), StreamSendError>),
    Read(u64, Result<(), StreamError>),
}

/// Sends the messages of a round, and notes each.
fn send(sender: StreamSender<u64>, round: u64, note: impl Fn(u64)) -> Report {
    for number in 0..MESSAGES {
        let id = id(round, 0, number);
        if let Err(why) = sender.send(&id) {
            return Report::Sent(number, Err(why));
        }
        note(id);
        pause(number);
    }
    sender.finish();
    Report::Sent(MESSAGES, Ok(()))
}

/// Reads messages, and notes each.
fn read(mut rows: Stream<u64>, note: impl Fn(u64)) -> Report {
    for number in 0.. {
        match rows.recv() {
            Ok(Some(id)) => note(id),
            Ok(None) => return Report::Read(number, Ok(())),
            Err(why) => return Report::Read(number, Err(why)),
        }
        pause(number);
    }
    unreachable!("a stream ends before all numbers do")
}

fn options() -> StreamOptions {
    StreamOptions::new().items(CREDITS)
}

/// A server that notes what it sends and reads.
struct Notes(Arc<Journals>);

impl Flow for Notes {
    fn give(&self, round: u64) -> Result<Stream<u64>, CallError> {
        let (sender, rows) = options().open()?;
        let journals = self.0.clone();
        drop(thread::spawn(move || send(sender, round, |id| journals.messages.note(id))));
        Ok(rows)
    }

    fn take(&self, rows: Stream<u64>) -> Result<(), CallError> {
        let journals = self.0.clone();
        drop(thread::spawn(move || read(rows, |id| journals.messages.note(id))));
        Ok(())
    }
}

/// Serves streams until it dies.
pub fn serve(journals: Journals) -> Outcome {
    Ok(Server::new().export(NAME, Flow::serve(Notes(Arc::new(journals)))).run()?)
}

/// Reads a stream, or sends one, and notes each message.
pub fn call(journals: &Journals, numbers: &mut Numbers, round: u64) -> Outcome {
    let flow = FlowClient::import_within(NAME, ServerProcess::soon())?;
    let reads = numbers.below(2) == 0;
    let report = if reads {
        read(flow.give(round)?, |id| journals.messages.note(id))
    } else {
        let (sender, rows) = options().open()?;
        flow.take(rows)?;
        send(sender, round, |id| journals.messages.note(id))
    };
    holds(matches!(report, Report::Read(MESSAGES, Ok(())) | Report::Sent(MESSAGES, Ok(()))), || {
        format!("{report:?}")
    })?;
    // A stream of a server ends with its binding, and what was posted is read then. So the client
    // may go.
    Ok(())
}

/// Compares what the survivor's end reports with what the other end has noted.
fn agree(report: &Report, noted: &[u64], ended: Ended) -> Outcome {
    let noted = in_order(noted.iter().copied())?[0];
    let said = || format!("{report:?}, {noted} noted, {ended:?}");
    match report {
        Report::Read(read, Ok(())) => holds(*read == MESSAGES && noted + 1 >= MESSAGES, said),
        Report::Read(read, Err(why)) => {
            // What was posted is read, and then the death is told.
            holds((noted..=noted + 1).contains(read) && is_death(why) && ended == Ended::Killed, said)
        }
        Report::Sent(sent, told) => {
            holds(noted <= *sent + u64::from(told.is_err()), said)?;
            // What is posted beyond the credits would be nowhere.
            holds(*sent <= noted + 2 * CREDITS as u64 + 1, said)?;
            match told {
                Ok(()) => holds(*sent == MESSAGES, said),
                Err(StreamSendError::PeerDied | StreamSendError::BindingEnded) => {
                    holds(ended != Ended::ByItself, said)
                }
                // It died before it took the stream.
                Err(StreamSendError::ReaderDropped) => holds(noted == 0 && ended == Ended::Killed, said),
                Err(_) => holds(false, said),
            }
        }
    }
}

fn is_death(why: &StreamError) -> bool {
    matches!(why, StreamError::PeerDied | StreamError::BindingEnded)
}

/// The client that lives on.
#[derive(Default)]
pub struct Client {
    report: Option<Report>,
}

impl Survivor for Client {
    fn steps(&self) -> &'static [&'static str] {
        &["stream-"]
    }

    fn talk(&mut self, round: u64, numbers: &mut Numbers, shared: &Shared) -> Outcome {
        self.report = None;
        let flow = loop {
            match FlowClient::import_within(NAME, GLANCE) {
                Ok(flow) => break flow,
                Err(ImportError::NotExported(_) | ImportError::Dead(_) | ImportError::NoAnswer(..)) => {}
                Err(e) => return Err(e.into()),
            }
            if shared.is_gone() {
                return Ok(());
            }
        };
        let called = if numbers.below(2) == 0 {
            flow.give(round).map(|rows| read(rows, |_| ()))
        } else {
            let (sender, rows) = options().open()?;
            flow.take(rows).map(|()| send(sender, round, |_| ()))
        };
        match called {
            Ok(report) => self.report = Some(report),
            Err(CallError::PeerDied(_)) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(())
    }

    fn judge(&mut self, _: u64, ended: Ended, journals: &Journals) -> Outcome {
        let noted = journals.messages.all();
        match &self.report {
            Some(report) => agree(report, &noted, ended),
            // The call has failed, though its stream may have begun to flow.
            None => {
                holds(ended == Ended::Killed && noted.len() <= CREDITS, || format!("{ended:?}, {noted:?}"))
            }
        }
    }
}

/// A server that keeps its reports.
#[derive(Clone, Default)]
struct Reports {
    begun: Arc<Mutex<usize>>,
    ended: Arc<Mutex<Vec<Report>>>,
}

impl Reports {
    fn begins(&self, flow: impl FnOnce() -> Report + Send + 'static) {
        *self.begun.lock().expect("nobody panics with it") += 1;
        let ended = self.ended.clone();
        drop(thread::spawn(move || {
            let report = flow();
            ended.lock().expect("nobody panics with it").push(report);
        }));
    }
}

impl Flow for Reports {
    fn give(&self, round: u64) -> Result<Stream<u64>, CallError> {
        let (sender, rows) = options().open()?;
        self.begins(move || send(sender, round, |_| ()));
        Ok(rows)
    }

    fn take(&self, rows: Stream<u64>) -> Result<(), CallError> {
        self.begins(move || read(rows, |_| ()));
        Ok(())
    }
}

/// The server that lives on.
pub struct Serves {
    reports: Reports,
    running: Running,
}

impl Serves {
    pub fn open() -> Outcome<Self> {
        let reports = Reports::default();
        let running = Server::new().export(NAME, Flow::serve(reports.clone())).start()?;
        Ok(Self { reports, running })
    }
}

impl Survivor for Serves {
    fn steps(&self) -> &'static [&'static str] {
        &["stream-"]
    }

    fn talk(&mut self, _: u64, _: &mut Numbers, shared: &Shared) -> Outcome {
        until("the end of the client", || {
            (shared.is_gone() && self.running.bindings().list().is_empty()).then_some(())
        });
        Ok(())
    }

    fn judge(&mut self, _: u64, ended: Ended, journals: &Journals) -> Outcome {
        let begun = std::mem::take(&mut *self.reports.begun.lock().expect("nobody panics with it"));
        let reports = until("the ends of its streams", || {
            let mut reports = self.reports.ended.lock().expect("nobody panics with it");
            (reports.len() == begun).then(|| std::mem::take(&mut *reports))
        });
        let noted = journals.messages.all();
        match &reports[..] {
            [report] => agree(report, &noted, ended),
            [] => holds(ended == Ended::Killed && noted.is_empty(), || format!("{ended:?}, {noted:?}")),
            more => Err(format!("one stream, and {more:?}").into()),
        }
    }
}
