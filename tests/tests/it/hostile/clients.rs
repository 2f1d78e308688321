//! Clients that lie to the server, or damage the memory that they share with it. The server closes
//! their bindings and serves the others.

use crate::hostile::SERVER;
use crate::hostile::client::{answer, connect, hello, import};
use crate::hostile::end::{
    BAD_ARGUMENTS, DONE, End, HEAD, NO_PROCEDURE, ROW, UNWANTED, announcement, gone, on_the_stack,
    out_of_band, payload_file, procedure, until_gone,
};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use underpass::Server;
use underpass_channel::layout::{
    CANCEL_WORDS, CHANNELS, LARGEST, REGION, REQUESTS, SECTION_NUMBERS, SECTIONS, SLOTS, STACK, VERSION,
};
use underpass_channel::{Cell, Channel, Fence, INLINE, Region, RingMemory, Tag};
use underpass_os::{Socket, clock};
use underpass_tests::{Files, Probe, ProbeClient, Room, ServerProcess, Subject, Watchdog, until};
use underpass_wire::to_bytes;

/// An honest hand-made call. Returns its outcome.
pub fn call(end: &End, slot: u16, what: u16, bytes: &[u8]) -> u16 {
    end.post(&Cell::inline_request(slot, what, ROW, bytes).unwrap());
    outcome(end, slot)
}

pub fn outcome(end: &End, slot: u16) -> u16 {
    let reply = until("a reply", || end.take());
    assert_eq!(reply.slot(), slot);
    reply.what()
}

/// A server, an honest client of it, and the server's files while no other client is there.
pub struct Scene {
    server: ServerProcess,
    honest: ProbeClient,
    files: Files,
}

impl Scene {
    pub fn new(of: &str) -> Self {
        let server = ServerProcess::start(SERVER, &Room::name(of), "probe");
        let honest = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
        honest.null().unwrap();
        let files = Files::of(server.pid());
        Self { server, honest, files }
    }

    pub fn name(&self) -> &str {
        self.server.name()
    }

    pub fn import(&self) -> End {
        import(self.name())
    }

    /// Checks that the server closes the binding of a client that does `lie`, and that nothing else
    /// changes.
    pub fn closes(&self, lie: impl FnOnce(&End)) {
        let end = self.import();
        assert_eq!(call(&end, 0, procedure("add"), &[1, 2]), DONE);
        lie(&end);
        end.hung_up();
        // The liar's own files are still open here.
        self.is_unharmed();
    }

    pub fn is_unharmed(&self) {
        assert_eq!(self.honest.add(1, 2), Ok(3));
        assert_eq!(self.honest.pid(), Ok(self.server.pid()), "the server's process lives");
        self.files.until_no_others();
    }
}

#[test]
fn a_cell_that_no_honest_client_writes_closes_its_binding() {
    let _watchdog = Watchdog::new("a_cell_that_no_honest_client_writes_closes_its_binding");
    let scene = Scene::new("cells");
    let null = procedure("null");
    scene.closes(|end| end.post(&Cell { length: INLINE as u32 + 1, ..Cell::request(0, null, ROW) }));
    scene.closes(|end| end.post(&Cell { length: u32::MAX, ..Cell::request(0, null, ROW) }));
    scene.closes(|end| end.post(&Cell::request(SLOTS as u16, null, ROW)));
    scene.closes(|end| end.post(&Cell::request(u16::MAX, null, ROW)));
    scene.closes(|end| end.post(&on_the_stack(0, null, STACK as u32 + 1)));
    scene.closes(|end| end.post(&on_the_stack(SLOTS as u16 - 1, null, u32::MAX)));
    scene.closes(|end| end.post(&out_of_band(SLOTS as u16, null)));
}

#[test]
fn a_server_hears_of_the_end_of_a_liars_binding() {
    let _watchdog = Watchdog::new("a_server_hears_of_the_end_of_a_liars_binding");
    let (name, heard) = (Room::name("heard"), Arc::new(AtomicU32::new(0)));
    let hook = heard.clone();
    let _running = Server::new()
        .export(
            &name,
            Probe::serve(Subject::default()).on_binding_end(move |_| {
                hook.fetch_add(1, Ordering::SeqCst);
            }),
        )
        .start()
        .unwrap();
    let null = procedure("null");
    let lies = [
        // Some of these calls have begun when the lie is found, and some are no calls.
        Cell::request(SLOTS as u16, null, ROW),
        Cell { length: INLINE as u32 + 1, ..Cell::request(0, null, ROW) },
        on_the_stack(0, null, STACK as u32 + 1),
        out_of_band(0, null),
    ];
    for (lie, number) in lies.iter().zip(1..) {
        let end = import(&name);
        assert_eq!(call(&end, 0, procedure("add"), &[1, 2]), DONE);
        end.post(lie);
        end.hung_up();
        until("the hook", || (heard.load(Ordering::SeqCst) == number).then_some(()));
    }
}

#[test]
fn a_head_of_random_bits_closes_its_binding() {
    let _watchdog = Watchdog::new("a_head_of_random_bits_closes_its_binding");
    let scene = Scene::new("heads");
    // A place that does not exist; more bytes than a line has; a length where there is none; all of
    // these.
    for bits in [3 << 54, 57 << 48, 1 << 54 | 1 << 48, 0x7fff << 48] {
        let end = scene.import();
        // The first message of a ring lies in its first line.
        let head = 1 << 63 | bits | 1;
        end.region.word(REQUESTS / 8).store(head, std::sync::atomic::Ordering::Release);
        // No doorbell was rung, so an honest call makes the server look.
        until("the server to notice", || {
            scene.honest.null().unwrap();
            gone(&end.socket).then_some(())
        });
        scene.is_unharmed();
    }
}

#[test]
fn a_slot_with_a_call_under_way_is_not_to_be_used_again() {
    let _watchdog = Watchdog::new("a_slot_with_a_call_under_way_is_not_to_be_used_again");
    let scene = Scene::new("busy");
    let end = scene.import();
    end.post(&Cell::inline_request(5, procedure("meet"), ROW, &2u32.to_le_bytes()).unwrap());
    end.post(&Cell::request(5, procedure("null"), ROW));
    end.hung_up();
    // The call in progress ends, and then the server holds nothing of the binding.
    assert_eq!(scene.honest.meet(2), Ok(()));
    scene.is_unharmed();
}

#[test]
fn arguments_that_don_t_fit_are_the_error_of_one_call() {
    let _watchdog = Watchdog::new("arguments_that_don_t_fit_are_the_error_of_one_call");
    let scene = Scene::new("arguments");
    let end = scene.import();
    let (add, echo) = (procedure("add"), procedure("echo"));
    let huge = [&[255][..], &u64::MAX.to_le_bytes()].concat();
    let inline: &[(u16, &[u8])] = &[
        (add, &[]),
        (add, &[1]),
        (add, &[1, 2, 3]),
        (procedure("null"), &[0]),
        (echo, &[5, 1, 2]),
        (echo, &huge),
        (procedure("everything"), &[255; INLINE - Tag::BYTES]),
        (procedure("refuse"), &[2, 0xff, 0xff]),
    ];
    for (what, bytes) in inline {
        assert_eq!(call(&end, 7, *what, bytes), BAD_ARGUMENTS, "procedure {what} of {bytes:?}");
        assert_eq!(call(&end, 7, add, &[1, 2]), DONE, "the binding goes on");
    }
    // The highest bit says that the message begins with interfaces.
    let procedures = ProbeClient::descriptor().procedures.len() as u16;
    for (what, outcome) in [
        (procedures, NO_PROCEDURE),
        (0x7fff, NO_PROCEDURE),
        (u16::MAX, BAD_ARGUMENTS),
        (0x8000 | add, BAD_ARGUMENTS),
    ] {
        assert_eq!(call(&end, 7, what, &[1; INLINE - Tag::BYTES]), outcome);
        assert_eq!(call(&end, 7, add, &[1, 2]), DONE, "the binding goes on");
    }
    // The same in the A-stack and out of band.
    end.fill_stack(9, &huge);
    end.post(&on_the_stack(9, echo, STACK as u32));
    assert_eq!(outcome(&end, 9), BAD_ARGUMENTS);
    end.pass(9, 9, payload_file(&huge).as_fd());
    end.post(&out_of_band(9, echo));
    assert_eq!(outcome(&end, 9), BAD_ARGUMENTS);
    end.pass(9, 100_000, payload_file(&vec![0; 100_000]).as_fd());
    end.post(&out_of_band(9, add));
    assert_eq!(outcome(&end, 9), BAD_ARGUMENTS);
    assert_eq!(call(&end, 7, add, &[1, 2]), DONE);
    drop(end);
    scene.is_unharmed();
}

#[test]
fn a_deadline_that_lies_is_the_liars_own() {
    let _watchdog = Watchdog::new("a_deadline_that_lies_is_the_liars_own");
    let scene = Scene::new("wanted");
    let end = scene.import();
    let bounded = |what| Cell { bounded: true, ..Cell::request(3, what, ROW) };
    let word = |value| end.region.word(CANCEL_WORDS / 8 + 3).store(value, Ordering::SeqCst);
    for (value, outcome_of_it) in [(0, DONE), (1, UNWANTED), (u64::MAX - 1, DONE), (u64::MAX, UNWANTED)] {
        word(value);
        end.post(&bounded(procedure("null")));
        assert_eq!(outcome(&end, 3), outcome_of_it, "{value}");
    }
    // Numbers of sections that nobody has, and numbers that the word does not announce.
    let first = SECTIONS / 8 + 3 * SECTION_NUMBERS;
    (0..SECTION_NUMBERS)
        .for_each(|n| end.region.word(first + n).store(u64::MAX - n as u64, Ordering::SeqCst));
    for (value, outcome_of_it) in [(1 << 63, DONE), (0, DONE), (1 << 63 | 1, UNWANTED)] {
        word(value);
        end.post(&bounded(procedure("null")));
        assert_eq!(outcome(&end, 3), outcome_of_it, "{value}");
    }
    // The word is changed while the call is in progress.
    word(0);
    end.post(&Cell {
        bounded: true,
        ..Cell::inline_request(3, procedure("meet"), ROW, &1u32.to_le_bytes()).unwrap()
    });
    (0..1000).for_each(|value| word(value * (u64::MAX / 1000)));
    assert!([DONE, UNWANTED].contains(&outcome(&end, 3)));
    assert_eq!(call(&end, 3, procedure("add"), &[1, 2]), DONE, "the binding goes on");
    drop(end);
    scene.is_unharmed();
}

#[test]
fn a_client_that_says_that_nobody_waits_ends_its_own_calls() {
    let _watchdog = Watchdog::new("a_client_that_says_that_nobody_waits_ends_its_own_calls");
    let scene = Scene::new("unwanted");
    let end = scene.import();
    let say = |slots: u64| {
        let mut bytes = [0u8; 16];
        bytes[0] = 11;
        bytes[8..].copy_from_slice(&slots.to_le_bytes());
        // A full socket is enough.
        let _ = end.socket.send(&bytes, &[]);
    };
    let word = |slot: usize, value| end.region.word(CANCEL_WORDS / 8 + slot).store(value, Ordering::SeqCst);
    // Slots without a call, with words that say so and words that do not. Calls over them are
    // served or refused.
    (0..100).for_each(|_| say(u64::MAX));
    assert_eq!(call(&end, 3, procedure("add"), &[1, 2]), DONE);
    (0..64).for_each(|slot| word(slot, u64::MAX));
    (0..100).for_each(|_| say(u64::MAX));
    let told: Vec<_> = (0..200).map(|n| call(&end, n % 64, procedure("add"), &[1, 2])).collect();
    assert!(told.iter().all(|told| [DONE, UNWANTED].contains(told)), "{told:?}");
    (0..64).for_each(|slot| word(slot, 0));
    // The slot of a call in progress, repeatedly. If the call has begun, it meets two others.
    end.post(&Cell::inline_request(5, procedure("meet"), ROW, &2u32.to_le_bytes()).unwrap());
    (0..1000).for_each(|n| {
        word(5, if n % 2 == 0 { u64::MAX } else { 0 });
        say(1 << 5);
    });
    assert_eq!([scene.honest.meet(1), scene.honest.meet(1)], [Ok(()), Ok(())]);
    assert!([DONE, UNWANTED].contains(&outcome(&end, 5)));
    (0..64).for_each(|slot| word(slot, 0));
    assert!((0..64).all(|slot| call(&end, slot, procedure("add"), &[1, 2]) == DONE), "the binding goes on");
    drop(end);
    scene.is_unharmed();
}

#[test]
fn a_payload_file_that_is_not_as_announced_closes_its_binding() {
    let _watchdog = Watchdog::new("a_payload_file_that_is_not_as_announced_closes_its_binding");
    let scene = Scene::new("payload-files");
    let echo = procedure("echo");
    let cell = out_of_band(3, echo);
    scene.closes(|end| end.post(&cell));
    for (announced, there) in [(1_000_000, 10), (1, 0), (LARGEST + 1, 10), (u64::MAX, 10), (8192, 4096)] {
        scene.closes(|end| {
            end.pass(3, announced, payload_file(&vec![1; there]).as_fd());
            end.post(&cell);
        });
    }
    // A terabyte of holes, with one word at its end.
    scene.closes(|end| {
        let sparse = payload_file(&[255]);
        sparse.write(&[1; 8], 1 << 40).unwrap();
        end.pass(3, LARGEST, sparse.as_fd());
        end.post(&cell);
    });
    // A file for another slot than the one that names it.
    scene.closes(|end| {
        end.pass(4, 1, payload_file(&[0]).as_fd());
        end.post(&cell);
    });
}

#[test]
fn a_payload_file_that_is_no_memory_closes_its_binding() {
    let _watchdog = Watchdog::new("a_payload_file_that_is_no_memory_closes_its_binding");
    let scene = Scene::new("files");
    let cell = out_of_band(3, procedure("echo"));
    let (reader, writer) = std::io::pipe().unwrap();
    scene.closes(|end| {
        end.pass(3, 100_000, reader.as_fd());
        end.post(&cell);
    });
    scene.closes(|end| end.pass(3, 100_000, writer.as_fd()));
    for path in ["/dev/null", "/dev/zero", "/", "/proc/self/mem"] {
        scene.closes(|end| {
            end.pass(3, 100_000, File::open(path).unwrap().as_fd());
            end.post(&cell);
        });
    }
    scene.closes(|end| end.pass(3, 100_000, end.socket.as_fd()));
}

#[test]
fn nonsense_over_the_socket_closes_its_binding() {
    let _watchdog = Watchdog::new("nonsense_over_the_socket_closes_its_binding");
    let scene = Scene::new("nonsense");
    for size in [1, 15, 17, 4096, 100_000] {
        scene.closes(|end| end.say(&vec![0; size], &[]));
    }
    // A close, answers to no question, and kinds that do not exist.
    for kind in [2, 4, 5, 6, 128, 255] {
        scene.closes(|end| end.say(&[kind; 16], &[]));
    }
    let file = File::open("/dev/null").unwrap();
    for slot in [SLOTS as u16, u16::MAX] {
        scene.closes(|end| end.say(&announcement(slot, 1), &[payload_file(&[0]).as_fd()]));
    }
    scene.closes(|end| end.say(&[9; 16], &[file.as_fd(); 4]));
}

/// Asks for another channel of the binding of `end`, and returns it.
fn ask(end: &End) -> End {
    end.say(&[3; 16], &[]);
    end.socket.wait(u64::MAX / 2).unwrap();
    let mut said = [0; 16];
    let received = end.socket.receive(&mut said).unwrap();
    assert_eq!((received.len, said[0]), (16, 4));
    let [region] = received.files.try_into().unwrap();
    let channel = Channel::adopt(region.as_fd(), Fence::Full, STACK).unwrap();
    End {
        socket: Socket::adopt(end.socket.as_fd().try_clone_to_owned().unwrap()).unwrap(),
        number: said[1] >> 4,
        channel,
        region: Arc::new(Region::adopt(region.as_fd(), STACK).unwrap()),
    }
}

#[test]
fn a_client_that_asks_for_too_many_channels_loses_all_of_them() {
    let _watchdog = Watchdog::new("a_client_that_asks_for_too_many_channels_loses_all_of_them");
    let scene = Scene::new("too-many");
    let end = scene.import();
    let further: Vec<_> = (1..CHANNELS).map(|_| ask(&end)).collect();
    for end in further.iter().chain([&end]) {
        assert_eq!(call(end, 0, procedure("add"), &[1, 2]), DONE);
    }
    let numbers: Vec<_> = further.iter().map(|end| usize::from(end.number)).collect();
    assert_eq!(numbers, (1..CHANNELS).collect::<Vec<_>>());
    assert_eq!(scene.files.others(), 1, "one socket for all");
    end.say(&[3; 16], &[]);
    end.hung_up();
    further.iter().for_each(End::hung_up);
    scene.is_unharmed();
    // The same, where each channel is requested over the one before.
    let mut ends = vec![scene.import()];
    (1..CHANNELS).for_each(|last| ends.push(ask(&ends[last - 1])));
    ends[CHANNELS - 1].say(&[3; 16], &[]);
    ends.iter().for_each(End::hung_up);
    drop(ends);
    scene.is_unharmed();
}

#[test]
fn a_lie_over_one_channel_closes_the_binding() {
    let _watchdog = Watchdog::new("a_lie_over_one_channel_closes_the_binding");
    let scene = Scene::new("one-of-two");
    let lies: [fn(&End); 3] = [
        |end| end.post(&Cell::request(u16::MAX, 0, ROW)),
        |end| end.say(&[9; 16], &[]),
        |end| end.socket.hang_up(),
    ];
    for lie in lies {
        for over_the_first in [true, false] {
            let first = scene.import();
            let second = ask(&first);
            let (liar, other) = if over_the_first { (&first, &second) } else { (&second, &first) };
            assert_eq!(call(liar, 0, procedure("add"), &[1, 2]), DONE);
            lie(liar);
            other.hung_up();
            scene.is_unharmed();
        }
    }
}

#[test]
fn files_that_nobody_asked_for_don_t_pile_up() {
    let _watchdog = Watchdog::new("files_that_nobody_asked_for_don_t_pile_up");
    let scene = Scene::new("pile");
    let end = scene.import();
    let file = payload_file(&[0]);
    for _ in 0..500 {
        // An out-of-band payload file that replaces the one before. The server may be slower than
        // this client.
        until("room in the socket", || end.socket.send(&announcement(1, 1), &[file.as_fd()]).ok());
    }
    // The binding's own socket, and the last payload file.
    until("the server to drop them", || (scene.files.others() <= 2).then_some(()));
    assert_eq!(call(&end, 0, procedure("add"), &[1, 2]), DONE);
    drop(end);
    scene.is_unharmed();
}

#[test]
fn files_with_what_brings_none_close_the_binding() {
    let _watchdog = Watchdog::new("files_with_what_brings_none_close_the_binding");
    let scene = Scene::new("bell-with-files");
    let end = scene.import();
    let file = payload_file(&[0]);
    end.say(&[0; 16], &[file.as_fd(); 4]);
    end.hung_up();
    drop(end);
    scene.is_unharmed();
}

#[test]
fn a_hello_of_garbage_is_refused() {
    let _watchdog = Watchdog::new("a_hello_of_garbage_is_refused");
    let scene = Scene::new("hello");
    let honest = hello();
    let (magic, hash) = (HEAD.0, ProbeClient::descriptor().hash);
    let other_version =
        to_bytes(&((magic, VERSION + 1, REGION as u64), [hash].as_slice(), (false, None::<u32>, false)));
    let other_region =
        to_bytes(&((magic, VERSION, 1u64 << 40), [hash].as_slice(), (false, None::<u32>, false)));
    let with_versions = |hashes: &[u64]| {
        let clock = (clock::ahead_ns(), clock::now_ns());
        to_bytes(&(HEAD, hashes, (false, None::<u32>, false), clock, Vec::<u128>::new()))
    };
    let no_bool = [&honest[..25], &[7, 9]].concat();
    for said in [&[0][..], &[255; 16], &[7; 1_000], &honest[..honest.len() - 1], &honest[..4], &no_bool] {
        refused(&scene, said, Some(3));
    }
    refused(&scene, &other_version, Some(1));
    refused(&scene, &other_region, Some(1));
    // An older version of another interface and this one, and the same number again and again.
    for other in [&[!hash][..], &[!hash, hash ^ 1], &[0; 64]] {
        refused(&scene, &with_versions(other), Some(2));
    }
    for count in [0, 65, 100] {
        refused(&scene, &with_versions(&vec![hash; count]), Some(3));
    }
    // A length that no message has.
    let long = [&honest[..16], &[255; 9], &honest[17..]].concat();
    refused(&scene, &long, Some(3));
    refused(&scene, &with_versions(&vec![hash; 1_000]), None);
    refused(&scene, &[7; 100_000], None);
}

/// Checks that the server answers with this kind of refusal or not at all, and hangs up.
pub fn refused(scene: &Scene, said: &[u8], kind: Option<u8>) {
    let socket = connect(scene.server.name());
    let answer = answer(&socket, said);
    let told = answer.map(|(bytes, files)| {
        assert!(files.is_empty());
        bytes[16]
    });
    assert_eq!(told, kind, "{:?}", &said[..said.len().min(40)]);
    until_gone(&socket);
    scene.is_unharmed();
}

#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    let _watchdog = Watchdog::new("clients_that_say_nothing_keep_nobody_out");
    let scene = Scene::new("silent");
    let silent: Vec<_> = (0..300).map(|_| connect(scene.server.name())).collect();
    assert_eq!(scene.honest.add(1, 2), Ok(3), "a binding that is there goes on");
    let other = ProbeClient::import(scene.server.name()).expect("an honest import");
    assert_eq!(other.add(2, 2), Ok(4));
    drop((silent, other));
    // Connections that come and go at once.
    (0..300).for_each(|_| drop(connect(scene.server.name())));
    scene.is_unharmed();
}

#[test]
fn a_ticket_makes_nobody_whom_it_is_not() {
    let _watchdog = Watchdog::new("a_ticket_makes_nobody_whom_it_is_not");
    let server = ServerProcess::start(SERVER, &Room::name("ticket"), "shared");
    let client = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    let ticket = || {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        client.share_with(&ours).unwrap();
        Socket::adopt(underpass_os::take_passed(&theirs, u64::MAX / 2).unwrap()).unwrap()
    };
    client.null().unwrap();
    let files = Files::of(server.pid());
    let used = |ticket: &Socket| ticket.wait(u64::MAX / 2).unwrap() && gone(ticket);
    // An end of a pair that another process has made, even the server itself. The maker is not the
    // sender of the hello.
    let (first, second) = (ticket(), ticket());
    first.send(&hello(), &[second.as_fd()]).unwrap();
    assert!(used(&first));
    assert_eq!(
        second.receive(&mut [0; 64]).unwrap_err().kind(),
        std::io::ErrorKind::WouldBlock,
        "no welcome"
    );
    drop((first, second));
    // No file, a file that is no connection, and nonsense.
    let (alone, file, nonsense) = (ticket(), ticket(), ticket());
    alone.send(&hello(), &[]).unwrap();
    file.send(&hello(), &[File::open("/dev/null").unwrap().as_fd()]).unwrap();
    let (ours, theirs) = Socket::pair().unwrap();
    nonsense.send(b"nonsense", &[theirs.as_fd()]).unwrap();
    assert!(used(&alone) && used(&file) && used(&nonsense));
    drop(theirs);
    drop((ours, alone, file, nonsense));
    // An honest ticket, used only once.
    let honest = ticket();
    let (ours, theirs) = Socket::pair().unwrap();
    honest.send(&hello(), &[theirs.as_fd()]).unwrap();
    drop(theirs);
    ours.wait(u64::MAX / 2).unwrap();
    assert_eq!(ours.receive(&mut vec![0; 64 * 1024]).unwrap().files.len(), 2, "welcome");
    assert!(used(&honest));
    drop((ours, honest));
    // Unused tickets are dropped with their holder.
    drop((0..20).map(|_| ticket()).collect::<Vec<_>>());
    files.until_no_others();
    assert_eq!(client.add(1, 2), Ok(3));
}
