//! A server's end of a channel whose client lies. The region, the socket and the files come from
//! the input.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::os::fd::AsFd;
use std::sync::LazyLock;
use underpass::__private::Service;
use underpass_channel::layout::STACK;
use underpass_channel::{Channel, Fence};
use underpass_fuzz::{Nothing, Peer, Step, Target};
use underpass_os::Socket;
use underpass_rpc::fuzz::FuzzServer;

static SERVICE: LazyLock<Service> = LazyLock::new(|| Nothing.serve());

/// A step of the server.
#[derive(Debug, Arbitrary)]
enum Own {
    /// Serves the calls that have come, up to a limit.
    Serve(u8),
    /// Its clerk handles the socket.
    Hear,
    /// Its activations go to sleep, and check again.
    Sleep { others: bool },
    /// A listener of a CPU waits for a processor, and takes it if one came.
    Listen { cpu: u8, stays: bool },
    /// The channel is made dormant, and active again.
    Retire,
}

fn does(server: &FuzzServer, own: &Own) {
    let line = server.line();
    match *own {
        Own::Serve(calls) => {
            let closed = server.is_closed();
            for _ in 0..=calls % 16 {
                line.backlog();
                if !line.pending() || !line.serve(1) {
                    break;
                }
                assert!(!closed, "a closed binding is not served");
            }
        }
        Own::Hear => server.hear(),
        Own::Sleep { others } => {
            line.park(others);
            line.quiet();
            line.wake_spare();
            line.set_unpolled();
            line.look();
            line.spare();
            line.look();
        }
        Own::Listen { cpu, stays } => {
            // CPUs that have a word, and CPUs that have none.
            let cpu = usize::from(cpu % 70);
            if cpu < 64 {
                line.listen(cpu);
                if line.came(cpu) {
                    line.borrow();
                    line.serve(1);
                    line.hand_back(cpu, stays);
                }
                line.ignore(cpu);
            }
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
    let (server, region, socket) = FuzzServer::new(&SERVICE).expect("a channel");
    let channel = Channel::adopt(region.as_fd(), Fence::Full, STACK).expect("a region");
    let peer = Peer::client(region, channel, Socket::adopt(socket).expect("a socket"));
    for step in steps {
        match step {
            Step::Own(own) => does(&server, &own),
            step => peer.does(step),
        }
    }
    does(&server, &Own::Serve(15));
    does(&server, &Own::Hear);
    drop(peer);
    // One reading ends at a message with files, as another thread receives it. The fuzzer ends a
    // server that never learns that its client is gone.
    while !server.is_closed() {
        server.hear();
        std::thread::yield_now();
    }
});
