//! Servers that lie to a client, or damage the memory that they share with it. The client's calls
//! end with an error that says so.

mod late_server;
mod lying_server;

use crate::hostile::end::{
    BAD_ARGUMENTS, DONE, End, HEAD, NO_PROCEDURE, ROW, announcement, on_the_stack, out_of_band, payload_file,
    until_gone,
};
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use underpass::{CallError, ImportError, Outcome, ShareError, thread};
use underpass_channel::layout::{LARGEST, LINE_WORDS, LINES, REGION, REPLIES, SLOTS, STACK, TAKEN, VERSION};
use underpass_channel::{
    Cell, Channel, Fence, HeapMemory, INLINE, Ids, OverflowBuffer, PayloadPlace, Region, RingMemory, Sending,
    Tag,
};
use underpass_harness::{alone, skip};
use underpass_os::{Directory, Listening, Memory, Socket};
use underpass_tests::{Files, Probe, ProbeClient, Room, ServerProcess, Watchdog, regions_of, until};
use underpass_wire::to_bytes;

const SERVER: &str = env!("CARGO_BIN_EXE_underpass-test-server");

/// Longer than any import takes.
const LONG: Duration = Duration::from_secs(1000);

/// A hand-made server, an honest one, and the files of this process while no other client is there.
struct Scene {
    listening: Listening,
    name: String,
    _server: ServerProcess,
    honest: ProbeClient,
    files: Files,
}

impl Scene {
    fn new(of: &str) -> Self {
        let server = ServerProcess::start(SERVER, &Room::name(&format!("{of}-honest")), "probe");
        let honest = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
        honest.null().unwrap();
        let name = Room::name(of);
        let listening = Listening::bind(&Directory::from_environment(), &name, 0o600).unwrap();
        let files = Files::own();
        Self { listening, name, _server: server, honest, files }
    }

    /// Counts again, because the test has opened files of its own.
    fn count(&mut self) {
        self.files = Files::own();
    }

    /// Accepts the next client, receives its hello, and answers with `said` and `files`.
    fn answer(&self, said: &[u8], files: &[BorrowedFd<'_>]) -> Socket {
        self.answer_to(until("a client", || self.listening.accept().ok()), said, files)
    }

    fn answer_to(&self, socket: Socket, said: &[u8], files: &[BorrowedFd<'_>]) -> Socket {
        socket.wait(u64::MAX / 2).unwrap();
        socket.admit_files(true);
        assert!(socket.receive(&mut [0; 1024]).unwrap().len > 0, "an honest client says hello");
        socket.send(said, files).unwrap();
        socket
    }

    /// Makes a binding with the next client, if one is waiting.
    fn bind_if_wanted(&self) -> Option<End> {
        self.listening.accept().ok().map(|socket| self.bind_to(socket))
    }

    /// Accepts the next client and makes a binding as an honest server does.
    fn bind(&self) -> End {
        self.bind_to(until("a client", || self.listening.accept().ok()))
    }

    fn bind_to(&self, socket: Socket) -> End {
        let (channel, file) = Channel::create(Fence::Full, STACK).unwrap();
        let socket = self.answer_to(socket, &welcome(), &[file.as_fd()]);
        End { socket, number: 0, channel, region: Arc::new(Region::adopt(file.as_fd(), STACK).unwrap()) }
    }

    /// The result of `call` over a binding whose other end does `lie`, and then stays until the
    /// client hangs up.
    fn lied_to<R>(&self, lie: impl FnOnce(&End) + Send, call: impl FnOnce(&ProbeClient) -> R) -> R {
        let given = std::thread::scope(|scope| {
            scope.spawn(|| {
                let end = self.bind();
                lie(&end);
                end.hung_up();
            });
            call(&ProbeClient::import(&self.name).unwrap())
        });
        self.is_unharmed();
        given
    }

    /// Checks that a call over a binding whose other end does `lie` ends with a violation, and that
    /// only that binding is closed.
    fn violates(&self, lie: impl FnOnce(&End) + Send) {
        self.lied_to(lie, |client| {
            violation(client.pid());
            violation(client.pid());
        });
    }

    /// The error of an import from a server that answers so.
    fn import_fails(&self, said: &[u8], files: &[BorrowedFd<'_>]) -> ImportError {
        let failed = std::thread::scope(|scope| {
            scope.spawn(|| until_gone(&self.answer(said, files)));
            ProbeClient::import(&self.name).unwrap_err()
        });
        self.is_unharmed();
        failed
    }

    fn is_unharmed(&self) {
        assert_eq!(self.honest.add(1, 2), Ok(3));
        // Only the honest binding's region is left.
        until("this domain to let go", || {
            (self.files.others() == 0 && regions_of(std::process::id()) == 1).then_some(())
        });
    }
}

fn welcome() -> Vec<u8> {
    welcome_to(ProbeClient::descriptor().hash)
}

/// A welcome that says that both sides know the version `hash`.
fn welcome_to(hash: u64) -> Vec<u8> {
    to_bytes(&(HEAD, 0u8, (false, None::<u32>, false), hash, None::<u128>, 1u128, ROW.word()))
}

fn violation<R: std::fmt::Debug>(result: Result<R, CallError>) {
    assert!(matches!(result, Err(CallError::ProtocolViolation(_))), "{result:?}");
}

/// The next call that comes.
fn call(end: &End) -> Cell {
    until("a call", || end.take())
}

/// The reply to `call` as an honest server sends it.
fn done(call: &Cell, bytes: &[u8]) -> Cell {
    Cell::inline(call.slot(), DONE, bytes).unwrap()
}

#[test]
fn a_channel_that_nobody_asked_for_closes_the_binding() {
    alone!();
    let _watchdog = Watchdog::new("a_channel_that_nobody_asked_for_closes_the_binding");
    let mut scene = Scene::new("unasked");
    let ((_, region), (_, socket)) = (Channel::create(Fence::Full, STACK).unwrap(), Socket::pair().unwrap());
    scene.count();
    let answer = |end: &End, kind: u8, files: &[BorrowedFd<'_>]| {
        call(end);
        end.say(&[kind; 16], files);
    };
    scene.violates(|end| answer(end, 4, &[]));
    scene.violates(|end| answer(end, 5, &[]));
    scene.violates(|end| answer(end, 3, &[]));
    scene.violates(|end| answer(end, 4, &[region.as_fd(), socket.as_fd()]));
}

#[test]
fn an_overflow_buffer_that_its_client_did_not_make_closes_the_binding() {
    alone!();
    let _watchdog = Watchdog::new("an_overflow_buffer_that_its_client_did_not_make_closes_the_binding");
    let mut scene = Scene::new("overflow-buffers");
    let (_overflow_buffer, file) = OverflowBuffer::create(1).unwrap().unwrap();
    scene.count();
    let in_overflow_buffer =
        |slot| Cell { place: PayloadPlace::OverflowBuffer, length: 10, ..Cell::new(slot, DONE) };
    // A buffer that does not exist, whatever the buffer word says. A buffer that the server makes,
    // for a reply and for nothing.
    scene.violates(|end| end.post(&in_overflow_buffer(call(end).slot())));
    scene.violates(|end| {
        let call = call(end);
        end.channel.set_mapped_overflow(call.slot(), 1);
        end.post(&in_overflow_buffer(call.slot()));
    });
    scene.violates(|end| {
        let slot = call(end).slot();
        let mut said = announcement(slot, 10);
        (said[1], said[6]) = (3, 1);
        end.say(&said, &[file.as_fd()]);
        end.post(&out_of_band(slot, DONE));
    });
    scene.violates(|end| {
        call(end);
        end.say(&[[10; 8], [0; 8]].concat(), &[file.as_fd()]);
    });
    // The client's own buffer, while the server names another number, or more bytes than the buffer
    // has.
    for (number, length) in [(2, 10), (1, 1 << 20), (1, u32::MAX)] {
        let lie = |end: &End| {
            let call = call(end);
            end.channel.set_mapped_overflow(call.slot(), number);
            end.post(&Cell { length, ..in_overflow_buffer(call.slot()) });
        };
        scene.lied_to(lie, |client| violation(client.echo(&[7; 40_000])));
    }
}

#[test]
fn a_ticket_that_nobody_asked_for_closes_the_binding_and_one_that_is_none_gives_none() {
    alone!();
    let _watchdog = Watchdog::new("a_ticket_that_is_none");
    let mut scene = Scene::new("ticket");
    let null = std::fs::File::open("/dev/null").unwrap();
    let (giver, taker) = UnixStream::pair().unwrap();
    scene.count();
    // Over the first channel.
    let of_kind = |kind| [kind, 0, kind, kind, kind, kind, kind, kind, 0, 0, 0, 0, 0, 0, 0, 0];
    for (kind, files) in [(7, &[][..]), (8, &[]), (8, &[null.as_fd()]), (9, &[])] {
        scene.violates(|end| {
            call(end);
            end.say(&of_kind(kind), files);
        });
    }
    let taken = |within| ProbeClient::import_from(&taker, within).unwrap_err();
    let system = |e| match e {
        ImportError::System(_, e) => e.kind(),
        e => panic!("{e}"),
    };
    assert_eq!(system(taken(Duration::ZERO)), ErrorKind::TimedOut);
    // Its server has none to give, or gives a file that is none.
    let shared = |files: &[BorrowedFd<'_>]| {
        let answer = |end: &End| {
            until("a question", || end.socket.receive(&mut [0; 16]).ok());
            end.say(&of_kind(8), files);
        };
        scene.lied_to(answer, |client| client.share_with(&giver))
    };
    assert!(matches!(shared(&[]), Err(ShareError::NoRoom)));
    assert!(shared(&[null.as_fd()]).is_ok());
    assert_eq!(system(taken(LONG)), ErrorKind::InvalidData);
    // A domain that passes a binding on by itself has none either.
    (&giver).write_all(&[0]).unwrap();
    assert_eq!(system(taken(LONG)), ErrorKind::InvalidData);
    underpass_os::pass(&giver, giver.as_fd()).unwrap();
    assert_eq!(system(taken(LONG)), ErrorKind::InvalidData);
    let (ours, theirs) = Socket::pair().unwrap();
    underpass_os::pass(&giver, theirs.as_fd()).unwrap();
    drop((ours, theirs));
    assert!(matches!(taken(LONG), ImportError::Lapsed));
    drop(giver);
    assert_eq!(system(taken(LONG)), ErrorKind::UnexpectedEof);
}

/// Answers calls until the client asks for a channel. Then it says `said` with `files`, and goes on
/// until the client has hung up.
fn serve_and_open(end: &End, said: u8, files: &[BorrowedFd<'_>]) {
    let mut waiting = Vec::new();
    loop {
        while let Some(call) = end.take() {
            waiting.push(call);
        }
        // It answers late, because both callers must have calls in progress.
        if waiting.len() > 1 {
            let call = waiting.remove(0);
            end.post(&done(&call, &[0]));
        }
        let mut heard = [0; 16];
        match end.socket.receive(&mut heard) {
            Ok(received) if received.len == 0 => return,
            Ok(_) if heard[0] == 3 => end.say(&[said; 16], files),
            Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => return,
            _ => {}
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_channel_that_is_none_closes_the_binding() {
    alone!();
    let _watchdog = Watchdog::new("a_channel_that_is_none_closes_the_binding");
    let cpus = underpass_os::cpu::allowed().unwrap();
    let &[one, other, ..] = &cpus[..] else {
        skip!("on one CPU a binding keeps one channel");
    };
    let mut scene = Scene::new("none");
    let ((_, region), (_, socket)) = (Channel::create(Fence::Full, STACK).unwrap(), Socket::pair().unwrap());
    let file = std::fs::File::open("/dev/null").unwrap();
    scene.count();
    let lies = [
        [region.as_fd(), file.as_fd()],
        [file.as_fd(), socket.as_fd()],
        [region.as_fd(), region.as_fd()],
        [socket.as_fd(), region.as_fd()],
    ];
    for files in lies {
        scene.lied_to(
            |end| serve_and_open(end, 4, &files),
            |client| {
                let contend = |cpu| {
                    let client = client.clone();
                    move || {
                        underpass_os::cpu::confine(&[cpu]).unwrap();
                        violation(Err::<(), _>(until("the lie", || client.null().err())));
                    }
                };
                std::thread::scope(|scope| {
                    scope.spawn(contend(one));
                    scope.spawn(contend(other));
                });
            },
        );
    }
}

#[test]
fn a_reply_that_no_honest_server_writes_closes_the_binding() {
    alone!();
    let _watchdog = Watchdog::new("a_reply_that_no_honest_server_writes_closes_the_binding");
    let scene = Scene::new("replies");
    let replies: &[fn(&Cell) -> Cell] = &[
        |call| Cell { length: INLINE as u32 + 1, ..done(call, &[]) },
        |call| Cell { length: u32::MAX, ..done(call, &[]) },
        |call| Cell { ids: Ids::new(call.slot() + 1, DONE), ..done(call, &[0, 1, 0, 0, 0]) },
        |call| Cell { ids: Ids::new(SLOTS as u16, DONE), ..done(call, &[0, 1, 0, 0, 0]) },
        |call| Cell { ids: Ids::new(u16::MAX, DONE), ..done(call, &[0, 1, 0, 0, 0]) },
        |call| Cell::new(call.slot(), 100),
        |call| Cell::new(call.slot(), u16::MAX),
        |call| on_the_stack(call.slot(), DONE, STACK as u32 + 1),
        |call| on_the_stack(call.slot(), DONE, u32::MAX),
        |call| out_of_band(call.slot(), DONE),
    ];
    for reply in replies {
        scene.violates(|end| end.post(&reply(&call(end))));
    }
    // A reply to no call at all.
    scene.violates(|end| end.post(&Cell::inline(5, DONE, &[0]).unwrap()));
    for bits in [3 << 54, 0x7fff << 48] {
        scene.violates(|end| {
            call(end);
            // The first message of a ring lies in its first line.
            end.region.word(REPLIES / 8).store(1 << 63 | bits | 1, Ordering::Release);
            end.call_peer();
        });
    }
}

#[test]
fn a_count_that_lies_deceives_about_its_own_calls_alone() {
    alone!();
    let _watchdog = Watchdog::new("a_count_that_lies_deceives_about_its_own_calls_alone");
    let scene = Scene::new("count");
    for count in [0, 1, 7, 1 << 15, u64::from(u32::MAX), u64::MAX] {
        let told = std::thread::scope(|scope| {
            scope.spawn(|| {
                let end = scene.bind();
                call(&end);
                end.region.word(TAKEN / 8).store(count, Ordering::SeqCst);
            });
            ProbeClient::import(&scene.name).unwrap().pid()
        });
        assert!(matches!(told, Err(CallError::PeerDied(_))), "{told:?}");
        scene.is_unharmed();
    }
    // A call that was refused for a deadline that it did not have.
    let refusal =
        scene.lied_to(|end| end.post(&Cell::inline(call(end).slot(), 4, &[0]).unwrap()), ProbeClient::pid);
    assert_eq!(refusal, Err(CallError::Deadline(Outcome::NotStarted)));
}

#[test]
fn a_second_reply_to_a_call_closes_the_binding() {
    alone!();
    let _watchdog = Watchdog::new("a_second_reply_to_a_call_closes_the_binding");
    let scene = Scene::new("twice");
    let lie = |end: &End| {
        let reply = done(&call(end), &[0, 7, 0, 0, 0]);
        // Both cells must appear at once, or the second would count as the reply to the next call.
        // So the first cell is written last.
        let ring = Arc::new(HeapMemory::new(LINES as usize * LINE_WORDS));
        let sending = Sending::new(ring.clone(), 0, LINES);
        sending.post(&reply, 0);
        sending.post(&reply, 1);
        for index in (0..LINES as usize * LINE_WORDS).rev() {
            let word = ring.word(index).load(Ordering::Relaxed);
            end.region.word(REPLIES / 8 + index).store(word, Ordering::Release);
        }
        end.call_peer();
    };
    scene.lied_to(lie, |client| {
        assert_eq!(client.pid(), Ok(7));
        violation(client.pid());
    });
}

#[test]
fn results_that_don_t_decode_are_the_error_of_one_call() {
    alone!();
    let _watchdog = Watchdog::new("results_that_don_t_decode_are_the_error_of_one_call");
    let scene = Scene::new("results");
    let results: &[&[u8]] = &[&[], &[0], &[0, 1, 2], &[2], &[0, 1, 0, 0, 0, 9], &[1, 250], &[0xff; INLINE]];
    let lie = |end: &End| {
        for bytes in results {
            end.post(&done(&call(end), bytes));
            end.post(&done(&call(end), &[0, 7, 0, 0, 0]));
        }
        // A list larger than memory, in the A-stack and out of band.
        let huge = [&[0, 255][..], &u64::MAX.to_le_bytes()].concat();
        let slot = call(end).slot();
        end.fill_stack(slot, &huge);
        end.post(&on_the_stack(slot, DONE, STACK as u32));
        let slot = call(end).slot();
        end.pass(slot, huge.len() as u64, payload_file(&huge).as_fd());
        end.post(&out_of_band(slot, DONE));
        end.post(&Cell::inline(call(end).slot(), BAD_ARGUMENTS, &[2, b'n', b'o']).unwrap());
        // The server has the procedure, since both sides have the same version.
        end.post(&Cell::inline(call(end).slot(), NO_PROCEDURE, &[200, 7]).unwrap());
        end.post(&done(&call(end), &[0, 7, 0, 0, 0]));
    };
    scene.lied_to(lie, |client| {
        for bytes in results {
            let result = client.pid();
            assert!(
                matches!(result, Err(CallError::Decode(Outcome::Executed, _))),
                "{bytes:?} gave {result:?}"
            );
            assert_eq!(client.pid(), Ok(7), "the binding goes on");
        }
        for _ in 0..2 {
            let result = client.fill(1);
            assert!(matches!(result, Err(CallError::Decode(Outcome::Executed, _))), "{result:?}");
        }
        assert_eq!(client.null(), Err(CallError::Decode(Outcome::NotStarted, "no".to_owned())));
        assert_eq!(client.null(), Err(CallError::Unsupported(Outcome::NotStarted)));
        assert_eq!(client.pid(), Ok(7));
    });
}

#[test]
fn a_payload_file_that_is_not_as_announced_closes_the_binding() {
    alone!();
    let _watchdog = Watchdog::new("a_payload_file_that_is_not_as_announced_closes_the_binding");
    let scene = Scene::new("payload-files");
    for (announced, there) in [(1_000_000, 10), (1, 0), (LARGEST + 1, 10), (u64::MAX, 10)] {
        scene.violates(|end| {
            let slot = call(end).slot();
            end.pass(slot, announced, payload_file(&vec![1; there]).as_fd());
            end.post(&out_of_band(slot, DONE));
        });
    }
    let (reader, _writer) = std::io::pipe().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let scene = Scene { files: Files::own(), ..scene };
    for file in [reader.as_fd(), null.as_fd()] {
        scene.violates(|end| {
            let slot = call(end).slot();
            end.pass(slot, 100_000, file);
            end.post(&out_of_band(slot, DONE));
        });
    }
}

#[test]
fn nonsense_over_the_socket_ends_every_call_of_the_binding() {
    alone!();
    let _watchdog = Watchdog::new("nonsense_over_the_socket_ends_every_call_of_the_binding");
    let scene = Scene::new("nonsense");
    for said in [&[0][..], &[0; 17], &[9; 16], &announcement(SLOTS as u16, 1)] {
        let lie = |end: &End| {
            let calls: Vec<_> = (0..8).map(|_| call(end).slot()).collect();
            assert_eq!(calls.iter().max(), Some(&7));
            end.say(said, &[]);
        };
        scene.lied_to(lie, |client| {
            let calls: Vec<_> = (0..8)
                .map(|_| {
                    let client = client.clone();
                    thread::spawn(move || client.nap(0))
                })
                .collect();
            calls.into_iter().for_each(|call| violation(call.join().unwrap()));
        });
    }
}

#[test]
fn a_server_that_hangs_up_ends_every_call() {
    alone!();
    let _watchdog = Watchdog::new("a_server_that_hangs_up_ends_every_call");
    let scene = Scene::new("gone");
    let gone = |result: Result<u32, CallError>| {
        assert!(matches!(result, Err(CallError::PeerDied(_) | CallError::Closed(_))), "{result:?}");
    };
    // Right after the welcome, and with a call in progress.
    scene.lied_to(|end| end.socket.hang_up(), |client| gone(client.pid()));
    scene.lied_to(
        |end| {
            call(end);
            end.socket.hang_up()
        },
        |client| gone(client.pid()),
    );
}

#[test]
fn a_server_that_closes_rows_closes_no_others() {
    alone!();
    let _watchdog = Watchdog::new("a_server_that_closes_rows_closes_no_others");
    let scene = Scene::new("rows");
    let close = |end: &End, tag: Tag, kind: u8| {
        let mut said = [0; 16];
        (said[0], said[2]) = (kind, 1);
        said[8..].copy_from_slice(&tag.word().to_le_bytes());
        until("room in the socket", || end.socket.send(&said, &[]).ok());
    };
    // Rows that the client does not have, more of them than it remembers, and then its own.
    let lie = |end: &End| {
        let call = call(end);
        (0..1000).for_each(|n| close(end, Tag::new(n, 2), 6));
        end.post(&done(&call, &[0]));
        self::call(end);
        close(end, ROW, 6);
    };
    scene.lied_to(lie, |client| {
        assert_eq!(client.null(), Ok(()));
        assert!(matches!(client.null(), Err(CallError::Revoked(_))), "its caller is freed");
        assert!(matches!(client.null(), Err(CallError::Revoked(Outcome::NotStarted))));
    });
    // It says that there is no such row, and closes nothing.
    let refuse = |end: &End| end.post(&Cell::new(call(end).slot(), 11));
    scene.lied_to(refuse, |client| {
        assert!(matches!(client.null(), Err(CallError::Closed(Outcome::NotStarted))));
        assert!(matches!(client.null(), Err(CallError::Closed(Outcome::NotStarted))));
    });
    // Only clients release rows.
    scene.violates(|end| {
        call(end);
        close(end, ROW, 13);
    });
    // It says that the client joins a connection that it did not show.
    let joined = to_bytes(&(HEAD, 6u8, 0u8, ProbeClient::descriptor().hash, None::<u128>, ROW.word()));
    let failed = scene.import_fails(&joined, &[]);
    assert!(matches!(failed, ImportError::Refused(..)), "{failed}");
}

#[test]
fn an_import_of_nonsense_fails() {
    alone!();
    let _watchdog = Watchdog::new("an_import_of_nonsense_fails");
    let scene = Scene::new("imports");
    for said in [&[0][..], &[255; 64], &welcome()[..17], &[&welcome()[..17], &[7]].concat()] {
        let failed = scene.import_fails(said, &[]);
        assert!(matches!(failed, ImportError::Refused(..)), "{failed}");
    }
    let other = to_bytes(&((HEAD.0, VERSION + 1, REGION as u64), 0u8, (false, None::<u32>, false)));
    assert!(matches!(scene.import_fails(&other, &[]), ImportError::Version(_)));
    let unknown = scene.import_fails(&welcome_to(7), &[]);
    assert!(unknown.to_string().contains("a version that this client does not know"), "{unknown}");
    let no_file = scene.import_fails(&welcome(), &[]);
    assert!(matches!(no_file, ImportError::System(..)), "{no_file}");
}

#[test]
fn memory_that_can_t_be_trusted_is_not_mapped() {
    alone!();
    let _watchdog = Watchdog::new("memory_that_can_t_be_trusted_is_not_mapped");
    let mut scene = Scene::new("memory");
    let unsealed = payload_file(&[0]);
    unsealed.write(&[0], REGION as u64 - 1).unwrap();
    let (_, small) = Memory::create("hostile", REGION - 4096).unwrap();
    let (_, large) = Memory::create("hostile", REGION + 4096).unwrap();
    let (pipe, _writer) = std::io::pipe().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    scene.count();
    for file in [unsealed.as_fd(), small.as_fd(), large.as_fd(), pipe.as_fd(), null.as_fd()] {
        let failed = scene.import_fails(&welcome(), &[file]);
        assert!(matches!(failed, ImportError::System(..)), "{failed}");
    }
}
