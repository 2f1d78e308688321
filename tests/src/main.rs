//! A server process that tests call, stop and kill.
//!
//! The first argument is a NAME, which the server exports or imports in `$UNDERPASS_DIR`. The
//! second says what to do:
//!
//! * `store`, `store-replace` or `store-expiring`, and `[N]`: exports a `Store` that keeps nothing
//!   beyond its end. The second form replaces the current server, and the third has bindings that
//!   expire soon. The server says that its state is N.
//! * `shared`: exports a `Probe` that may be passed on.
//! * `probe`, `other`, `tight`, `scales`, `worker`, `lodger` or `shelf`: exports that interface.
//! * `import`: imports NAME and calls it once.
//! * `execute`: imports NAME, calls it once and becomes a `cat`.
//! * `exhaust`: imports NAME and opens as many files as it may. It prints the results of imports,
//!   exports and calls then, and afterwards.
//! * `overfill`: imports NAME, and prints the results of a large argument, a small one and a large
//!   result.
//! * `gorge`: imports NAME, calls it once, and takes memory until it is killed.
//! * `replace`: exports a `Worker` in place of the current server.
//! * `drain`: exports a `Worker`, drains on signals, and reports the end of its `main`.
//! * `persist`: imports NAME and makes one long call with a deadline.
//! * `stay`: imports NAME and calls the procedure that never returns.
//! * `who`: imports NAME and asks its handlers who calls. The answer must be this process each
//!   time.
//! * `linger`: imports NAME and calls it repeatedly.
//! * `loop N user|kernel US`: imports NAME and calls it, from a user-level or a plain kernel
//!   thread, until both sides have settled. Then it makes N calls with pauses of US µs. It prints
//!   the kernel entries of these calls (the server's, then its own: all, sleeps, wake-ups), and how
//!   often both were preempted meanwhile. It ends the server.
//! * `block N`: imports NAME and calls it from N user-level threads, which wait there for one more.
//!   It reports when all of them wait.
//!
//! `underpass-test-server NAME await N` does the same from N futures that one kernel thread polls.
//!
//! `underpass-test-server NAME slow` exports a `Slow`. Its handlers run on one kernel thread.
//! `underpass-test-server NAME watched` imports it, and makes one call that lasts.
//! `underpass-test-server NAME lasting N` imports it, makes N calls that last, and prints what each
//! returned.
//! `underpass-test-server NAME slowly N` imports it, makes N calls that last, and short ones
//! meanwhile.
//!
//! `underpass-test-server NAME compute MS` imports NAME and makes it compute repeatedly.
//!
//! `underpass-test-server NAME crowd` imports NAME, calls it from two activations until each has a
//! channel of its own, reports that, and keeps calling from both.
//!
//! `underpass-test-server NAME callers` imports NAME twice and calls over both, from one line of
//! its standard input to the next. Then it prints how long the calls took.
//!
//! `underpass-test-server - puppet` takes orders from its standard input.
//!
//! `underpass-test-server NAME porter` exports a `Porter` as NAME. `underpass-test-server NAME
//! carry N` imports it, makes N calls with files in both directions, and prints how many files it
//! has open before and after.
//!
//! `underpass-test-server NAME public` exports a `Porter` that every user may import and pass on.
//!
//! `underpass-test-server - withhold` serves a FUSE whose device is its standard output.
//!
//! `underpass-test-server NAME few-bindings N` exports a `Porter` whose user may have N bindings.
//! `underpass-test-server NAME overflow-bytes N` exports a `Probe` whose user may have N bytes of
//! overflow buffers. `underpass-test-server NAME large N` makes N large calls.
//!
//! `underpass-test-server NAME deep [N]` exports a `Deep` whose calls have stacks of the usual
//! size, or of N bytes.
//!
//! `underpass-test-server NAME ledger` exports a `Ledger` whose calls interleave, and
//! `ledger-sequential` one whose calls don't. Both also export its `Porch` as `NAME-porch`.
//! `underpass-test-server NAME add N M` adds to it M times from each of N threads. `hold ID` and
//! `keep ID` call that method of it. `relay` and `relay-async` export a `Relay`.
//!
//! `underpass-test-server NAME vault`, `vault-shared` and `vault-few N` export a `Vault`: that may
//! be passed on, or with N interfaces as values at most for its user. `vault-replace` exports one
//! in place of the current server. `underpass-test-server NAME hold-values` imports it, and obeys
//! its standard input.
//!
//! With `$UNDERPASS_TEST_CPU` it uses that CPU only.
#![forbid(unsafe_code)]

use std::error::Error;
use std::os::unix::process::CommandExt;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use underpass::{CallError, Handler, Limits, Server, thread};
use underpass_tests::{
    Accounts, Adds, Board, Deep, Diligent, Diver, Entries, Files, Forwards, Gate, Gathering, Hall, Jobs,
    JobsClient, Ledger, LedgerClient, Lodger, Lodgings, Memory, Other, Porch, Porter, PorterClient, Probe,
    ProbeClient, Relay, RelayAsync, Safe, Scales, Shelf, SinkClient, Slow, SlowAsync, SlowClient, Store,
    Subject, Tight, Transaction, Unlike, Vault, VaultClient, Waiting, Weigher, Worker, WorkerClient,
    add_from_threads, all, call_by_order, call_slowly, churn, crowd, obey, one_thread, switches_of, until,
    withhold,
};

/// Holds interfaces of a vault, and obeys: each line of the input is an order, and each line of the
/// output is its result.
fn hold_values(name: &str) -> Result<(), Box<dyn Error>> {
    let vault = VaultClient::import_within(name, Duration::from_secs(60))?;
    let (mut held, mut sinks) = (Vec::new(), Vec::new());
    println!("ready");
    for order in std::io::stdin().lines() {
        let order = order?;
        let words: Vec<_> = order.split(' ').collect();
        let which = words.get(1).map_or(Ok(0), |which| which.parse::<usize>())?;
        match words[0] {
            "begin" => {
                let begun = vault.begin_many(which as u32);
                println!("{:?}", begun.map(|begun| held.extend(begun)));
            }
            "put" => println!("{:?}", held[which].put(1, 1)),
            "drop" => {
                drop(held.remove(which));
                println!("dropped");
            }
            "watch" => {
                let sink = SinkClient::new(Adds { by: which as u64, ..Adds::default() });
                sinks.push(sink.clone());
                println!("{:?}", vault.watch(sink));
            }
            "linger" => {
                let lingers = held[which].clone();
                thread::spawn(move || lingers.linger(3_600_000));
                println!("lingers");
            }
            "churn" => return Ok(churn(&vault, || true)?),
            order => return Err(format!("{order:?} is no order").into()),
        }
    }
    Ok(())
}

/// Calls before those that are counted. Both sides need about as many to adapt how they wait.
const WARM_UP: u64 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    // A server must not outlive its test.
    underpass_os::process::die_with_parent()?;
    underpass_os::process::raise_files()?;
    if let Ok(cpu) = std::env::var("UNDERPASS_TEST_CPU") {
        underpass_os::cpu::confine(&[cpu.parse()?])?;
    }
    let mut arguments = std::env::args().skip(1);
    let (name, interface) = (arguments.next().ok_or("no name")?, arguments.next().ok_or("no interface")?);
    let mut number = || arguments.next().ok_or("no number");
    let service = match interface.as_str() {
        "probe" => Probe::serve(Subject::default()),
        "shared" => {
            return Ok(Server::new().export(name, Probe::serve(Subject::default()).shareable()).run()?);
        }
        "other" => Other::serve(Unlike),
        "lodger" => Lodger::serve(Lodgings::default()),
        // Exports so many interfaces: the first as `name`, the others as `name-1` and so on.
        "many" => {
            let more = number()?.parse::<usize>()?;
            let probe = || Probe::serve(Subject::default());
            let server = Server::new().export(name.clone(), probe());
            return Ok((1..more)
                .fold(server, |server, n| server.export(format!("{name}-{n}"), probe()))
                .run()?);
        }
        "vault" => Vault::serve(Safe::default()),
        "vault-shared" => {
            return Ok(Server::new().export(name, Vault::serve(Safe::default()).shareable()).run()?);
        }
        "vault-replace" => {
            return Ok(Server::new().replace().export(name, Vault::serve(Safe::default())).run()?);
        }
        "vault-few" => {
            let limits = Limits { interfaces: number()?.parse()?, ..Limits::default() };
            let server = Server::new().limits(limits).limits_of(underpass_os::process::user(), limits);
            return Ok(server.export(name, Vault::serve(Safe::default())).run()?);
        }
        "hold-values" => return hold_values(&name),
        "worker" => Worker::serve(Diligent::new()),
        "replace" => {
            let worker = Worker::serve(Diligent::new());
            return Ok(Server::new().replace().export(name, worker).run()?);
        }
        "drain" => {
            let worker = Worker::serve(Diligent::new());
            Server::new().export(name, worker).drain_on_signals(Duration::from_secs(3600)).run()?;
            println!("main ends");
            return Ok(());
        }
        "persist" => {
            return Ok(WorkerClient::import(&name)?.with_deadline(Duration::from_secs(3600)).persist(0)?);
        }
        "ledger" | "ledger-sequential" => {
            let gate = Arc::<Gate>::default();
            let accounts = Accounts::with(&gate);
            let ledger = match interface.as_str() {
                "ledger" => accounts.serve_exclusive(),
                _ => accounts.serve_sequential(),
            };
            let porch = Porch::serve(gate.clone());
            let server = Server::new().export(format!("{name}-porch"), porch).export(name, ledger);
            let running = server.start()?;
            gate.counts(running.bindings());
            running.until_replaced();
            return Ok(());
        }
        "add" => return Ok(add_from_threads(&name, number()?.parse()?, number()?.parse()?)?),
        "hold" => return Ok(LedgerClient::import(&name)?.hold(number()?.parse()?)?),
        "keep" => return Ok(LedgerClient::import(&name)?.keep(number()?.parse()?)?),
        "relay" => Relay::serve(Forwards),
        "relay-async" => {
            let spawn = |handler| drop(std::thread::spawn(move || run_future(handler)));
            RelayAsync::serve(Forwards, spawn)
        }
        "slow" => SlowAsync::serve(Waiting::default(), one_thread()),
        "watched" => return Ok(SlowClient::import(&name)?.watched()?),
        "lasting" => {
            let client = SlowClient::import(&name)?;
            let calls = all((0..number()?.parse()?).map(|_| client.long_async(0, 1)), |_| {});
            calls.into_iter().for_each(|call| println!("{:?}", call.map(|bytes| bytes.len())));
            return Ok(());
        }
        "slowly" => return Ok(call_slowly(&SlowClient::import(&name)?, number()?.parse()?)?),
        "tight" => Tight::serve(Gathering::default()),
        "deep" => {
            let deep = Deep::serve(Diver::default());
            match number() {
                Ok(bytes) => deep.stack_size(bytes.parse()?),
                Err(_) => deep,
            }
        }
        "scales" => Scales::serve(Weigher::default()),
        "porter" => Porter::serve(Hall::default()),
        "public" => {
            let porter = Porter::serve(Hall::default());
            return Ok(Server::new().mode(0o666).export(name, porter.shareable()).run()?);
        }
        "withhold" => return Ok(withhold()?),
        "shelf" => Shelf::serve(Board::default()),
        "store" | "store-replace" | "store-expiring" => {
            let server = if interface == "store-replace" { Server::new().replace() } else { Server::new() };
            let mut store = Store::serve(Memory::default());
            if interface == "store-expiring" {
                store = store.expires_in(Duration::from_millis(20));
            }
            if let Ok(state) = number() {
                store = store.state_id(state.parse()?);
            }
            return Ok(server.export(name, store).run()?);
        }
        "few-bindings" => {
            let limits = Limits { bindings: number()?.parse()?, ..Limits::default() };
            let server = Server::new().limits_of(underpass_os::process::user(), limits);
            return Ok(server.export(name, Porter::serve(Hall::default())).run()?);
        }
        "overflow-bytes" => {
            let limits = Limits { overflow_bytes: number()?.parse()?, ..Limits::default() };
            let server = Server::new().limits_of(underpass_os::process::user(), limits);
            return Ok(server.export(name, Probe::serve(Subject::default())).run()?);
        }
        "large" => {
            let client = ProbeClient::import(&name)?;
            return Ok((0..number()?.parse::<u64>()?).try_for_each(|_| client.echo(&[7; 500_000]).map(drop))?);
        }
        "carry" => return carry(&name, number()?.parse()?),
        "import" => return Ok(ProbeClient::import(&name)?.null()?),
        "execute" => {
            println!("calls {}", ProbeClient::import(&name)?.add(1, 2)?);
            let kept = ProbeClient::import(&name)?;
            let failed = std::process::Command::new("cat").exec();
            drop(kept);
            return Err(failed.into());
        }
        "exhaust" => return exhaust(&name),
        "overfill" => {
            let client = ProbeClient::import(&name)?;
            println!("{}", client.count(&vec![1; 1 << 20]).map_or_else(|e| e.to_string(), |n| n.to_string()));
            println!("{} {}", client.add(1, 2)?, client.fill(1 << 20)?.len());
            return Ok(());
        }
        "gorge" => {
            let (client, mut eaten) = (ProbeClient::import(&name)?, Vec::new());
            client.null()?;
            loop {
                eaten.push(std::hint::black_box(vec![1u8; 1 << 20]));
            }
        }
        "linger" => {
            let client = ProbeClient::import(&name)?;
            loop {
                client.nap(20)?;
            }
        }
        "compute" => {
            let (client, ms) = (ProbeClient::import(&name)?, number()?.parse()?);
            loop {
                client.compute(ms)?;
            }
        }
        "loop" => {
            let (times, by, pause) = (number()?.parse()?, number()?, number()?.parse()?);
            return call_again_and_again(&name, times, &by, Duration::from_micros(pause));
        }
        "puppet" => {
            obey();
            return Ok(());
        }
        "callers" => return Ok(call_by_order(&name)?),
        "crowd" => return call_at_once(&name),
        "block" => return block(&name, number()?.parse()?),
        "who" => {
            let (client, own) = (JobsClient::import(&name)?, std::process::id());
            let seen = (0..20).map(|_| client.who()).collect::<Result<Vec<_>, _>>()?;
            let wrong = seen.iter().find(|seen| {
                let (last, polls) = seen.split_last().expect("it is polled");
                *last != 0 || polls.is_empty() || polls.iter().any(|&pid| pid != own)
            });
            return wrong.map_or(Ok(()), |seen| Err(format!("{own} was seen as {seen:?}").into()));
        }
        "stay" => return Ok(JobsClient::import(&name)?.stay()?),
        "await" => return wait_as_tasks(&name, number()?.parse()?),
        _ => return Err("no such interface".into()),
    };
    Ok(Server::new().export(name, service).run()?)
}

/// Each line of output is the result of one action, with a free file or without.
fn exhaust(name: &str) -> Result<(), Box<dyn Error>> {
    const LARGE: u64 = 1 << 20;
    fn told<T: ToString, E: ToString>(given: Result<T, E>) -> String {
        given.map_or_else(|e| e.to_string(), |value| value.to_string())
    }
    let client = ProbeClient::import(name)?;
    client.null()?;
    let large = vec![1; LARGE as usize];
    let mut files = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    println!("{}", told(ProbeClient::import(name).map(|_| "imported")));
    let service = Probe::serve(Subject::default());
    println!("{}", told(Server::new().export(format!("{name}-more"), service).start().map(|_| "exported")));
    println!("{}", told(client.count(&large)));
    println!("{}", told(client.fill(LARGE).map(|bytes| bytes.len())));
    println!("{}", told(client.add(1, 2)));
    drop(files);
    let other = ProbeClient::import(name)?;
    println!("{} {} {}", other.add(1, 2)?, client.add(1, 2)?, client.fill(LARGE)?.len());
    Ok(())
}

fn call_again_and_again(name: &str, times: u64, by: &str, pause: Duration) -> Result<(), Box<dyn Error>> {
    let client = ProbeClient::import(name)?;
    let calls = move || {
        (0..WARM_UP).try_for_each(|_| client.null())?;
        let sides = [std::process::id(), client.pid()?];
        let preempted = || sides.iter().map(|&pid| switches_of(pid).1).sum::<u64>();
        let preempted_before = preempted();
        let server = client.entries()?;
        let own = Entries::marked();
        for _ in 0..times {
            if !pause.is_zero() {
                thread::sleep(pause);
            }
            client.null()?;
        }
        let own = Entries::marked().since(own);
        let server = client.entries()?.since(server);
        let preempted = preempted().saturating_sub(preempted_before);
        // The loop has no other end, and strace reports only when the process ends.
        client.die().expect_err("it ends before it can reply");
        Ok::<_, CallError>(([server, own], preempted))
    };
    let counted = match by {
        "kernel" => calls(),
        _ => thread::spawn(calls).join().map_err(|_| "a thread panicked")?,
    };
    let (entries, preempted) = counted?;
    entries.into_iter().for_each(|Entries { all, sleeps, wakes }| print!("{all} {sleeps} {wakes} "));
    print!("{preempted}");
    Ok(())
}

fn carry(name: &str, times: u64) -> Result<(), Box<dyn Error>> {
    let client = PorterClient::import(name)?;
    let calls = |times| {
        (0..times).try_for_each(|n| {
            let files = client.several(n as u32 % 5)?;
            client.count(files)?;
            let file = client.write("text")?;
            client.read(file)?;
            client.large(vec![7; 100_000], client.write("more")?)?;
            Ok::<_, CallError>(())
        })
    };
    // By then the kernel threads exist for which a domain has files open.
    calls(10)?;
    let before = Files::own();
    calls(times)?;
    // Another kernel thread closes what the last call has brought.
    before.until_no_others();
    println!("0");
    Ok(())
}

fn call_at_once(name: &str) -> Result<(), Box<dyn Error>> {
    let client = ProbeClient::import(name)?;
    let ended = crowd(&client, |client, meeting, number| {
        meeting.meet();
        if number == 0 {
            println!("split");
        }
        loop {
            if let Err(e) = client.nap(20) {
                return e;
            }
        }
    });
    let [told, other] = ended.ok_or("it takes two CPUs")?;
    eprintln!("{other:?}");
    Err(told.into())
}

fn block(name: &str, threads: u32) -> Result<(), Box<dyn Error>> {
    let client = ProbeClient::import(name)?;
    let calls: Vec<_> = (0..threads)
        .map(|_| {
            let client = client.clone();
            thread::spawn(move || client.meet(threads + 1))
        })
        .collect();
    until("all calls to be under way", || (client.counters().calls == u64::from(threads)).then_some(()));
    println!("blocked");
    for call in calls {
        call.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

/// Unparks a kernel thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs an async handler on the calling kernel thread.
fn run_future(mut future: Handler) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        std::thread::park();
    }
}

fn wait_as_tasks(name: &str, tasks: u32) -> Result<(), Box<dyn Error>> {
    let client = ProbeClient::import(name)?;
    let mut calls: Vec<_> = (0..tasks).map(|_| Box::pin(client.meet_async(tasks + 1))).collect();
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut told = false;
    loop {
        let mut failed = None;
        calls.retain_mut(|call| match call.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => {
                failed = failed.take().or(result.err());
                false
            }
            Poll::Pending => true,
        });
        if let Some(failed) = failed {
            return Err(failed.into());
        }
        if calls.is_empty() {
            return Ok(());
        }
        if !told && client.counters().calls == u64::from(tasks) {
            println!("blocked");
            told = true;
        }
        std::thread::park();
    }
}
