//! Synchronous ports: what a sender makes of any reply, and what an owner makes of a sender that
//! lies in the channel between them.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::os::fd::AsFd;
use underpass::port::sync::{Reply, SyncPortOptions};
use underpass_channel::layout::STACK;
use underpass_channel::{Cell, Channel, Fence, Tag};
use underpass_fuzz::{Peer, Step};
use underpass_os::Socket;
use underpass_rpc::fuzz::FuzzServer;
use underpass_wire::to_bytes;

/// A step of the owner, or an honest message of the sender.
#[derive(Debug, Arbitrary)]
enum Own {
    /// A message with this number comes, or the number is given up.
    Send {
        slot: u8,
        number: u8,
        message: u64,
    },
    Skip {
        slot: u8,
        number: u8,
    },
    Open {
        slot: u8,
    },
    /// The owner takes the calls that have come, up to a limit.
    Serve(u8),
    /// Its clerk handles the socket.
    Hear,
    /// A receiver takes a message, and keeps its reply.
    Receive,
    /// A kept reply is given, or dropped.
    Give {
        which: u8,
        gives: bool,
    },
}

#[derive(Debug, Arbitrary)]
struct Input {
    /// Bytes that a sender reads as a reply.
    reply: Vec<u8>,
    steps: Vec<Step<Own>>,
}

/// The number of a message that has no order.
fn number(number: u8) -> u64 {
    if number == u8::MAX { u64::MAX } else { number.into() }
}

fuzz_target!(|input: Input| {
    underpass_port::fuzz::replies(&input.reply);
    let (service, receiver) = SyncPortOptions::new().messages(4).open::<u64, u64>();
    let (server, region, socket) = FuzzServer::new(&service).expect("a channel");
    let channel = Channel::adopt(region.as_fd(), Fence::Full, STACK).expect("a region");
    let client = Channel::adopt(region.as_fd(), Fence::Full, STACK).expect("a region");
    let peer = Peer::client(region, channel, Socket::adopt(socket).expect("a socket"));
    let tag = Tag::new(0, 1);
    let post = |slot: u8, procedure: u16, bytes: &[u8]| {
        if let Some(cell) = Cell::inline_request(u16::from(slot % 4), procedure, tag, bytes) {
            client.post(&cell);
        }
    };
    let serve = |calls: u8| {
        for _ in 0..=calls % 16 {
            let line = server.line();
            if !line.pending() || !line.serve(1) {
                break;
            }
        }
    };
    let mut kept: Vec<Reply<u64>> = Vec::new();
    for step in input.steps {
        match step {
            Step::Own(Own::Send { slot, number: n, message }) => {
                post(slot, 0, &to_bytes(&(number(n), message)))
            }
            Step::Own(Own::Skip { slot, number: n }) => post(slot, 2, &to_bytes(&number(n))),
            Step::Own(Own::Open { slot }) => post(slot, 1, &[]),
            Step::Own(Own::Serve(calls)) => serve(calls),
            Step::Own(Own::Hear) => server.hear(),
            Step::Own(Own::Receive) => kept.extend(receiver.try_recv().ok().map(|came| came.take().1)),
            Step::Own(Own::Give { which, gives }) => {
                if !kept.is_empty() {
                    let reply = kept.swap_remove(usize::from(which) % kept.len());
                    let _ = reply.is_wanted();
                    if gives {
                        reply.give(which.into());
                    }
                }
            }
            step => peer.does(step),
        }
        let pressure = receiver.pressure();
        assert!(pressure.lanes <= 1 && pressure.oldest.is_some() == (pressure.queued > 0));
    }
    serve(15);
    server.hear();
    drop((peer, kept));
    while receiver.try_recv().is_ok() {}
    // The fuzzer ends an owner that never learns that its sender is gone.
    while !server.is_closed() {
        server.hear();
        std::thread::yield_now();
    }
});
