//! What either side sees of the pressure in a synchronous port.

use super::{Name, Note, own, process};
use std::time::Duration;
use underpass::port::OtherSide;
use underpass::port::sync::{SyncPortOptions, SyncPortSender};
use underpass_tests::{Watchdog, cont, stop, until};

#[test]
fn a_receiver_sees_what_waits_and_for_how_long() {
    let _watchdog = Watchdog::new("a_receiver_sees_what_waits_and_for_how_long");
    let port = own("pressure", SyncPortOptions::new().messages(5));
    let none = port.receiver.pressure();
    assert_eq!((none.queued, none.capacity, none.oldest), (0, 0, None));
    assert_eq!((none.lanes, none.other_side), (0, OtherSide::Gone));
    let senders = [(); 2].map(|()| SyncPortSender::<Note, u64>::connect(&port.name).unwrap());
    let pending: Vec<_> = (0..3).map(|number| senders[0].begin((number, vec![])).unwrap()).collect();
    until("the messages", || (port.receiver.pressure().queued == 3).then_some(()));
    let some = port.receiver.pressure();
    assert_eq!((some.capacity, some.lanes, some.other_side), (10, 2, OtherSide::Runs));
    // The oldest one gets older, whatever comes after it, until it is received.
    let least = Duration::from_millis(20);
    until("an old message", || port.receiver.pressure().oldest.filter(|age| *age >= least));
    let last = senders[1].begin((3, vec![])).unwrap();
    until("the last message", || (port.receiver.pressure().queued == 4).then_some(()));
    assert!(port.receiver.pressure().oldest >= Some(least));
    (0..4).for_each(|_| port.message().reply(0));
    assert_eq!((port.receiver.pressure().queued, port.receiver.pressure().oldest), (0, None));
    assert!(pending.into_iter().chain([last]).all(|pending| pending.wait() == Ok(0)));
    drop(senders);
    until("the ends of the senders", || (port.receiver.pressure().lanes == 0).then_some(()));
}

#[test]
fn a_sender_sees_whether_its_owner_runs_waits_is_stopped_or_gone() {
    let _watchdog = Watchdog::new("a_sender_sees_whether_its_owner_runs_waits_is_stopped_or_gone");
    let name = Name::new("states");
    let mut owner = process::owner(&name.0, 4, None);
    let sender = SyncPortSender::<Note, u64>::connect(&name.0).unwrap();
    let is = |state| until("the owner", || (sender.pressure().other_side == state).then_some(()));
    let pending: Vec<_> = (0..2).map(|number| sender.begin((number, vec![])).unwrap()).collect();
    assert_eq!(owner.ask("park 2"), "parked");
    let pressure = sender.pressure();
    assert_eq!((pressure.queued, pressure.capacity, pressure.lanes), (2, 4, 1));
    assert_eq!(pressure.oldest, None);
    // Nobody asks anything of it, so it falls asleep.
    is(OtherSide::Waits);
    stop(owner.pid());
    is(OtherSide::Stopped);
    cont(owner.pid());
    assert_eq!(owner.ask("give"), "given");
    assert!(pending.into_iter().all(|pending| pending.wait().is_ok()));
    until("nothing under way", || (sender.pressure().queued == 0).then_some(()));
    owner.kill();
    is(OtherSide::Gone);
}
