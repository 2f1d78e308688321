//! Ends of bindings that lie about files.

use crate::files::scene::Scene;
use crate::files::{closed_everywhere, watched};
use crate::hostile::end::{
    BAD_ARGUMENTS, DONE, End, HEAD, NO_PROCEDURE, ROW, gone, on_the_stack, out_of_band,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use underpass::CallError;
use underpass_channel::layout::{FILES, FILES_WAITING, SLOTS, STACK};
use underpass_channel::{Cell, Channel, Fence, Region};
use underpass_os::{Directory, Listening, Socket, clock};
use underpass_tests::{Porter, PorterClient, Room, ServerProcess, Watchdog, until};
use underpass_wire::to_bytes;

/// The refusal of a domain that has no resources.
const NO_RESOURCES: u16 = 3;

pub fn procedure(name: &str) -> u16 {
    let procedures = &PorterClient::descriptor().procedures;
    procedures.iter().find(|procedure| procedure.name == name).expect("a procedure of Porter").index
}

/// The announcement of an out-of-band message with `files` files. Its `length` bytes lie in the
/// A-stack of `slot`.
pub fn announcement_of_files(slot: u16, files: u16, length: u64) -> [u8; 16] {
    let mut bytes = crate::hostile::end::announcement(slot, length);
    bytes[1] = 1;
    bytes[4..6].copy_from_slice(&files.to_le_bytes());
    bytes
}

/// A hand-made binding.
pub fn bind(server: &ServerProcess) -> End {
    bind_to(server.name())
}

/// As [`bind`], by the server's name.
pub fn bind_to(server: &str) -> End {
    let socket = Socket::connect(&Directory::from_environment(), server).unwrap();
    let clock = (clock::ahead_ns(), clock::now_ns());
    let hello = to_bytes(&(
        HEAD,
        PorterClient::descriptor().hashes(),
        (false, None::<u32>, false),
        clock,
        Vec::<u128>::new(),
    ));
    socket.send(&hello, &[]).unwrap();
    socket.wait(u64::MAX / 2).unwrap();
    let received = socket.receive(&mut [0; 1024]).unwrap();
    let file = &received.files[0];
    let channel = Channel::adopt(file.as_fd(), Fence::Full, STACK).unwrap();
    End { socket, number: 0, channel, region: Region::adopt(file.as_fd(), STACK).unwrap().into() }
}

pub fn outcome(end: &End) -> (u16, u16) {
    let reply = until("a reply", || end.take());
    (reply.slot(), reply.what())
}

impl Scene {
    /// Checks that a client that does `lie` with a file loses the binding, and that no copy of the
    /// file is left.
    fn closes(&self, lie: impl FnOnce(&End, BorrowedFd<'_>)) {
        let end = bind(&self.server);
        let (file, reader) = watched();
        lie(&end, file.as_fd());
        drop(file);
        until("the server to hang up", || gone(&end.socket).then_some(()));
        closed_everywhere(reader);
        self.is_unharmed();
    }

    fn is_unharmed(&self) {
        let (file, reader) = watched();
        assert_eq!(self.honest.count(vec![file]), Ok(1));
        closed_everywhere(reader);
        self.files.until_no_others();
    }
}

#[test]
fn out_of_band_messages_that_are_not_as_announced_close_the_binding() {
    let _watchdog = Watchdog::new("out_of_band_messages_that_are_not_as_announced_close_the_binding");
    let scene = Scene::new("announcements");
    // Too few files, too many, and none. A slot that does not exist. More files than any message
    // can carry, most of which never arrive.
    scene.closes(|end, file| end.say(&announcement_of_files(0, 3, 0), &[file; 2]));
    scene.closes(|end, file| end.say(&announcement_of_files(0, 1, 0), &[file; 2]));
    scene.closes(|end, file| end.say(&announcement_of_files(0, 0, 0), &[file]));
    scene.closes(|end, _| end.say(&announcement_of_files(0, 1, 0), &[]));
    scene.closes(|end, file| end.say(&announcement_of_files(SLOTS as u16, 1, 0), &[file]));
    scene.closes(|end, file| end.say(&announcement_of_files(0, FILES as u16 + 1, 0), &[file; FILES + 1]));
    scene.closes(|end, file| end.say(&announcement_of_files(0, u16::MAX, 0), &[file; FILES]));
    // Bytes where there are none: in the A-stack, and in a file that is not memory.
    for length in [STACK as u64 + 1, u64::MAX] {
        scene.closes(|end, file| {
            end.say(&announcement_of_files(0, 1, length), &[file]);
            end.post(&out_of_band(0, procedure("read")));
        });
    }
    scene.closes(|end, file| end.pass(0, 0, file));
    // A file beside a message that takes none: a doorbell, a question for a channel, and abandoned
    // calls.
    for kind in [0, 3, 11] {
        scene.closes(|end, file| {
            let mut said = [0; 16];
            said[0] = kind;
            end.say(&said, &[file]);
        });
    }
    // A message that claims to bring files, and an out-of-band message for another call.
    scene.closes(|end, file| {
        end.say(&announcement_of_files(1, 1, 0), &[file]);
        end.post(&out_of_band(0, procedure("read")));
    });
}

#[test]
fn files_that_do_not_fit_the_arguments_are_the_error_of_one_call() {
    let _watchdog = Watchdog::new("files_that_do_not_fit_the_arguments_are_the_error_of_one_call");
    let scene = Scene::new("arguments");
    let end = bind(&scene.server);
    let (file, reader) = watched();
    let announced = |slot: u16, what: &str, bytes: &[u8], files: usize| {
        end.fill_stack(slot, bytes);
        end.say(&announcement_of_files(slot, files as u16, bytes.len() as u64), &vec![file.as_fd(); files]);
        end.post(&out_of_band(slot, procedure(what)));
        assert_eq!(outcome(&end), (slot, BAD_ARGUMENTS), "{what} with {files} files");
    };
    // Too few files for the values and too many, for a procedure that takes none, and for no
    // procedure at all.
    announced(0, "count", &[5], 4);
    announced(1, "count", &[5], 6);
    announced(2, "null", &[], 1);
    announced(3, "maybe", &[0], 1);
    announced(4, "maybe", &[2], 1);
    announced(5, "count", &[255; 9], 64);
    end.fill_stack(6, &[1]);
    end.post(&on_the_stack(6, procedure("maybe"), 1));
    assert_eq!(outcome(&end), (6, BAD_ARGUMENTS), "a file that never came");
    end.say(&announcement_of_files(7, 1, 0), &[file.as_fd()]);
    end.post(&out_of_band(7, 0x3fff));
    assert_eq!(outcome(&end), (7, NO_PROCEDURE), "no such procedure");
    // The binding goes on, and holds none of the files.
    end.post(&Cell::request(0, procedure("null"), ROW));
    assert_eq!(outcome(&end), (0, DONE));
    drop(file);
    closed_everywhere(reader);
    drop(end);
    scene.is_unharmed();
}

#[test]
fn files_that_nobody_asked_for_are_bounded_and_go_with_the_binding() {
    let _watchdog = Watchdog::new("files_that_nobody_asked_for_are_bounded_and_go_with_the_binding");
    let scene = Scene::new("unasked");
    let end = bind(&scene.server);
    let (file, reader) = watched();
    for round in 0..4 * SLOTS as u16 {
        let slot = round % SLOTS as u16;
        until("room in the socket", || {
            end.socket.send(&announcement_of_files(slot, FILES as u16, 0), &[file.as_fd(); FILES]).ok()
        });
    }
    // A call that is told that there is no room for its files. At that point, all earlier calls
    // have been examined.
    end.fill_stack(60, &[1]);
    end.say(&announcement_of_files(60, 1, 1), &[file.as_fd()]);
    end.post(&out_of_band(60, procedure("maybe")));
    assert_eq!(outcome(&end), (60, NO_RESOURCES));
    let more = scene.files.others();
    // The binding's socket, the way to the thread that receives files, and a message in transit.
    assert!(more <= 2 + FILES_WAITING + FILES, "{more} files more");
    drop(file);
    drop(end);
    closed_everywhere(reader);
    scene.is_unharmed();
}

/// Runs a hand-made server that does `lie`, and a client that does `call`.
pub fn lied_to<R>(of: &str, lie: impl FnOnce(&End) + Send, call: impl FnOnce(&PorterClient) -> R) -> R {
    let name = Room::name(of);
    let listening = Listening::bind(&Directory::from_environment(), &name, 0o600).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (channel, file) = Channel::create(Fence::Full, STACK).unwrap();
            let hash = PorterClient::descriptor().hash;
            let socket = until("a client", || listening.accept().ok());
            socket.wait(u64::MAX / 2).unwrap();
            assert!(socket.receive(&mut [0; 1024]).unwrap().len > 0, "an honest client says hello");
            let caps = (false, None::<u32>, false);
            let welcome = to_bytes(&(HEAD, 0u8, caps, hash, None::<u128>, 1u128, ROW.word()));
            socket.send(&welcome, &[file.as_fd()]).unwrap();
            let end = End {
                socket,
                number: 0,
                channel,
                region: Region::adopt(file.as_fd(), STACK).unwrap().into(),
            };
            lie(&end);
            end.hung_up();
        });
        call(&PorterClient::import(&name).unwrap())
    })
}

/// The next call that comes to a hand-made server, whatever files it brings.
fn call(end: &End) -> u16 {
    until("a call", || end.take()).slot()
}

fn reply(end: &End, slot: u16, bytes: &[u8], files: &[BorrowedFd<'_>]) {
    end.fill_stack(slot, bytes);
    end.say(&announcement_of_files(slot, files.len() as u16, bytes.len() as u64), files);
    end.post(&out_of_band(slot, DONE));
}

#[test]
fn a_client_is_not_hurt_by_files_that_do_not_fit_a_result() {
    let _watchdog = Watchdog::new("a_client_is_not_hurt_by_files_that_do_not_fit_a_result");
    let (file, reader) = watched();
    let file: OwnedFd = file;
    let lie = |end: &End| {
        reply(end, call(end), &[0, 3], &[file.as_fd(); 2]);
        reply(end, call(end), &[0, 3], &[file.as_fd(); 4]);
        reply(end, call(end), &[0], &[file.as_fd()]);
        reply(end, call(end), &[0, 2], &[file.as_fd(); 2]);
        // An out-of-band message for a call that does not exist, and then an invalid one for this
        // call.
        let slot = call(end);
        end.say(&announcement_of_files(40, 1, 0), &[file.as_fd()]);
        end.say(&announcement_of_files(slot, 2, 0), &[file.as_fd()]);
        drop(file);
    };
    lied_to("server", lie, |client| {
        for result in [client.several(1), client.several(1)] {
            assert!(matches!(result, Err(CallError::Decode(..))), "{result:?}");
        }
        let result = client.null();
        assert!(matches!(result, Err(CallError::Decode(..))), "{result:?}");
        assert_eq!(client.several(2).unwrap().len(), 2, "the binding goes on");
        let result = client.null();
        assert!(matches!(result, Err(CallError::ProtocolViolation(_))), "{result:?}");
        // With the stub still in hand.
        closed_everywhere(reader);
    });
}
