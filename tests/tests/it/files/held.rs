//! Peers that hold the kernel locks of files that they have passed. Only a thread of their own user
//! waits.

use crate::files::liars::{announcement_of_files, bind, lied_to};
use crate::files::lock::Lock;
use crate::files::missing_page::{MissingPage, Userfault};
use crate::files::public;
use crate::files::scene::Scene;
use crate::files::slow::{
    closers, closers_that_hang, kept_by_file_threads, leave_to_the_client, one_closes, others_go_on,
    until_nobody_closes,
};
use crate::files::snare::Snare;
use crate::files::watched;
use crate::hostile::end::End;
use std::io;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};
use underpass::sandbox::Ended;
use underpass::{CallError, Sandbox};
use underpass_harness::skip;
use underpass_tests::{
    Captive, CaptiveClient, Porter, PorterClient, Probe, ProbeClient, Room, Watchdog, until,
};

const SANDBOXED: &str = env!("CARGO_BIN_EXE_underpass-test-sandboxed");

/// A page that does not come. An error where this process may not make one.
fn missing_page() -> Result<Box<dyn MissingPage>, String> {
    let page = Userfault::new().map_err(|e| format!("no `userfaultfd` here: {e}"))?;
    Ok(Box::new(page) as _)
}

impl Scene {
    /// Checks that others go on while `held` holds `lock`, and that nothing is left when it is
    /// dropped.
    pub fn goes_on(&self, lock: Lock, held: impl Sized) {
        lock.until_waited_for(self.server.pid());
        others_go_on(&self.server, &self.honest);
        // Files that honest domains of the same user pass, and files that were taken, do not queue
        // behind it.
        let before = kept_by_file_threads(self.server.pid());
        for _ in 0..50 {
            assert_eq!(self.honest.count(vec![watched().0]), Ok(1));
        }
        until("the transit sockets to be closed", || {
            (kept_by_file_threads(self.server.pid()) <= before).then_some(())
        });
        // The lock is still held.
        lock.until_waited_for(self.server.pid());
        drop(held);
        until_nobody_closes(self.server.pid());
        self.files.until_no_others();
    }

    /// As [`goes_on`](Self::goes_on), for locks that a client in this process holds.
    fn goes_on_with(&self, locks: &[Lock]) {
        for &lock in locks {
            let page = match missing_page() {
                Ok(page) => page,
                Err(why) => skip!("{why}"),
            };
            self.goes_on(lock, lock.hold(page, self.server.name()));
        }
    }
}

#[test]
fn a_lock_that_a_peer_holds_for_ever_holds_up_nobody_else() {
    let _watchdog = Watchdog::new("a_lock_that_a_peer_holds_for_ever_holds_up_nobody_else");
    let scene = Scene::with(public("held"));
    scene.goes_on_with(&[Lock::Pipe, Lock::WatchedPipe, Lock::WatchedSocket, Lock::WatchedConnection]);
}

#[test]
fn an_overflow_buffer_whose_lock_its_client_holds_is_replaced() {
    let _watchdog = Watchdog::new("an_overflow_buffer_whose_lock_its_client_holds_is_replaced");
    Scene::with(public("held-overflow-buffer")).goes_on_with(&[Lock::OverflowBuffer]);
}

#[test]
fn a_client_of_a_ticket_that_locks_its_end_delays_nobody_else() {
    let _watchdog = Watchdog::new("a_client_of_a_ticket_that_locks_its_end_delays_nobody_else");
    Scene::with(public("held-ticket")).goes_on_with(&[Lock::Receiver]);
}

#[test]
fn a_handler_that_reads_a_file_whose_offset_is_locked_hangs_alone() {
    let _watchdog = Watchdog::new("a_handler_that_reads_a_file_whose_offset_is_locked_hangs_alone");
    Scene::with(public("held-offset")).goes_on_with(&[Lock::Offset]);
}

/// Waits until a client is told that its server has died.
pub fn hears_of_the_death(honest: &PorterClient) {
    until("the death to be heard", || matches!(honest.null(), Err(CallError::PeerDied(_))).then_some(()));
}

/// Ends a server that has a lost thread, by `end`, and waits until its client has heard.
fn ends(how: &str, end: impl FnOnce(&Scene)) {
    let mut scene = Scene::new(&format!("held-{how}"));
    let (reader, writer) = io::pipe().unwrap();
    let page = match missing_page() {
        Ok(page) => page,
        Err(why) => skip!("{why}"),
    };
    let snare = Snare::of_pipe(page, writer.into());
    let liar = bind(&scene.server);
    liar.say(&announcement_of_files(0, 1, 0), &[reader.as_fd()]);
    drop((reader, liar));
    one_closes(scene.server.pid());
    let begun = Instant::now();
    end(&scene);
    hears_of_the_death(&scene.honest);
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
    let page = match missing_page() {
        Ok(page) => page,
        Err(why) => skip!("{why}"),
    };
    let snare = Snare::of_pipe(page, writer.into());
    assert_eq!(scene.honest.leaves_dumps(), Ok(true));
    let end = bind(&scene.server);
    end.say(&announcement_of_files(0, 1, 0), &[reader.as_fd()]);
    drop((reader, end));
    until("no core dumps", || (scene.honest.leaves_dumps() == Ok(false)).then_some(()));
    drop(snare);
    until("core dumps", || (scene.honest.leaves_dumps() == Ok(true)).then_some(()));
}

#[test]
fn a_process_with_a_lost_thread_starts_a_domain_in_a_sandbox() {
    let _watchdog = Watchdog::new("a_process_with_a_lost_thread_starts_a_domain_in_a_sandbox");
    let page = match missing_page() {
        Ok(page) => page,
        Err(why) => skip!("{why}"),
    };
    let (reader, writer) = io::pipe().unwrap();
    let snare = Snare::of_pipe(page, writer.into());
    let lie = |end: &End| leave_to_the_client(end, reader.into());
    lied_to("held-starter", lie, |client| {
        let result = client.null();
        assert!(matches!(result, Err(CallError::ProtocolViolation(_))), "{result:?}");
        let own = std::process::id();
        until("the closer to hang", || (closers_that_hang(own) > 0).then_some(()));
        let name = Room::name("held-sandbox");
        let sandbox = Sandbox::program(SANDBOXED).arg(&name).patience(Duration::from_secs(60));
        let domain = sandbox.start().unwrap();
        let captive = CaptiveClient::import(&name).unwrap();
        assert_eq!(captive.threads(4), Ok(16));
        let probe = ProbeClient::import(&format!("{name}-probe")).unwrap();
        // By the A-stack, and by files in both directions.
        assert_eq!(probe.add(1, 2), Ok(3));
        assert_eq!(probe.echo(&[7; 3 << 20]), Ok(vec![7; 3 << 20]));
        assert_eq!(domain.end(), Ended::Killed);
        assert!(matches!(probe.null(), Err(CallError::PeerDied(_))));
        assert!(closers_that_hang(own) > 0, "it still hangs");
        drop(snare);
        until_nobody_closes(own);
    });
}
