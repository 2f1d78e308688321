//! Task signals: senders die, and receivers.

use super::journal::Journals;
use super::messages::{connect, pause};
use super::victim::{Ended, Shared};
use super::{CREDITS, GLANCE, MESSAGES, NAME, Outcome, Survivor, holds, id, in_order, round_of};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use underpass::port::signal::{SignalHandlers, SignalSender, Signals};
use underpass::port::{LaneEnded, PortSendError, WhyEnded};
use underpass::{Running, Server};
use underpass_tests::{Numbers, ServerProcess, until};

/// The queued kind, with a message for its datum, and the coalescing one.
const MESSAGE: u64 = 1;
const COUNT: usize = 0;

/// Signals, and counts beside each signal. Notes each of both.
pub fn send(journals: &Journals, round: u64) -> Outcome {
    let sender = SignalSender::connect_within(NAME, ServerProcess::soon())?;
    for number in 0..MESSAGES {
        let id = id(round, 0, number);
        signal(&sender, id)?;
        journals.messages.note(id);
        sender.count(COUNT, 1)?;
        journals.counts.note(1);
        pause(number);
    }
    Ok(())
}

/// Signals once there is a credit.
fn signal(sender: &SignalSender, id: u64) -> Result<(), PortSendError> {
    until("a credit", || match sender.signal(MESSAGE, id) {
        Err(PortSendError::Full) => None,
        sent => Some(sent.map(drop)),
    })
}

/// Notes what comes.
pub fn receive(journals: Journals) -> Outcome {
    let journals = Arc::new(journals);
    let (notes, counts) = (journals.clone(), journals);
    let (service, _signals) = SignalHandlers::new()
        .credits(CREDITS)
        .on(MESSAGE, move |signal| notes.messages.note(signal.datum))
        .on_count(COUNT, move |_, more| counts.counts.note(more))
        .start();
    Ok(Server::new().export(NAME, service).run()?)
}

/// What has come of one sender.
#[derive(Default)]
struct Came {
    ids: Vec<u64>,
    counted: u64,
    ended: Option<LaneEnded>,
}

/// What has come over each lane.
type Lanes = HashMap<u64, Came>;

/// The receiver that lives on.
pub struct Receiver {
    came: Arc<Mutex<Lanes>>,
    running: Running,
    _signals: Signals,
}

impl Receiver {
    pub fn open() -> Outcome<Self> {
        let came = Arc::<Mutex<Lanes>>::default();
        let [ids, counted, ended] = [(); 3].map(|()| came.clone());
        let (service, _signals) = SignalHandlers::new()
            .credits(CREDITS)
            .on(MESSAGE, move |signal| {
                held(&ids).entry(signal.from.lane()).or_default().ids.push(signal.datum);
            })
            .on_count(COUNT, move |from, more| {
                held(&counted).entry(from.lane()).or_default().counted += more;
            })
            .on_end(move |end| held(&ended).entry(end.from.lane()).or_default().ended = Some(end))
            .start();
        let running = Server::new().export(NAME, service).start()?;
        Ok(Self { came, running, _signals })
    }
}

fn held(came: &Mutex<Lanes>) -> MutexGuard<'_, Lanes> {
    came.lock().expect("nobody panics with it")
}

impl Survivor for Receiver {
    fn steps(&self) -> &'static [&'static str] {
        &["sender-"]
    }

    fn talk(&mut self, _: u64, _: &mut Numbers, shared: &Shared) -> Outcome {
        until("the end of the sender", || {
            (shared.is_gone() && self.running.bindings().list().is_empty()).then_some(())
        });
        Ok(())
    }

    fn judge(&mut self, round: u64, ended: Ended, journals: &Journals) -> Outcome {
        let sent = in_order(journals.messages.all())?[0];
        // One that died before it noted a message may have no lane. If it has one, its end may come
        // later, and nothing is known of it.
        if sent == 0 {
            return holds(ended == Ended::Killed, || format!("{ended:?}, and nothing was sent"));
        }
        let came = until("the end of the lane", || {
            let mut lanes = held(&self.came);
            let is_it = |came: &Came| came.ids.first().is_some_and(|&id| round_of(id) == round);
            let lane = *lanes.iter().find(|(_, came)| is_it(came) && came.ended.is_some())?.0;
            lanes.remove(&lane)
        });
        let (ids, counts) = (in_order(came.ids)?[0], journals.counts.len() as u64);
        let said = || format!("{ids} came of {sent}, {} of {counts}, {:?}", came.counted, came.ended);
        holds((sent..=sent + 1).contains(&ids), said)?;
        holds((counts..=counts + 1).contains(&came.counted), said)?;
        let why = came.ended.map(|ended| ended.why);
        holds(
            match ended {
                Ended::ByItself => why == Some(WhyEnded::Finished) && ids == MESSAGES,
                _ => !matches!(why, Some(WhyEnded::Revoked | WhyEnded::Malformed)),
            },
            said,
        )
    }
}

/// The sender that lives on.
#[derive(Default)]
pub struct Sender {
    sent: Vec<u64>,
    counted: u64,
}

impl Survivor for Sender {
    fn steps(&self) -> &'static [&'static str] {
        &["signal-", "owner-made", "owner-listed", "owner-heard", "owner-room"]
    }

    fn talk(&mut self, round: u64, _: &mut Numbers, shared: &Shared) -> Outcome {
        (self.sent, self.counted) = (Vec::new(), 0);
        let connected = connect(shared, || SignalSender::connect_within(NAME, GLANCE))?;
        let Some(sender) = connected else { return Ok(()) };
        for number in 0..MESSAGES {
            let id = id(round, 0, number);
            let sent = signal(&sender, id).map(|()| self.sent.push(id));
            let counted = sent.and_then(|()| sender.count(COUNT, 1)).map(|_| self.counted += 1);
            if let Err(error) = counted {
                holds(error == PortSendError::Disconnected, || format!("it was told {error:?}"))?;
                let why = until("the end", || sender.ended());
                return holds(why == WhyEnded::PeerDied, || format!("{why:?}"));
            }
            pause(number);
        }
        Ok(())
    }

    fn judge(&mut self, _: u64, ended: Ended, journals: &Journals) -> Outcome {
        let (noted, counted) = (journals.messages.all(), journals.counts.all().iter().sum::<u64>());
        let said =
            || format!("{ended:?}: {noted:?} of {} signals, {counted} of {}", self.sent.len(), self.counted);
        // In order, nothing twice, and nothing that was not sent.
        holds(self.sent.starts_with(&noted), said)?;
        holds(self.sent.len() <= noted.len() + CREDITS + 1 && counted <= self.counted, said)
    }
}
