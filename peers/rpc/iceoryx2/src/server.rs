//! The server: it answers in the memory that its clients read.

use crate::setup::{BLOCKS, Calls, ROOM, Waiter, calls, node};
use iceoryx2::active_request::ActiveRequest;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::prelude::*;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use underpass_rpc_peer::{Outcome, answer, ending, ready};

fn respond(request: &ActiveRequest<ipc::Service, [u8], u64, [u8], ()>) -> Outcome {
    let bytes = request.payload();
    let mut response = request.loan_slice_uninit(bytes.len())?.write_from_slice(bytes);
    answer(bytes, response.payload_mut());
    Ok(response.send()?)
}

type Port = iceoryx2::port::server::Server<ipc::Service, [u8], u64, [u8], ()>;

fn port(service: &Calls) -> Outcome<Port> {
    let server = service.server_builder().initial_max_slice_len(ROOM);
    Ok(server.override_response_preallocation(|_| BLOCKS).create()?)
}

pub(crate) fn poll(directory: &Path) -> Outcome {
    let node = node()?;
    let service = calls(&node, directory)?;
    let server = port(&service)?;
    ready()?;
    while !ending() {
        match server.receive()? {
            Some(request) => respond(&request)?,
            None => std::hint::spin_loop(),
        }
    }
    Ok(())
}

pub(crate) fn block(directory: &Path) -> Outcome {
    let node = node()?;
    let service = calls(&node, directory)?;
    let server = port(&service)?;
    let listener = Waiter::Server.listen(&node, directory)?;
    let mut clients: HashMap<u64, Notifier<ipc::Service>> = HashMap::new();
    ready()?;
    loop {
        // A request that comes after the last look has its notification after it.
        while let Some(request) = server.receive()? {
            respond(&request)?;
            let number = *request.user_header();
            let client = match clients.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Waiter::Client(number).notifier(&node, directory)?),
            };
            client.notify()?;
        }
        listener.blocking_wait(|_| ())?;
    }
}
