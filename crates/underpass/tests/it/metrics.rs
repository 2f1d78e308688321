//! Metrics beside the truth of a ledger: calls that end in every way, by many threads over several
//! connections, to a server process that is killed in the end.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio, abort};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use underpass::inspect::{Inspect, InspectClient};
use underpass::metrics::{InterfaceMetrics, MeasuredSide, MethodMetrics, snapshot};
use underpass::{Abandon, CallError, Encode, Handler, Outcome, Server, TraceContext, thread};
use underpass_harness::alone;

/// Says to the program that it is the server, and under which name.
const SERVES: &str = "UNDERPASS_TEST_METRICS_SERVES";
/// Beyond A-stacks.
const LARGE: usize = 100_000;
/// Far longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, PartialEq, Eq, underpass::Wire)]
enum TellerError {
    Call(CallError),
    Refused(String),
}

impl From<CallError> for TellerError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// The methods end in different ways.
#[underpass::interface]
trait Teller {
    fn count(&self, bytes: &[u8]) -> Result<u64, TellerError>;
    fn fill(&self, length: u64) -> Result<Vec<u8>, TellerError>;
    fn refuse(&self, why: &str) -> Result<(), TellerError>;
    fn refuse_at_length(&self, length: u64) -> Result<(), TellerError>;
    fn panic(&self) -> Result<(), TellerError>;
    /// Returns when its caller does not want it any more.
    fn stay(&self) -> Result<(), TellerError>;
    /// Returns when it is released.
    fn hold(&self) -> Result<(), TellerError>;
    /// Releases the first call of `hold` that was not released.
    fn release(&self) -> Result<(), TellerError>;
    /// How many calls of `hold` have begun.
    fn holds(&self) -> Result<u64, TellerError>;
    /// The trace context of the handler.
    fn context(&self) -> Result<Option<String>, TellerError>;
}

#[derive(Default)]
struct Clerk {
    holds: AtomicU64,
    released: AtomicU64,
}

impl Teller for Clerk {
    fn count(&self, bytes: &[u8]) -> Result<u64, TellerError> {
        Ok(bytes.len() as u64)
    }
    fn fill(&self, length: u64) -> Result<Vec<u8>, TellerError> {
        Ok(vec![7; length as usize])
    }
    fn refuse(&self, why: &str) -> Result<(), TellerError> {
        Err(TellerError::Refused(why.to_owned()))
    }
    fn refuse_at_length(&self, length: u64) -> Result<(), TellerError> {
        Err(TellerError::Refused("-".repeat(length as usize)))
    }
    fn panic(&self) -> Result<(), TellerError> {
        panic!("on purpose");
    }
    fn stay(&self) -> Result<(), TellerError> {
        while !underpass::is_cancelled() {
            thread::yield_now();
        }
        Ok(())
    }
    fn hold(&self) -> Result<(), TellerError> {
        let number = self.holds.fetch_add(1, Ordering::Relaxed);
        while self.released.load(Ordering::Relaxed) <= number {
            thread::yield_now();
        }
        Ok(())
    }
    fn release(&self) -> Result<(), TellerError> {
        self.released.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn holds(&self) -> Result<u64, TellerError> {
        Ok(self.holds.load(Ordering::Relaxed))
    }
    fn context(&self) -> Result<Option<String>, TellerError> {
        Ok(TraceContext::current().map(|context| context.to_string()))
    }
}

/// Ends the process if the test hangs.
fn watchdog() -> Sender<()> {
    let (calm, watched) = channel();
    std::thread::spawn(move || {
        if watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a test of metrics hangs:\n{}", thread::dump());
            abort();
        }
    });
    calm
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT / 2, "{what} has not come");
        std::thread::yield_now();
    }
}

/// Not a test of its own: the server process of the others.
#[test]
fn the_server_of_the_other_tests() {
    let Ok(name) = std::env::var(SERVES) else { return };
    // The environment switches metrics on, and the second export says otherwise.
    let running = Server::new()
        .export(&name, Teller::serve(Clerk::default()).traceable())
        .export(format!("{name}-off"), Teller::serve(Clerk::default()).measured(false))
        .start()
        .unwrap();
    println!("ready");
    // It must not outlive its test.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    running.stop();
    std::process::exit(0);
}

struct ServerProcess {
    child: Child,
    _input: ChildStdin,
    name: String,
}

impl ServerProcess {
    fn start(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "metrics::the_server_of_the_other_tests", "--nocapture"])
            .env(SERVES, &name)
            .env("UNDERPASS_METRICS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready")), "the server starts");
        Self { child, _input: input, name }
    }

    fn told(&self) -> Vec<InterfaceMetrics> {
        InspectClient::import(&self.name).unwrap().metrics().unwrap()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a method's calls did, as their caller knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    returned: u64,
    returned_errors: u64,
    failures: BTreeMap<String, u64>,
    arguments: u64,
    results: u64,
}

#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<BTreeMap<&'static str, Entry>>>);

impl Ledger {
    /// Enters a call with these arguments.
    fn enter<T: Encode>(&self, method: &'static str, arguments: &impl Encode, told: &Result<T, TellerError>) {
        let mut ledger = self.0.lock().unwrap();
        let entry = ledger.entry(method).or_default();
        entry.arguments += arguments.size() as u64;
        match told {
            Ok(value) => {
                entry.returned += 1;
                entry.results += 1 + value.size() as u64;
            }
            Err(TellerError::Call(e)) => *entry.failures.entry(e.kind().to_owned()).or_default() += 1,
            Err(e) => {
                entry.returned_errors += 1;
                entry.results += 1 + e.size() as u64;
            }
        }
    }

    fn of(&self, method: &str) -> Entry {
        self.0.lock().unwrap().get(method).cloned().unwrap_or_default()
    }
}

/// What metrics say of a method, in the terms of the ledger.
fn entry_of(method: &MethodMetrics, side: MeasuredSide) -> Entry {
    let failures = method.failures.iter().map(|failure| (failure.kind.clone(), failure.calls));
    let (arguments, results) = match side {
        MeasuredSide::Import => (method.bytes_out, method.bytes_in),
        MeasuredSide::Export => (method.bytes_in, method.bytes_out),
    };
    Entry {
        returned: method.returned,
        returned_errors: method.returned_errors,
        failures: failures.collect(),
        arguments,
        results,
    }
}

fn find<'a>(told: &'a [InterfaceMetrics], name: &str, side: MeasuredSide) -> &'a InterfaceMetrics {
    told.iter().find(|of| of.name == name && of.side == side).expect("it is measured")
}

/// One call in 64 is timed, of each kernel thread and at least one.
fn timed_rightly(method: &MethodMetrics) {
    let (calls, timed) = (method.calls(), method.latency.count());
    assert!(timed >= calls / 64 && timed <= calls / 64 + 65, "{timed} of {calls} of {}", method.method);
    assert!(calls == 0 || timed > 0 && method.latency.quantile(0.5).is_some());
}

/// Makes calls of all methods that end by themselves.
fn call(teller: &TellerClient, ledger: &Ledger, round: usize) {
    let bytes = vec![1; round % 100];
    ledger.enter("count", &(&bytes[..],), &teller.count(&bytes));
    let length = (round % 3000) as u64;
    ledger.enter("fill", &(length,), &teller.fill(length));
    ledger.enter("refuse", &("no",), &teller.refuse("no"));
    if round.is_multiple_of(50) {
        ledger.enter("panic", &(), &teller.panic());
        let large = vec![1; LARGE];
        ledger.enter("count", &(&large[..],), &teller.count(&large));
        ledger.enter("fill", &(LARGE as u64,), &teller.fill(LARGE as u64));
        for length in [1000, LARGE as u64] {
            ledger.enter("refuse_at_length", &(length,), &teller.refuse_at_length(length));
        }
        let late = teller.with_deadline(Duration::from_millis(2)).stay();
        // The handler may see the deadline, and reply, before its caller has left.
        assert!(matches!(late, Ok(()) | Err(TellerError::Call(CallError::Deadline(_)))), "{late:?}");
        ledger.enter("stay", &(), &late);
    }
}

#[test]
fn metrics_are_the_ledgers() {
    alone!();
    let _calm = watchdog();
    let mut server = ServerProcess::start("metrics");
    let (name, ledger) = (server.name.clone(), Ledger::default());
    let import = || TellerClient::import(&name).unwrap().measured(&name);
    let apart = TellerClient::import_apart(&name, LIMIT).unwrap().measured(&name);
    let teller = import();

    let (mut users, mut kernels) = (Vec::new(), Vec::new());
    for number in 0..4 {
        let (teller, ledger) = (if number % 2 == 0 { import() } else { apart.clone() }, ledger.clone());
        let (other, entered) = (teller.clone(), ledger.clone());
        users.push(thread::spawn(move || (0..300).for_each(|round| call(&teller, &ledger, round))));
        kernels.push(std::thread::spawn(move || (0..300).for_each(|round| call(&other, &entered, round))));
    }
    users.into_iter().for_each(|user| user.join().unwrap());
    kernels.into_iter().for_each(|kernel| kernel.join().unwrap());

    // A call that is abandoned, one whose thread is cancelled, and one whose deadline passes.
    let begun = |calls| until("a call of `hold`", || (teller.holds() == Ok(calls)).then_some(()));
    let frees = |told: Result<(), TellerError>, kind| {
        assert!(matches!(&told, Err(TellerError::Call(e)) if e.kind() == kind), "{told:?}");
        ledger.enter("hold", &(), &told);
        ledger.enter("release", &(), &teller.release());
    };
    let abandon = Abandon::new();
    let free = teller.abandonable(&abandon);
    let holds = std::thread::spawn(move || free.hold());
    begun(1);
    abandon.abandon();
    frees(holds.join().unwrap(), "abandoned");
    let cancelled = teller.clone();
    let holds = thread::spawn(move || cancelled.hold());
    begun(2);
    holds.cancel();
    frees(holds.join().unwrap(), "cancelled");
    frees(teller.with_deadline(Duration::from_millis(50)).hold(), "deadline");

    // A call with a trace context is counted as any other.
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let context = TraceContext::parse(parent).unwrap();
    for (told, expected) in
        [(context.scope(|| teller.context()), Some(parent.to_owned())), (teller.context(), None)]
    {
        assert_eq!(told, Ok(expected));
        ledger.enter("context", &(), &told);
    }

    // The server has counted each call before its caller had the reply.
    let told = server.told();
    assert!(!told.iter().any(|of| of.name.ends_with("-off")), "it is not measured");
    let (here, there) = (snapshot(), find(&told, &name, MeasuredSide::Export));
    let here = find(&here, &name, MeasuredSide::Import);
    for (own, theirs) in here.methods.iter().zip(&there.methods) {
        let expected = ledger.of(&own.method);
        if own.method != "holds" {
            assert_eq!(entry_of(own, MeasuredSide::Import), expected, "{}", own.method);
        }
        if !["stay", "hold", "holds"].contains(&&*own.method) {
            assert_eq!(entry_of(theirs, MeasuredSide::Export), expected, "{} there", own.method);
        }
        timed_rightly(own);
        timed_rightly(theirs);
    }
    // Of each 64 calls of a thread one tells when it was posted.
    let queued = there.methods[0].queueing.count();
    assert!(queued > 0 && queued <= there.methods[0].calls() / 64 + 65, "{queued}");
    // A call for which nobody waits any more is counted when the server is done with it.
    let all = |entry: Entry| entry.returned + entry.failures.values().sum::<u64>();
    let [stays, holds] = ["stay", "hold"].map(|method| all(ledger.of(method)));
    until("the server to be done", || {
        let told = server.told();
        let methods = &find(&told, &name, MeasuredSide::Export).methods;
        (methods[5].calls() == stays && methods[6].calls() == holds).then_some(())
    });

    // The server dies during a call.
    let before = teller.holds().unwrap();
    let dying = teller.clone();
    let dies = std::thread::spawn(move || dying.hold());
    begun(before + 1);
    server.child.kill().unwrap();
    let died = dies.join().unwrap();
    assert_eq!(died, Err(TellerError::Call(CallError::PeerDied(Outcome::Unknown))));
    ledger.enter("hold", &(), &died);
    ledger.enter("count", &(&[9u8][..],), &teller.count(&[9]));
    let here = snapshot();
    for method in &find(&here, &name, MeasuredSide::Import).methods {
        if method.method != "holds" {
            assert_eq!(
                entry_of(method, MeasuredSide::Import),
                ledger.of(&method.method),
                "{}",
                method.method
            );
        }
    }
    assert_eq!(ledger.of("hold").failures["peer-died"], 1);
}

#[underpass::interface(asynchronous)]
trait Kiosk {
    fn count(&self, bytes: Vec<u8>) -> Result<u64, TellerError>;
    fn refuse(&self, why: String) -> Result<(), TellerError>;
    fn panic(&self) -> Result<(), TellerError>;
    fn hang(&self) -> Result<(), TellerError>;
}

struct Vendor;

impl KioskAsync for Vendor {
    async fn count(&self, bytes: Vec<u8>) -> Result<u64, TellerError> {
        Ok(bytes.len() as u64)
    }
    async fn refuse(&self, why: String) -> Result<(), TellerError> {
        Err(TellerError::Refused(why))
    }
    async fn panic(&self) -> Result<(), TellerError> {
        panic!("on purpose");
    }
    async fn hang(&self) -> Result<(), TellerError> {
        std::future::pending().await
    }
}

/// Runs each handler on a kernel thread, which ends: the next one takes its place.
fn spawn(mut handler: Handler) {
    std::thread::spawn(move || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while handler.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn async_handlers_are_counted_where_they_end() {
    alone!();
    let _calm = watchdog();
    let name = format!("metrics-async-{}", std::process::id());
    let running =
        Server::new().export(&name, KioskAsync::serve(Vendor, spawn).measured(true)).start().unwrap();
    // Async handlers are called over a channel by importers in the same process, too.
    let kiosk = KioskClient::import(&name).unwrap().measured(&name);
    let ledger = Ledger::default();
    for round in 0..200 {
        let bytes = vec![3; round * 10];
        ledger.enter("count", &(&bytes[..],), &kiosk.count(bytes.clone()));
        if round % 10 == 0 {
            ledger.enter("refuse", &("no",), &kiosk.refuse("no".to_owned()));
            ledger.enter("panic", &(), &kiosk.panic());
            ledger.enter("hang", &(), &kiosk.with_deadline(Duration::from_millis(1)).hang());
        }
    }
    let large = vec![0; LARGE];
    ledger.enter("count", &(&large[..],), &kiosk.count(large.clone()));
    let refused = kiosk.refuse("-".repeat(LARGE));
    ledger.enter("refuse", &(&*"-".repeat(LARGE),), &refused);

    for side in [MeasuredSide::Import, MeasuredSide::Export] {
        for (index, method) in ["count", "refuse", "panic", "hang"].into_iter().enumerate() {
            // A handler that nobody wants any more is dropped soon.
            let expected = ledger.of(method);
            until("what the ledger says", || {
                let told = snapshot();
                let method = &find(&told, &name, side).methods[index];
                timed_rightly(method);
                (entry_of(method, side) == expected).then_some(())
            });
        }
    }
    drop(kiosk);
    running.stop();
}

#[test]
fn what_is_not_measured_is_not_listed() {
    alone!();
    let name = format!("metrics-off-{}", std::process::id());
    let running = Server::new().export(&name, KioskAsync::serve(Vendor, spawn)).start().unwrap();
    let kiosk = KioskClient::import(&name).unwrap();
    assert_eq!(kiosk.count(vec![1]), Ok(1));
    assert!(!snapshot().iter().any(|of| of.name == name));
    drop(kiosk);
    running.stop();
}
