//! The clock of either side is ahead of the other's or behind it, in a time namespace of its own.

use super::SERVER;
use super::contained::{contained, is_without, serving_inside, tidy};
use std::process::Stdio;
use std::time::Duration;
use underpass_harness::{alone, skip};
use underpass_tests::{Room, ServerProcess, Watchdog, Worker, WorkerClient};

/// Seconds by which the clocks are ahead: more than a call here may take, and less than zero.
const AHEAD: [&str; 2] = [",3600", ",-100"];
const MINUTE: Duration = Duration::from_secs(60);

/// What the handler at the end of `names` sees of a deadline of one minute, for a call from behind
/// `walls`. `None` if there can be no such namespace.
fn left_as_seen_from(walls: &str, names: &[&str]) -> Option<String> {
    let output = contained(walls, "left", &names.join(",")).stderr(Stdio::inherit()).output().unwrap();
    (!is_without(output.status)).then(|| {
        assert!(output.status.success(), "{}", output.status);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    })
}

/// Whether it is a part of a minute, in ms.
fn is_within_a_minute(said: &str) -> bool {
    let ms = said.strip_prefix("Ok(Some(").and_then(|said| said.strip_suffix("))"));
    ms.and_then(|ms| ms.parse().ok()).is_some_and(|ms: u64| (1..=60_000).contains(&ms))
}

#[test]
fn a_deadline_of_another_clock_reaches_the_handler_as_it_is() {
    alone!();
    let _watchdog = Watchdog::new("a_deadline_of_another_clock_reaches_the_handler");
    let server = ServerProcess::start(SERVER, &Room::name("time"), "worker");
    for ahead in AHEAD {
        let Some(said) = left_as_seen_from(ahead, &[server.name()]) else {
            skip!("this user can make no container with a clock of its own");
        };
        assert!(is_within_a_minute(&said), "{said} of {ahead}");
        // Through a server with another clock, and back to a server with the first clock.
        let inside = Room::name(&format!("time{ahead}").replace(',', "."));
        let _serving = serving_inside(ahead, &inside).unwrap();
        let worker = WorkerClient::import_within(&format!("{inside}-worker"), ServerProcess::soon()).unwrap();
        for names in [&[][..], &[server.name().to_owned()]] {
            let said = format!("{:?}", worker.clone().with_deadline(MINUTE).left(names));
            assert!(is_within_a_minute(&said), "{said} of {ahead}");
        }
        // Two have such a clock, and the third has not.
        let said = left_as_seen_from(ahead, &[&format!("{inside}-worker"), server.name()]).unwrap();
        assert!(is_within_a_minute(&said), "{said} of {ahead}");
        tidy(&inside);
    }
}

#[test]
fn a_clock_of_which_nothing_is_known_gets_no_binding() {
    alone!();
    let _watchdog = Watchdog::new("a_clock_of_which_nothing_is_known_gets_no_binding");
    let server = ServerProcess::start(SERVER, &Room::name("unknown"), "worker");
    for ahead in AHEAD {
        let Some(said) = left_as_seen_from(&format!("bare{ahead}"), &[server.name()]) else {
            skip!("this user can make no container with a clock of its own");
        };
        assert!(
            said.starts_with("no binding") && said.contains("time namespace") && said.contains("`/proc`"),
            "{said}"
        );
        let said = left_as_seen_from(&format!("proc{ahead}"), &[server.name()]).unwrap();
        assert!(is_within_a_minute(&said), "{said} of {ahead}");
    }
}
