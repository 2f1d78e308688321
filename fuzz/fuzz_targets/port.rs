//! Both ends of a port's lane: an owner whose sender follows no rule, and a sender whose owner does
//! not. Neither may crash, hang, or keep a lane that has ended.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use std::time::Duration;
use underpass::port::{Arrival, PortOptions, PortReceiver, PortRecvError, PortSender};
use underpass::{Limits, Running, Server};
use underpass_fuzz::LaneLie;
use underpass_port::fuzz::{FuzzEnd, spoil};

#[derive(Debug, Arbitrary)]
enum Step {
    /// The lying sender does this.
    Lie(LaneLie),
    /// The owner receives, with and without a wait.
    Take,
    Wait,
    /// The lying owner writes a word of the honest sender's lane.
    Spoil {
        which: u8,
        value: u64,
    },
    /// The honest sender sends, with and without a wait.
    Send,
    SendWithin,
    Reserve {
        bytes: u8,
    },
}

#[derive(Debug, Arbitrary)]
struct Input {
    overwriting: bool,
    steps: Vec<Step>,
}

/// A port of this process.
struct Port {
    name: &'static str,
    receiver: PortReceiver<u64>,
    _running: Running,
}

fn open(name: &'static str, options: PortOptions) -> Port {
    let limits = Limits { bindings: 1 << 16, memory: u64::MAX, ..Limits::default() };
    let (service, receiver) = options.messages(4).memory_of_user(u64::MAX).open().expect("a port");
    let running = Server::new().limits(limits).export(name, service).start().expect("an export");
    Port { name, receiver, _running: running }
}

static PORTS: LazyLock<[Port; 2]> = LazyLock::new(|| {
    underpass_os::Directory::from_environment().ensure().expect("a directory");
    [open("port", PortOptions::new()), open("overwriting", PortOptions::new().drop_oldest())]
});

fn does(step: &Step, port: &Port, liar: &FuzzEnd, honest: &PortSender<u64>) {
    let receiver = &port.receiver;
    match step {
        Step::Lie(lie) => lie.tell(liar),
        Step::Take => drop(receiver.try_recv()),
        Step::Wait => drop(receiver.recv_timeout(Duration::ZERO)),
        Step::Spoil { which, value } => spoil(receiver, honest.lane(), *which, *value),
        Step::Send => drop(honest.try_send(&7)),
        Step::SendWithin => drop(honest.send_timeout(&7, Duration::ZERO)),
        Step::Reserve { bytes } => {
            if let Ok(mut room) = honest.reserve(usize::from(*bytes)) {
                room.put(&vec![1; usize::from(*bytes).min(room.left())]);
                let _ = room.commit();
            }
        }
    }
    let pressure = receiver.pressure();
    assert!(pressure.queued <= pressure.capacity && honest.pressure().queued <= 4);
    assert!(honest.unreceived().len() <= 4);
}

fuzz_target!(|input: Input| {
    let port = &PORTS[usize::from(input.overwriting)];
    let Some(liar) = FuzzEnd::sender(port.name) else { return };
    let Ok(honest) = PortSender::connect(port.name) else { return };
    input.steps.iter().for_each(|step| does(step, port, &liar, &honest));
    drop((liar, honest));
    // Both lanes end, and each ends once. The fuzzer ends an owner that never learns that a sender
    // is gone.
    while port.receiver.pressure().lanes > 0 {
        match port.receiver.recv_timeout(Duration::from_millis(1)) {
            Ok(Arrival::Message(_) | Arrival::Ended(_)) | Err(PortRecvError::Timeout) => {}
            Err(e) => panic!("{e:?}"),
        }
    }
    assert_eq!(port.receiver.try_recv(), Err(PortRecvError::Empty));
});
