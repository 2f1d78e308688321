//! Peers that hold the kernel locks of what they have passed: only a thread of their own user waits.

use crate::end::{HEAD, announcement, out_of_band};
use crate::liars::{bind, outcome, parcel, procedure};
use crate::scene::Scene;
use crate::slow::{closers, kept_by_file_threads, one_closes, others_go_on, until_nobody_closes};
use crate::snare::Snare;
use crate::watched;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Instant;
use underpass::CallError;
use underpass_channel::Annex;
use underpass_os::{Socket, clock, take_passed};
use underpass_tests::{Porter, Probe, ProbeClient, Room, ServerProcess, Watchdog, until};
use underpass_wire::to_bytes;

/// `EPOLLIN` and `EPOLLOUT`.
const READY: [u32; 2] = [1, 4];

/// What `snare` made, unless this process may not make such: then the test is skipped, and says so.
fn allowed(snare: Result<Snare, io::Error>) -> Option<Snare> {
    snare.inspect_err(|e| println!("skipped: no `userfaultfd` here: {e}")).ok()
}

impl Scene {
    /// A client passes `file`, of which `snare` holds a lock and nobody else has a copy.
    fn goes_on(&self, file: OwnedFd, snare: Snare) {
        let end = bind(&self.server);
        end.say(&parcel(0, 1, 0), &[file.as_fd()]);
        drop((file, end));
        one_closes(self.server.pid());
        others_go_on(&self.server, &self.honest);
        // What honest domains of the same user have passed, and what was taken, is not kept behind it.
        let before = kept_by_file_threads(self.server.pid());
        for _ in 0..50 {
            assert_eq!(self.honest.count(vec![watched().0]), Ok(1));
        }
        until("the envelopes to be closed", || {
            (kept_by_file_threads(self.server.pid()) <= before).then_some(())
        });
        drop(snare);
        until_nobody_closes(self.server.pid());
        self.files.until_no_others();
    }
}

#[test]
fn a_lock_that_a_peer_holds_for_ever_holds_up_nobody_else() {
    let _watchdog = Watchdog::new("a_lock_that_a_peer_holds_for_ever_holds_up_nobody_else");
    let scene = Scene::new("held");
    let (reader, writer) = io::pipe().unwrap();
    let Some(snare) = allowed(Snare::of_pipe(writer.into())) else { return };
    scene.goes_on(reader.into(), snare);
    // A file of any kind, by an epoll that watches it.
    let (reader, mut writer) = io::pipe().unwrap();
    io::Write::write_all(&mut writer, b"x").unwrap();
    let snare = Snare::of_epoll(reader.as_fd(), READY[0]).unwrap();
    scene.goes_on(reader.into(), snare);
    let (socket, _other) = UnixStream::pair().unwrap();
    let snare = Snare::of_epoll(socket.as_fd(), READY[1]).unwrap();
    scene.goes_on(socket.into(), snare);
    // A connection that has said nothing yet.
    let (ours, theirs) = Socket::pair().unwrap();
    let snare = Snare::of_epoll(theirs.as_fd(), READY[1]).unwrap();
    scene.goes_on(theirs, snare);
    drop(ours);
}

#[test]
fn an_annex_whose_lock_its_client_holds_is_replaced() {
    let _watchdog = Watchdog::new("an_annex_whose_lock_its_client_holds_is_replaced");
    let scene = Scene::new("held-annex");
    let end = bind(&scene.server);
    let calls = |number: u8, file: &OwnedFd| {
        let mut said = announcement(0, 8);
        (said[1], said[6]) = (3, number);
        end.say(&said, &[file.as_fd()]);
        end.post(&out_of_band(0, procedure("maybe")));
        outcome(&end)
    };
    let ((_one, first), (_other, second)) =
        (Annex::create(1).unwrap().unwrap(), Annex::create(1).unwrap().unwrap());
    calls(1, &first);
    let Some(snare) = allowed(Snare::of_memory(first.try_clone().unwrap())) else { return };
    assert_eq!(calls(2, &second).0, 0, "the call is answered while the lock is held");
    others_go_on(&scene.server, &scene.honest);
    drop(snare);
    drop(end);
    scene.files.until_no_others();
}

#[test]
fn who_comes_by_a_ticket_and_holds_its_own_end_holds_up_nobody_else() {
    let _watchdog = Watchdog::new("who_comes_by_a_ticket_and_holds_its_own_end_holds_up_nobody_else");
    let server = ServerProcess::start(crate::SERVER, &Room::name("held-ticket"), "shared");
    let honest = ProbeClient::import_within(server.name(), ServerProcess::soon()).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    honest.share_with(&ours).unwrap();
    let ticket = Socket::adopt(take_passed(&theirs, u64::MAX / 2).unwrap()).unwrap();
    let (kept, passed) = Socket::pair().unwrap();
    // What the server would receive from the end that was passed to it.
    kept.send(b"a message", &[]).unwrap();
    let Some(snare) = allowed(Snare::of_socket(passed.try_clone().unwrap())) else { return };
    let clock = (clock::ahead_ns(), clock::now_ns());
    let hello = to_bytes(&(HEAD, ProbeClient::descriptor().hash, (false, None::<u32>, false), clock));
    ticket.send(&hello, &[passed.as_fd()]).unwrap();
    drop(passed);
    // The welcome comes all the same: the server sends there, and hears elsewhere.
    kept.wait(u64::MAX / 2).unwrap();
    assert_eq!(kept.receive(&mut vec![0; 1 << 16]).unwrap().files.len(), 2);
    let other = ProbeClient::import(server.name()).unwrap();
    assert_eq!((honest.null(), other.null()), (Ok(()), Ok(())));
    drop((snare, kept, ticket));
}

/// Ends a server of which a thread is lost, by `end`, and waits until its client has heard.
fn ends(how: &str, end: impl FnOnce(&Scene)) {
    let mut scene = Scene::new(&format!("held-{how}"));
    let (reader, writer) = io::pipe().unwrap();
    let Some(snare) = allowed(Snare::of_pipe(writer.into())) else { return };
    let liar = bind(&scene.server);
    liar.say(&parcel(0, 1, 0), &[reader.as_fd()]);
    drop((reader, liar));
    one_closes(scene.server.pid());
    let begun = Instant::now();
    end(&scene);
    until("the death to be heard", || {
        matches!(scene.honest.null(), Err(CallError::PeerDied(_))).then_some(())
    });
    println!("{how}: heard after {:?}", begun.elapsed());
    assert_eq!(closers(scene.server.pid()), 1, "the thread is still lost");
    // The process itself hangs until the lock is free.
    drop(snare);
    scene.server.kill();
}

#[test]
fn a_server_that_is_killed_with_a_lost_thread_is_heard_to_die() {
    let _watchdog = Watchdog::new("a_server_that_is_killed_with_a_lost_thread_is_heard_to_die");
    for signal in ["-9", "-15"] {
        ends(signal, |scene| {
            let pid = scene.server.pid().to_string();
            assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        });
    }
}

#[test]
fn a_server_that_ends_itself_with_a_lost_thread_is_heard_to_die() {
    let _watchdog = Watchdog::new("a_server_that_ends_itself_with_a_lost_thread_is_heard_to_die");
    for how in ["exit", "abort", "exec"] {
        ends(how, |scene| {
            let told = scene.honest.perish(how);
            assert!(matches!(told, Err(CallError::PeerDied(_))), "{told:?}");
        });
    }
}

#[test]
fn core_dumps_are_written_again_when_no_thread_is_held_up() {
    let _watchdog = Watchdog::new("core_dumps_are_written_again_when_no_thread_is_held_up");
    let scene = Scene::new("held-dumps");
    let (reader, writer) = io::pipe().unwrap();
    let Some(snare) = allowed(Snare::of_pipe(writer.into())) else { return };
    assert_eq!(scene.honest.leaves_dumps(), Ok(true));
    let end = bind(&scene.server);
    end.say(&parcel(0, 1, 0), &[reader.as_fd()]);
    drop((reader, end));
    until("no core dumps", || (scene.honest.leaves_dumps() == Ok(false)).then_some(()));
    drop(snare);
    until("core dumps", || (scene.honest.leaves_dumps() == Ok(true)).then_some(()));
}
