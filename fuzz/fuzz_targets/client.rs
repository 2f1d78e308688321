//! A client's end of a channel whose server lies. The region, the socket and the files come from
//! the input.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::os::fd::AsFd;
use underpass_channel::layout::STACK;
use underpass_channel::{Channel, Fence};
use underpass_fuzz::{Peer, Step, call};
use underpass_os::Socket;
use underpass_rpc::fuzz::FuzzClient;

/// A step of the client.
#[derive(Debug, Arbitrary)]
enum Own {
    /// Calls as its stub does. An earlier unanswered call is late.
    Call { procedure: u8, urgent: bool, len: u16 },
    /// Its activations poll.
    Poll,
    /// Its clerk handles the socket.
    Hear,
    /// Its activations go to sleep, and check again.
    Sleep { others: bool },
    /// An activation donates its processor to the server, or wakes it.
    Donate { gives_way: bool },
    /// The channel is made dormant, and active again.
    Retire,
}

fn does(client: &FuzzClient, own: &Own) {
    let line = client.line();
    match *own {
        Own::Call { procedure, urgent, len } => {
            let closed = client.is_closed();
            let ended = call(client, procedure, urgent, len);
            assert!(!closed || ended.is_err(), "a closed binding answers nothing");
        }
        Own::Poll => drop(line.poll()),
        Own::Hear => client.hear(),
        Own::Sleep { others } => {
            line.enter();
            line.park(others);
            line.quiet();
            line.wake_spare();
            line.leave(0);
            line.spare();
            line.look();
            line.notify_again_after(false);
        }
        Own::Donate { gives_way } => {
            if gives_way && let Some(cpu) = line.begin_to_give_way() {
                line.is_back(cpu);
                line.gave_way(1);
            } else if !line.donate() {
                line.call();
            }
            line.overdue();
        }
        Own::Retire => {
            line.used();
            line.retire();
            line.rests();
            line.revive();
        }
    }
}

fuzz_target!(|steps: Vec<Step<Own>>| {
    let (channel, region) = Channel::create(Fence::Full, STACK).expect("a channel");
    let (ours, theirs) = Socket::pair().expect("a socket");
    let client = FuzzClient::new(region.as_fd(), theirs).expect("a channel");
    let peer = Peer::server(region, channel, ours);
    for step in steps {
        match step {
            Step::Own(own) => does(&client, &own),
            step => peer.does(step),
        }
    }
    does(&client, &Own::Poll);
    drop(peer);
    // One reading ends at a message with files, as another thread receives it. The fuzzer ends a
    // client that never learns that its server is gone.
    while !client.is_closed() {
        client.hear();
        std::thread::yield_now();
    }
    assert!(call(&client, 0, false, 0).is_err());
});
