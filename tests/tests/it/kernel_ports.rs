//! How often messages of ports enter the kernel, as strace sees it. The counters must agree.
//!
//! At best no message enters the kernel. At worst a message to an asynchronous port has one
//! interaction, and a message to a synchronous port with its receipt and its reply has two (Raven,
//! section 3.1).

use std::path::PathBuf;
use std::process::{Command, Stdio};
use underpass::port::{Arrival, PortOptions, PortReceiver};
use underpass::{Running, Server};
use underpass_harness::{alone, skip};
use underpass_os::cpu;
use underpass_tests::{Entries, ObedientProcess, Room, Seen, Watchdog, until};

const PORT: &str = env!("CARGO_BIN_EXE_underpass-test-port");
const SYNC_PORT: &str = env!("CARGO_BIN_EXE_underpass-test-sync-port");

const NO_STRACE: &str = "no strace here, or not allowed; `.ci/run` installs it (`apt-get install strace`)";

/// The most entries of a domain that are not those of messages: of its monitor, and of a kernel
/// thread that waits for a lock.
const OTHERS: u64 = 32;

fn has_strace() -> bool {
    let runs =
        Command::new("strace").args(Seen::STRACE).args(["/dev/null", "true"]).stderr(Stdio::null()).status();
    runs.is_ok_and(|status| status.success())
}

/// A process under strace.
struct Traced {
    process: ObedientProcess,
    report: PathBuf,
}

impl Traced {
    fn start(program: &str, arguments: &[&str], cpu: Option<usize>, first: &str) -> Self {
        let report = Room::directory().with_file_name(format!("{}.strace", Room::name(arguments[1])));
        let mut command = Command::new("strace");
        command.args(Seen::STRACE).arg(&report).arg(program).args(arguments);
        Self { process: ObedientProcess::start_on(&mut command, cpu, first), report }
    }

    /// Ends the process. Returns what strace saw between its markers.
    fn seen(mut self) -> Seen {
        self.process.end();
        let text = std::fs::read_to_string(&self.report).unwrap();
        std::fs::remove_file(&self.report).unwrap();
        Seen::of(&text)
    }
}

/// The entries that a process of a synchronous port answers with.
fn counted(answer: &str) -> Entries {
    let numbers: Vec<u64> = answer.split(' ').map(|number| number.parse().unwrap()).collect();
    Entries { all: numbers[0], wakes: numbers[1], sleeps: numbers[2] }
}

/// The counters agree with strace about sleeps and wake-ups, but for those that have nothing to do
/// with messages. `kernel.rs` compares entries of all kinds, for calls.
fn agree(seen: Seen, own: Entries) {
    let Entries { sleeps, wakes, .. } = seen.entries;
    assert!(sleeps.abs_diff(own.sleeps) <= OTHERS + own.sleeps / 100, "{seen:?}, {own:?}");
    assert!(wakes.abs_diff(own.wakes) <= OTHERS + own.wakes / 100, "{seen:?}, {own:?}");
    assert!(own.all <= seen.entries.all + OTHERS, "{seen:?}, {own:?}");
}

/// The worst case of a synchronous port: both domains share a CPU, so each message finds a receiver
/// that is blocked, and each reply a sender.
#[test]
fn a_message_and_its_reply_interact_twice_at_most() {
    alone!();
    const MESSAGES: u64 = 1_000;
    const TRIES: u32 = 8;
    let _watchdog = Watchdog::new("a_message_and_its_reply_interact_twice_at_most");
    if !has_strace() {
        skip!("{NO_STRACE}");
    }
    let only = Some(cpu::allowed().unwrap()[0]);
    // On a busy machine they lose their CPU to others, and are woken once more. So the best of
    // several tries counts.
    let mut seen = Vec::new();
    let found = (0..TRIES).any(|round| {
        let name = Room::name(&format!("traced-requests-{round}"));
        let mut owner = Traced::start(SYNC_PORT, &[&name, "owner", "8"], only, "open");
        let mut sender = Traced::start(SYNC_PORT, &[&name, "sender", "0"], only, "connected");
        assert_eq!(owner.process.ask(&format!("serve 1 {MESSAGES}")), "serves");
        let of_sender = counted(&sender.process.ask(&format!("flood 1 {MESSAGES}")));
        let of_owner = counted(&owner.process.hear());
        let notifications = [(owner, of_owner), (sender, of_sender)].map(|(process, own)| {
            let seen = process.seen();
            agree(seen, own);
            seen.notifications
        });
        seen.push(notifications);
        // One for each message, and one for each reply. A processor that is given back while
        // another thread has replied is a second one.
        notifications.iter().all(|&notifications| notifications <= MESSAGES + MESSAGES / 10)
            && notifications.iter().sum::<u64>() > MESSAGES / 2
    });
    assert!(found, "they share a CPU, and each message and each reply notifies at most once: {seen:?}");
}

/// The best case of a synchronous port: both domains run.
#[test]
fn a_message_and_its_reply_enter_no_kernel_at_best() {
    alone!();
    const MESSAGES: u64 = 50;
    let _watchdog = Watchdog::new("a_message_and_its_reply_enter_no_kernel_at_best");
    let &[first, second, ..] = cpu::allowed().unwrap().as_slice() else {
        skip!("both sides can't run at once on one CPU");
    };
    if !has_strace() {
        skip!("{NO_STRACE}");
    }
    // On a busy machine a domain may lose its CPU, and its peer sleeps meanwhile. So the best of
    // several tries counts.
    until("a try without disturbance", || {
        let name = Room::name("best-requests");
        let mut owner = Traced::start(SYNC_PORT, &[&name, "owner", "8"], Some(first), "open");
        let mut sender = Traced::start(SYNC_PORT, &[&name, "sender", "0"], Some(second), "connected");
        let all = MESSAGES + 5_000;
        assert_eq!(owner.process.ask(&format!("serve 1 {all}")), "serves");
        // The pause between both orders is short, but the other side may sleep by then. So the
        // messages that count have others before them.
        assert_eq!(sender.process.ask("warm 5000"), "warm");
        let own = counted(&sender.process.ask(&format!("flood 1 {MESSAGES}")));
        owner.process.hear();
        let (of_sender, of_owner) = (sender.seen(), owner.seen());
        agree(of_sender, own);
        // The thread that sends is started and joined, and wakes the owner once.
        let few = MESSAGES / 4;
        (of_sender.of_callers <= few && of_owner.notifications <= all / 4).then_some(())
    });
}

/// A port of this process.
fn own(name: &str) -> (PortReceiver<(u64, Vec<u8>)>, Running) {
    let (service, receiver) = PortOptions::new().messages(64).longest(64).open().unwrap();
    (receiver, Server::new().export(name, service).start().unwrap())
}

/// The next number.
fn number(receiver: &PortReceiver<(u64, Vec<u8>)>) -> u64 {
    match receiver.recv().unwrap() {
        Arrival::Message(came) => came.message.0,
        Arrival::Ended(ended) => panic!("{ended:?}"),
    }
}

/// How often a process has rung for this one, as it counts.
fn rang(answer: &str) -> u64 {
    let rings = answer.strip_prefix("rang ").and_then(|rings| rings.parse().ok());
    rings.unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn an_asynchronous_message_interacts_once_at_most_and_never_at_best() {
    alone!();
    const MESSAGES: u64 = 60;
    let _watchdog = Watchdog::new("an_asynchronous_message_interacts_once_at_most_and_never_at_best");
    if !has_strace() {
        skip!("{NO_STRACE}");
    }
    let name = Room::name("traced-messages");
    let (receiver, _running) = own(&name);
    // The best case: the receiver looks at the lane, since a message has come and it has not waited
    // since.
    let mut sender = Traced::start(PORT, &[&name, "sender", "1"], None, "connected");
    assert_eq!(sender.process.ask("send 1 0"), "sent 1");
    assert_eq!(number(&receiver), 0);
    let own = rang(&sender.process.ask(&format!("traced {MESSAGES}")));
    (1..=MESSAGES).for_each(|next| assert_eq!(number(&receiver), next));
    let seen = sender.seen();
    assert_eq!((own, seen.notifications), (0, 0), "{seen:?}");
    assert!(seen.of_callers <= OTHERS, "{seen:?}");
    assert!(matches!(receiver.recv(), Ok(Arrival::Ended(_))));
    // The worst case: the receiver waits for each message.
    let mut sender = Traced::start(PORT, &[&name, "sender", "1"], None, "connected");
    sender.process.begin(&format!("waited {MESSAGES}"));
    (0..MESSAGES).for_each(|next| assert_eq!(number(&receiver), next));
    let own = rang(&sender.process.hear());
    let seen = sender.seen();
    assert_eq!((own, seen.notifications), (MESSAGES, MESSAGES), "{seen:?}");
}
