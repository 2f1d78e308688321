//! Thousands of streams.

use tokio::task::JoinSet;
use underpass_harness::alone;
use underpass_test_grpc::generated::Empty;
use underpass_test_grpc::generated::control_client::ControlClient;
use underpass_test_grpc::{Served, Way, counts};
use underpass_tests::{Watchdog, fds_of, long};

/// Streams that are open at once over one channel. Each takes two open files of each process.
const AT_ONCE: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_streams_leave_nothing_behind() {
    alone!();
    let _watchdog =
        Watchdog::within("ten_thousand_streams_leave_nothing_behind", std::time::Duration::from_secs(600));
    let served = Served::start(env!("CARGO_BIN_EXE_underpass-test-grpc"), "many-streams");
    let control = ControlClient::new(served.channel(Way::Underpass).await);
    counts(&control, |counts| counts.waiting == 0).await;
    // With `UNDERPASS_TEST_LONG`, as many at once as the files of a process allow.
    let (rounds, at_once) = if long() { (2, 5 * AT_ONCE) } else { (10, AT_ONCE) };
    let processes = [std::process::id(), served.process.pid()];
    let open = || processes.map(fds_of);
    // Some files are opened once, whatever follows.
    let most = open().map(|files| files + 100);
    for round in 1..=rounds {
        let mut opening = JoinSet::new();
        for _ in 0..at_once {
            let mut control = control.clone();
            opening.spawn(async move {
                let mut responses = control.hold_output(Empty {}).await.unwrap().into_inner();
                assert_eq!(responses.message().await.unwrap(), Some(Empty {}));
                responses
            });
        }
        let opened = opening.join_all().await;
        counts(&control, |counts| counts.waiting == at_once as u64).await;
        drop(opened);
        counts(&control, |counts| counts.waiting == 0 && counts.dropped == (round * at_once) as u64).await;
        // Sockets of peers are closed by kernel threads of their own, a little later.
        while open()[0] > most[0] || open()[1] > most[1] {
            tokio::task::yield_now().await;
        }
    }
}
