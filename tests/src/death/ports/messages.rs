//! Asynchronous ports: senders die, and owners.

use super::journal::Journals;
use super::victim::{Ended, Shared};
use super::{CREDITS, GLANCE, MESSAGES, NAME, Outcome, Survivor, holds, id, in_order, round_of};
use std::collections::HashSet;
use std::sync::Arc;
use underpass::port::{
    Arrival, ConnectError, LaneEnded, PortOptions, PortReceiver, PortRecvError, PortSendError, PortSender,
    WhyEnded,
};
use underpass::{ImportError, Running, Server, thread};
use underpass_tests::{Numbers, ServerProcess, until};

/// Sends from one thread or several, and notes each message that was sent.
pub fn send(journals: Journals, numbers: &mut Numbers, round: u64) -> Outcome {
    let sender = PortSender::<u64>::connect_within(NAME, ServerProcess::soon())?;
    let journals = Arc::new(journals);
    let threads: Vec<_> = (0..numbers.among(&[1, 3]))
        .map(|number| {
            let (sender, journals) = (sender.clone(), journals.clone());
            thread::spawn(move || {
                for message in 0..MESSAGES {
                    let id = id(round, number, message);
                    sender.send(&id).expect("the owner lives");
                    journals.messages.note(id);
                    pause(message);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it doesn't panic"));
    Ok(())
}

/// Now and then the other side gets the time to fall asleep.
pub fn pause(message: u64) {
    match message % 32 {
        31 => thread::sleep(std::time::Duration::from_micros(300)),
        7 | 15 => thread::yield_now(),
        _ => {}
    }
}

/// Receives with one receiver or two, and notes each message.
pub fn own(journals: Journals, numbers: &mut Numbers) -> Outcome {
    let (service, receiver) = PortOptions::new().messages(CREDITS).open::<u64>()?;
    let _running = Server::new().export(NAME, service).start()?;
    let receivers = numbers.among(&[1, RECEIVERS]);
    journals.counts.note(receivers);
    let journals = Arc::new(journals);
    let threads: Vec<_> = (0..receivers)
        .map(|_| {
            let (receiver, journals) = (receiver.clone(), journals.clone());
            thread::spawn(move || {
                for id in receiver.messages() {
                    journals.messages.note(id);
                    pause(id);
                }
            })
        })
        .collect();
    drop(receiver);
    threads.into_iter().for_each(|thread| thread.join().expect("it doesn't panic"));
    Ok(())
}

/// The most receivers of an owner.
const RECEIVERS: u64 = 2;

/// The owner that lives on.
pub struct Owner {
    receiver: PortReceiver<u64>,
    running: Running,
    came: Vec<u64>,
    ended: Option<LaneEnded>,
}

impl Owner {
    pub fn open() -> Outcome<Self> {
        let (service, receiver) = PortOptions::new().messages(CREDITS).open::<u64>()?;
        let running = Server::new().export(NAME, service).start()?;
        Ok(Self { receiver, running, came: Vec::new(), ended: None })
    }
}

impl Survivor for Owner {
    fn steps(&self) -> &'static [&'static str] {
        &["sender-"]
    }

    fn talk(&mut self, _: u64, _: &mut Numbers, shared: &Shared) -> Outcome {
        (self.came, self.ended) = (Vec::new(), None);
        loop {
            // First: what the process has left is seen afterwards.
            let gone = shared.is_gone() && self.running.bindings().list().is_empty();
            match self.receiver.recv_timeout(GLANCE) {
                Ok(Arrival::Message(came)) => {
                    holds(came.number == self.came.len() as u64 && came.lost == 0, || format!("{came:?}"))?;
                    self.came.push(came.message);
                    pause(came.message);
                }
                Ok(Arrival::Ended(ended)) => {
                    holds(self.ended.is_none(), || format!("a second end: {ended:?}"))?;
                    self.ended = Some(ended);
                }
                Err(PortRecvError::Timeout) if gone && self.receiver.pressure().lanes == 0 => return Ok(()),
                Err(PortRecvError::Timeout) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn judge(&mut self, _: u64, ended: Ended, journals: &Journals) -> Outcome {
        // FIFO for each sender, and nothing twice.
        let (came, sent) = (in_order(self.came.iter().copied())?, in_order(journals.messages.all())?);
        let said = || format!("{came:?} came, {sent:?} were sent, {:?}", self.ended);
        // What was posted is delivered. A thread may die between a send and its note.
        holds(came.iter().zip(sent).all(|(&came, sent)| sent <= came && came <= sent + 1), said)?;
        let complete = came.iter().all(|&came| came == 0 || came == MESSAGES) && came[0] > 0;
        let Some(lane) = self.ended else {
            return holds(ended == Ended::Killed && came == [0; 4], said);
        };
        holds(lane.messages == came.iter().sum::<u64>(), said)?;
        holds(
            match lane.why {
                WhyEnded::Finished => complete,
                WhyEnded::PeerDied => ended == Ended::Killed,
                WhyEnded::Revoked | WhyEnded::Malformed => false,
            },
            said,
        )
    }
}

/// The sender that lives on.
#[derive(Default)]
pub struct Sender {
    /// What came back of the last owner, and is sent to the next one.
    back: Vec<u64>,
    /// What owners have received, as far as it may be sent again.
    received: HashSet<u64>,
    told: Told,
}

/// What a sender was told of one owner.
#[derive(Debug, Default)]
struct Told {
    /// The messages by their numbers.
    sent: Vec<u64>,
    /// What came back, if the lane has ended.
    back: Option<Vec<(u64, u64)>>,
}

/// Waits for the other process to export.
pub fn connect<S>(shared: &Shared, connect: impl Fn() -> Result<S, ConnectError>) -> Outcome<Option<S>> {
    loop {
        match connect() {
            Ok(sender) => return Ok(Some(sender)),
            // It is slow, or dies in the middle of it.
            Err(ConnectError::Import(
                ImportError::NotExported(_) | ImportError::Dead(_) | ImportError::NoAnswer(..),
            )) => {}
            Err(ConnectError::Call(_)) => {}
            Err(e) => return Err(e.into()),
        }
        if shared.is_gone() {
            return Ok(None);
        }
    }
}

impl Survivor for Sender {
    fn steps(&self) -> &'static [&'static str] {
        &["owner-"]
    }

    fn talk(&mut self, round: u64, numbers: &mut Numbers, shared: &Shared) -> Outcome {
        self.told = Told::default();
        let connected = connect(shared, || PortSender::<u64>::connect_within(NAME, GLANCE))?;
        let Some(sender) = connected else { return Ok(()) };
        let again = std::mem::take(&mut self.back);
        let threads: Vec<_> = (0..numbers.among(&[1, 3]))
            .map(|thread| {
                let (sender, again) = (sender.clone(), if thread == 0 { again.clone() } else { Vec::new() });
                let ids = again.into_iter().chain((0..MESSAGES).map(move |number| id(round, thread, number)));
                std::thread::spawn(move || {
                    let mut sent = Vec::new();
                    for id in ids {
                        match sender.send(&id) {
                            Ok(number) => sent.push((number, id)),
                            Err(e) => return (sent, Some((id, e))),
                        }
                    }
                    (sent, None)
                })
            })
            .collect();
        let mut sent = Vec::new();
        for thread in threads {
            let (of_thread, error) = thread.join().expect("it doesn't panic");
            sent.extend(of_thread);
            if let Some((id, error)) = error {
                holds(error == PortSendError::Disconnected, || format!("{id} was told {error:?}"))?;
            }
        }
        sent.sort_unstable();
        holds(sent.iter().enumerate().all(|(at, sent)| at as u64 == sent.0), || {
            format!("numbers that are missing: {sent:?}")
        })?;
        // Those for which there was no time are for the next owner.
        let missed: Vec<_> =
            again.iter().filter(|id| !sent.iter().any(|sent| sent.1 == **id)).copied().collect();
        self.told.sent = sent.into_iter().map(|(_, id)| id).collect();
        until("the owner", || (sender.pressure().queued == 0 || sender.ended().is_some()).then_some(()));
        if let Some(why) = sender.ended() {
            holds(why == WhyEnded::PeerDied, || format!("{why:?}"))?;
            self.told.back = Some(sender.unreceived());
        }
        self.back = missed;
        Ok(())
    }

    fn judge(&mut self, round: u64, ended: Ended, journals: &Journals) -> Outcome {
        let (noted, told) = (journals.messages.all(), std::mem::take(&mut self.told));
        for &id in &noted {
            holds(self.received.insert(id), || format!("{id} was received twice"))?;
            holds(told.sent.contains(&id), || format!("{id} was received, and was not sent"))?;
        }
        let back = told.back.unwrap_or_default();
        let first = told.sent.len() - back.len().min(told.sent.len());
        let said = || {
            format!(
                "{ended:?}, {} were sent, from {first} on they came back, {} noted",
                told.sent.len(),
                noted.len()
            )
        };
        // What comes back are the last ones, without a gap, and nobody has received them.
        let last = (first as u64..).zip(told.sent[first..].iter().copied());
        holds(back.len() <= CREDITS && last.eq(back.iter().copied()), said)?;
        holds(!noted.iter().any(|id| told.sent[first..].contains(id)), said)?;
        // All others were received, except what a receiver had taken and not noted.
        holds(noted.len() <= first && first as u64 <= noted.len() as u64 + RECEIVERS, said)?;
        // One receiver gets them in the order of their numbers.
        if journals.counts.all() == [1] {
            holds(told.sent.starts_with(&noted), || format!("{noted:?} were noted, {:?} sent", told.sent))?;
        }
        self.back.splice(0..0, back.into_iter().map(|(_, id)| id));
        // Nothing older is ever sent again.
        let oldest = self.back.iter().copied().map(round_of).min().unwrap_or(round);
        self.received.retain(|&id| round_of(id) >= oldest.min(round));
        Ok(())
    }
}
