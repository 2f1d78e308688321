//! Synchronous ports: senders die, and owners.

use super::journal::Journals;
use super::messages::{connect, pause};
use super::victim::{Ended, Shared};
use super::{CREDITS, GLANCE, MESSAGES, NAME, Outcome, Survivor, holds, id, in_order, parts};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use underpass::port::sync::{
    PendingReply, Reply, SyncPortOptions, SyncPortReceiver, SyncPortSender, SyncSendError,
};
use underpass::port::{PortRecvError, WhyEnded};
use underpass::{Outcome as Fate, Running, Server, thread};
use underpass_tests::{Numbers, ServerProcess};

type Port = SyncPortReceiver<u64, u64>;

/// Replies to messages, some of them later and out of order. Those of every 16th are dropped.
#[derive(Default)]
struct Answers(VecDeque<(u64, Reply<u64>)>);

/// Whether the reply to this message is dropped.
fn is_dropped(id: u64) -> bool {
    parts(id).1 % 16 == 5
}

impl Answers {
    fn answer(&mut self, id: u64, reply: Reply<u64>) {
        match parts(id).1 % 4 {
            _ if is_dropped(id) => drop(reply),
            // They are given when the next one is, the last one first.
            1 | 2 => self.0.push_front((id, reply)),
            _ => {
                reply.give(2 * id);
                self.give();
            }
        }
    }

    fn give(&mut self) {
        self.0.drain(..).for_each(|(id, reply)| reply.give(2 * id));
    }
}

/// Sends messages of which several are under way, and notes each one that is answered.
pub fn send(journals: &Journals, round: u64) -> Outcome {
    let sender = SyncPortSender::<u64, u64>::connect_within(NAME, ServerProcess::soon())?;
    let mut pending = VecDeque::<(u64, PendingReply<u64>)>::new();
    let answered = |(id, pending): (u64, PendingReply<u64>)| -> Outcome {
        let answer = pending.wait();
        let right = if is_dropped(id) { Err(SyncSendError::Dropped) } else { Ok(2 * id) };
        holds(answer == right, || format!("{id} was told {answer:?}"))?;
        journals.messages.note(id);
        Ok(())
    };
    for number in 0..MESSAGES {
        let id = id(round, 0, number);
        pending.push_back((id, sender.begin(id)?));
        if pending.len() == CREDITS / 2 {
            pending.pop_front().map_or(Ok(()), answered)?;
        }
        // The last ones have no reply beside which theirs could be given.
        if number % 8 == 7 {
            pending.drain(..).try_for_each(answered)?;
        }
        pause(number);
    }
    pending.into_iter().try_for_each(answered)
}

fn options() -> SyncPortOptions {
    SyncPortOptions::new().messages(CREDITS as u64)
}

/// Receives with one receiver or two, notes each message, and answers it.
pub fn own(journals: Journals, numbers: &mut Numbers) -> Outcome {
    let (service, receiver) = options().open::<u64, u64>();
    let _running = Server::new().export(NAME, service).start()?;
    let receivers = numbers.among(&[1, 2]);
    journals.counts.note(receivers);
    let journals = Arc::new(journals);
    let threads: Vec<_> = (0..receivers)
        .map(|_| {
            let (receiver, journals) = (receiver.clone(), journals.clone());
            thread::spawn(move || {
                let mut answers = Answers::default();
                loop {
                    // A receiver that finds nothing gives what it has kept.
                    let came = match receiver.recv_timeout(GLANCE) {
                        Err(PortRecvError::Timeout) => {
                            answers.give();
                            continue;
                        }
                        came => came.expect("the port is served"),
                    };
                    let (id, reply) = came.take();
                    journals.messages.note(id);
                    answers.answer(id, reply);
                    pause(id);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it doesn't panic"));
    Ok(())
}

/// The owner that lives on.
pub struct Owner {
    receiver: Port,
    running: Running,
    came: Vec<u64>,
}

impl Owner {
    pub fn open() -> Outcome<Self> {
        let (service, receiver) = options().open();
        let running = Server::new().export(NAME, service).start()?;
        Ok(Self { receiver, running, came: Vec::new() })
    }
}

impl Survivor for Owner {
    fn steps(&self) -> &'static [&'static str] {
        &["sync-sender-", "client-"]
    }

    fn talk(&mut self, _: u64, _: &mut Numbers, shared: &Shared) -> Outcome {
        self.came.clear();
        let mut answers = Answers::default();
        loop {
            // First: what the process has left is seen afterwards.
            let gone = shared.is_gone() && self.running.bindings().list().is_empty();
            match self.receiver.recv_timeout(GLANCE) {
                Ok(came) => {
                    let (id, reply) = came.take();
                    self.came.push(id);
                    answers.answer(id, reply);
                    pause(id);
                }
                Err(PortRecvError::Timeout) if gone => return Ok(()),
                // A reply that is kept keeps its binding, too.
                Err(PortRecvError::Timeout) => answers.give(),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn judge(&mut self, _: u64, ended: Ended, journals: &Journals) -> Outcome {
        // FIFO for each sender, without gaps, and nothing twice.
        let came = in_order(self.came.iter().copied())?[0];
        let answered = journals.messages.all();
        let said = || format!("{ended:?}: {came} came, {answered:?} were answered");
        holds(answered.iter().all(|&id| parts(id).1 < came), said)?;
        holds(answered.iter().collect::<HashSet<_>>().len() == answered.len(), said)?;
        holds(ended != Ended::ByItself || came == MESSAGES, said)
    }
}

/// The sender that lives on.
#[derive(Default)]
pub struct Sender {
    told: Vec<(u64, Result<u64, SyncSendError>)>,
}

/// Sends the messages of one thread, several at a time, until one can't be sent.
fn sends(
    sender: &SyncPortSender<u64, u64>,
    ids: impl Iterator<Item = u64>,
) -> Vec<(u64, Result<u64, SyncSendError>)> {
    let (mut told, mut pending) = (Vec::new(), VecDeque::new());
    for id in ids {
        pending.push_back((id, sender.begin(id).expect("it waits for a credit")));
        if pending.len() == CREDITS / 2 {
            told.extend(
                pending.pop_front().map(|(id, pending): (u64, PendingReply<u64>)| (id, pending.wait())),
            );
        }
        if matches!(told.last(), Some((_, Err(SyncSendError::Disconnected(..))))) {
            break;
        }
    }
    told.extend(pending.into_iter().map(|(id, pending)| (id, pending.wait())));
    told
}

impl Survivor for Sender {
    fn steps(&self) -> &'static [&'static str] {
        &["sync-owner-", "server-"]
    }

    fn talk(&mut self, round: u64, numbers: &mut Numbers, shared: &Shared) -> Outcome {
        self.told.clear();
        let connected = connect(shared, || SyncPortSender::<u64, u64>::connect_within(NAME, GLANCE))?;
        let Some(sender) = connected else { return Ok(()) };
        let threads: Vec<_> = (0..numbers.among(&[1, 2]))
            .map(|thread| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    sends(&sender, (0..MESSAGES).map(|number| id(round, thread, number)))
                })
            })
            .collect();
        for thread in threads {
            self.told.extend(thread.join().expect("it doesn't panic"));
        }
        if self.told.iter().any(|(_, told)| matches!(told, Err(SyncSendError::Disconnected(..)))) {
            let again = sender.send(&0);
            let died = Err(SyncSendError::Disconnected(WhyEnded::PeerDied, Fate::NotStarted));
            holds(again == died, || format!("afterwards it was told {again:?}"))?;
        }
        Ok(())
    }

    fn judge(&mut self, _: u64, ended: Ended, journals: &Journals) -> Outcome {
        let noted = journals.messages.all();
        let received: HashSet<_> = noted.iter().copied().collect();
        holds(received.len() == noted.len(), || format!("something was received twice: {noted:?}"))?;
        // One receiver gets them in the order of the sends.
        if journals.counts.all() == [1] {
            in_order(noted.iter().copied())?;
        }
        for (id, told) in &self.told {
            let right = match told {
                Ok(reply) => *reply == 2 * id && received.contains(id),
                Err(SyncSendError::Dropped) => is_dropped(*id) && received.contains(id),
                Err(SyncSendError::Disconnected(WhyEnded::PeerDied, Fate::NotStarted)) => {
                    ended == Ended::Killed && !received.contains(id)
                }
                Err(SyncSendError::Disconnected(WhyEnded::PeerDied, _)) => ended == Ended::Killed,
                Err(_) => false,
            };
            holds(right, || format!("{id} was told {told:?}, received: {}", received.contains(id)))?;
        }
        holds(ended == Ended::Killed || received.len() == self.told.len(), || {
            format!("{ended:?}: {} were received of {}", received.len(), self.told.len())
        })
    }
}
