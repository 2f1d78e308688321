//! The server: one thread receives the requests of all clients, and answers them.

use crate::driver::Driver;
use crate::message::{Assembler, Message};
use crate::setup::{ANSWERS, APPEAR, Member, REQUESTS, RESPONSE, Waiting, again};
use rusteron_client::{AERON_IPC_STREAM, AeronExclusivePublication, AeronImage, AeronOfferError};
use rusteron_client::{AeronSubscription, Handler, Handlers};
use std::path::Path;
use std::sync::mpsc;
use underpass_rpc_peer::{Failure, Outcome, answer, answer_in_place, ending, ready};

/// The most fragments of one client that are received before it is another one's turn. It is what
/// Aeron's own samples have.
const FRAGMENTS: usize = 10;

pub(crate) fn spin(run: &Path) -> Outcome {
    serve(run, Waiting::Spin)
}

pub(crate) fn back_off(run: &Path) -> Outcome {
    serve(run, Waiting::BackOff)
}

/// A client, by its requests and the way back to it.
struct Served {
    requests: AeronImage,
    answers: AeronExclusivePublication,
    assembler: Assembler,
}

impl Served {
    /// The client whose requests come in this session; nothing if it has gone meanwhile.
    fn accept(member: &Member, requests: &AeronSubscription, session: i32) -> Outcome<Option<Self>> {
        let Some(requests) = requests.image_by_session_id(session) else { return Ok(None) };
        let client = requests.get_constants()?.correlation_id();
        let answers = member.publish(format!("{RESPONSE}|response-correlation-id={client}"), ANSWERS)?;
        Ok(Some(Self { requests, answers, assembler: Assembler::default() }))
    }

    /// Answers what has come; says how many fragments that were.
    fn serve(&mut self) -> Outcome<i32> {
        let Self { requests, answers, assembler } = self;
        let mut failed = None;
        let fragments = assembler.poll(requests, FRAGMENTS, |request| {
            if failed.is_none() {
                failed = respond(answers, request).err();
            }
        })?;
        failed.map_or(Ok(fragments), |error| Err(error.into()))
    }
}

fn respond(answers: &AeronExclusivePublication, request: Message) -> Result<(), AeronOfferError> {
    match request {
        // Answers have frames of the same length.
        Message::Frame(request) => {
            let mut claim = until_room(|| answers.try_claim_owned(request.len()))?;
            answer(request, claim.data());
            claim.commit().map_err(AeronOfferError::Error)?;
        }
        Message::Assembled(request) => {
            *request = answer_in_place(std::mem::take(request));
            until_room(|| answers.offer(request))?;
        }
    }
    Ok(())
}

/// Repeats what has no room yet. A client receives answers while it has no room for requests.
fn until_room<T>(mut offer: impl FnMut() -> Result<T, AeronOfferError>) -> Result<T, AeronOfferError> {
    loop {
        match offer() {
            Err(error) if again(&error) && !ending() => std::hint::spin_loop(),
            done => return done,
        }
    }
}

fn tell(failure: Failure) {
    eprintln!("aeron: a client is served no more: {failure}");
}

fn serve(run: &Path, waiting: Waiting) -> Outcome {
    // Dropped last.
    let mut driver = Driver::start(run)?;
    let member = Member::join(run)?;
    let (came, arrivals) = mpsc::channel();
    // It is called by Aeron's own thread.
    let on_image = Handler::new(move |_: AeronSubscription, image: AeronImage| {
        if let Ok(constants) = image.get_constants() {
            // Nobody receives any more when the server ends.
            came.send(constants.session_id()).ok();
        }
    });
    let requests =
        member.aeron.async_add_subscription(AERON_IPC_STREAM, REQUESTS, Some(&on_image), Handlers::NONE)?;
    let requests = requests.poll_blocking(APPEAR)?;
    let mut clients: Vec<Served> = Vec::new();
    let mut idle = waiting.strategy();
    ready()?;
    while !ending() {
        if let Ok(session) = arrivals.try_recv() {
            // A client that has gone meanwhile gets no way back.
            Served::accept(&member, &requests, session).map_or_else(tell, |client| clients.extend(client));
        }
        let mut fragments = 0;
        clients.retain_mut(|client| match client.serve() {
            Ok(some) => {
                fragments += some;
                some > 0 || !client.requests.is_closed()
            }
            Err(failure) => {
                tell(failure);
                false
            }
        });
        idle.idle(fragments);
    }
    // First, as the process has little time to end, and to leave the driver takes a while.
    driver.remove_directory();
    Ok(())
}
