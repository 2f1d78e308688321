//! `signal`: a task signal to another domain, and the signal with which its handler answers (Raven,
//! section 2), beside a call that does nothing.

use super::APPEAR;
use crate::calls::{self, Calls, Probe};
use crate::processes::client::ScenarioClient;
use crate::processes::role::ChildRole;
use crate::urpc::{Processors, count, figures};
use crate::{BenchError, Figures};
use std::sync::{Arc, OnceLock};
use underpass::port::signal::{SignalHandlers, SignalSender};
use underpass::sync::mpmc;
use underpass::{CallError, Outcome, Server};

/// The kind of all signals.
const KIND: u64 = 1;

/// The names of the server's signals, of the client's, and of the interface that brings them
/// together.
const THERE: &str = "signals";
const BACK: &str = "signals-back";
const ANSWERS: &str = "signal-answers";

/// What the client asks of the server.
#[underpass::interface]
pub(crate) trait SignalAnswers {
    /// From now on each signal is answered by a signal to the domain that exports its own as
    /// `name`.
    fn answer(&self, name: &str) -> Result<(), CallError>;
}

struct Answers(Arc<OnceLock<SignalSender>>);

fn failed(error: &dyn std::error::Error) -> CallError {
    CallError::NoResources(Outcome::Unknown, error.to_string())
}

impl SignalAnswers for Answers {
    fn answer(&self, name: &str) -> Result<(), CallError> {
        let sender = SignalSender::connect_within(name, APPEAR).map_err(|e| failed(&e))?;
        // There is one client.
        let _ = self.0.set(sender);
        Ok(())
    }
}

pub(super) fn serve(_: &ChildRole) -> Result<(), BenchError> {
    let back: Arc<OnceLock<SignalSender>> = Arc::default();
    let to = Arc::clone(&back);
    let handlers = SignalHandlers::new().on(KIND, move |signal| {
        if let Some(sender) = to.get() {
            // There is one signal under way at a time. So it is lost only if the client is gone.
            let _ = sender.signal(KIND, signal.datum);
        }
    });
    let (service, _signals) = handlers.start();
    let server = calls::exporting(calls::NAME).export(THERE, service);
    Ok(server.export(ANSWERS, SignalAnswers::serve(Answers(back))).run()?)
}

pub(super) fn measure(client: &ScenarioClient, case: &str, processors: Processors) -> Result<(), BenchError> {
    let probe = calls::import()?;
    let (answered, answers) = mpmc::bounded(1);
    let handlers = SignalHandlers::new().on(KIND, move |signal| {
        // The thread that has signalled takes it before it signals again.
        let _ = answered.try_send(signal.datum);
    });
    let (service, _signals) = handlers.start();
    let _running = Server::new().export(BACK, service).start()?;
    SignalAnswersClient::import_within(ANSWERS, APPEAR)?.answer(BACK)?;
    let sender = SignalSender::connect_within(THERE, APPEAR)?;
    client.settle()?;
    let (calls, right) = (probe.clone(), sender.clone());
    let mut null = Calls::new("null", 1, move || calls.null());
    let signal = move || {
        right.signal(KIND, 7).map_err(|e| failed(&e))?;
        answers.recv().map(drop).map_err(|e| failed(&e))
    };
    let mut signals = Calls::new("signals", 1, signal).counted(&probe);
    let contest = client.contest(&mut [&mut null, &mut signals], 0, 1)?;
    let ways = sender.ways();
    let figures = figures(&contest, (1, 0), (&signals, processors))
        .with("silent", ways.silent)
        .with("woken", ways.woken)
        .with("given", ways.given);
    client.report(case, with_instructions(client, figures))
}

/// Adds the instructions of a signal and its handler. Counting takes seconds, so a quick run of all
/// cases does without.
fn with_instructions(client: &ScenarioClient, figures: Figures) -> Figures {
    let counted = (!client.few()).then(|| count::signal(&|| client.progress(0.0)));
    match counted {
        Some(Ok(count)) => figures.with("instructions", count),
        Some(Err(why)) => figures.with_detail("instructions_missing", why.to_string()),
        None => figures.with_detail("instructions_missing", "not counted in a quick run of all cases"),
    }
}
