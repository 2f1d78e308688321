//! A client's end of a channel, whose server lies: the region, the socket and the files are the input.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use std::os::fd::AsFd;
use underpass::CallError;
use underpass_channel::layout::STACK;
use underpass_channel::{Channel, Fence};
use underpass_fuzz::{Fields, Peer, Shape, Step, Tree};
use underpass_os::Socket;
use underpass_rpc::fuzz::ClientDoor;
use underpass_wire::Serde;

/// What the client does.
#[derive(Debug, Arbitrary)]
enum Own {
    /// Calls, as its stub does. What was not answered before is late.
    Call { procedure: u8, urgent: bool, len: u16 },
    /// Its activations poll.
    Poll,
    /// Its clerk hears the socket.
    Hear,
    /// Its activations sleep, and look again.
    Sleep { others: bool },
    /// One gives its processor to the server, or calls it.
    Donate { gives_way: bool },
    /// The line is put away, and taken up again.
    Retire,
}

fn call(client: &ClientDoor, procedure: u8, urgent: bool, len: u16) -> Result<(), CallError> {
    // One in eight lies out of band.
    let bytes = vec![7; usize::from(len) * usize::from(len % 8 == 7) * 2 + usize::from(len % 4096)];
    let fields = || Fields {
        plain: (1, [true; 3], -1),
        name: "name".to_owned(),
        map: [("key".to_owned(), vec![1, 2])].into(),
        tree: [(1, None)].into(),
        shape: Shape::Many(vec![Shape::Circle(0.5, 'c')]),
        result: Err("no".to_owned()),
        span: std::time::Duration::from_millis(5),
    };
    type To<T> = Result<T, CallError>;
    match procedure % 8 {
        0 => client.call::<_, To<()>>(0, &(), urgent),
        1 => client.call::<_, To<u64>>(1, &(&1u32, &2u64), urgent).map(drop),
        2 => client.call::<_, To<Vec<u8>>>(2, &(&bytes[..],), urgent).map(drop),
        3 => {
            let shapes = [Shape::Nothing, Shape::Box { width: 1, height: None }];
            client.call::<_, To<Fields>>(3, &(&fields(), &shapes[..]), urgent).map(drop)
        }
        4 => client.call::<_, To<u32>>(4, &(&Tree(vec![Tree(Vec::new())]),), urgent).map(drop),
        5 => client.call::<_, To<Vec<u8>>>(5, &(&u32::from(len),), urgent).map(drop),
        6 => client.call::<_, To<Serde<Value>>>(6, &(&Serde(Value::Null),), urgent).map(drop),
        _ => client.call::<_, To<()>>(7, &("no",), urgent),
    }
}

fn does(client: &ClientDoor, own: &Own) {
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
            line.knock();
            line.leave(0);
            line.spare();
            line.look();
            line.insists(false);
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
    let client = ClientDoor::new(region.as_fd(), theirs).expect("a channel");
    let peer = Peer::server(region, channel, ours);
    for step in steps {
        match step {
            Step::Own(own) => does(&client, &own),
            step => peer.does(step),
        }
    }
    does(&client, &Own::Poll);
    drop(peer);
    client.hear();
    assert!(client.is_closed(), "its server is gone");
    assert!(call(&client, 0, false, 0).is_err());
});
