//! Two honest clients that keep calling whatever happens beside them.

use crate::probe::{Probe, ProbeClient};
use crate::server::ServerProcess;
use std::io::{BufRead, BufReader, Lines, Write, stdin, stdout};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use underpass::CallError;

/// The data of each client consists of this byte alone. If they are found anywhere, they are
/// a client's data.
pub const MARKS: [u8; 2] = [0xa7, 0x9d];

/// Two clients of one server in this process. Each checks every answer and measures how long its
/// calls take.
#[derive(Debug)]
pub struct Callers([ProbeClient; 2]);

impl Callers {
    /// Imports `name` twice.
    ///
    /// # Panics
    /// If `name` cannot be imported.
    pub fn import(name: &str) -> Self {
        let import = |_| ProbeClient::import_within(name, ServerProcess::soon()).expect("a server");
        Self([(); 2].map(import))
    }

    /// The process that answers, if both clients get the same answer.
    ///
    /// # Errors
    /// The errors of a call.
    pub fn server(&self) -> Result<Option<u32>, CallError> {
        let [one, other] = [self.0[0].pid()?, self.0[1].pid()?];
        Ok((one == other).then_some(one))
    }

    /// Both clients call at once while `meanwhile` runs. Returns how long their calls of 40 bytes
    /// took, in ns.
    ///
    /// # Panics
    /// If an answer is wrong.
    pub fn beside(&self, meanwhile: impl FnOnce()) -> Vec<u64> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let call = |(client, mark)| {
                let over = &over;
                scope.spawn(move || call(client, mark, over))
            };
            let callers: Vec<_> = self.0.iter().zip(MARKS).map(call).collect();
            meanwhile();
            over.store(true, Ordering::Relaxed);
            callers.into_iter().flat_map(|caller| caller.join().expect("right answers")).collect()
        })
    }
}

/// Calls with every size until it is `over`.
fn call(client: &ProbeClient, mark: u8, over: &AtomicBool) -> Vec<u64> {
    let (mut times, mut rounds) = (Vec::new(), 0);
    while !over.load(Ordering::Relaxed) {
        for size in [8, 40, 300, 20_000] {
            let bytes = vec![mark; size + rounds % 8];
            let begun = Instant::now();
            assert_eq!(client.echo(&bytes).as_ref(), Ok(&bytes));
            if size == 40 {
                times.push(begun.elapsed().as_nanos() as u64);
            }
        }
        rounds += 1;
    }
    times
}

/// As [`Callers`], in a process of their own, so that they share only the server with the caller.
#[derive(Debug)]
pub struct CallersProcess {
    child: Child,
    orders: Option<ChildStdin>,
    told: Lines<BufReader<ChildStdout>>,
}

impl CallersProcess {
    /// Starts `binary` (`env!("CARGO_BIN_EXE_underpass-test-server")`), which imports `name`, and
    /// waits until it has.
    ///
    /// # Panics
    /// If the process does not start or does not import.
    pub fn start(binary: &str, name: &str) -> Self {
        let mut command = Command::new(binary);
        command.args([name, "callers"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the callers start");
        let (orders, told) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        let mut callers = Self { child, orders, told: BufReader::new(told).lines() };
        callers.hear();
        callers
    }

    fn hear(&mut self) -> String {
        self.told.next().expect("the callers live").expect("the callers can be heard")
    }

    fn order(&mut self) {
        self.orders.as_mut().expect("they take orders").write_all(b"\n").expect("the callers live");
    }

    /// As [`Callers::beside`].
    ///
    /// # Panics
    /// If an answer was wrong.
    pub fn beside(&mut self, meanwhile: impl FnOnce()) -> Vec<u64> {
        self.order();
        meanwhile();
        self.order();
        self.hear().split_whitespace().map(|ns| ns.parse().expect("a number")).collect()
    }

    /// Waits until the clients have left. Returns whether all their calls were right.
    ///
    /// # Panics
    /// If the process cannot be waited for.
    pub fn leave(mut self) -> bool {
        self.orders = None;
        self.child.wait().expect("a child can be waited for").success()
    }
}

impl Drop for CallersProcess {
    fn drop(&mut self) {
        // If it has ended already, that is fine too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does what a [`CallersProcess`] orders. At one line both clients call, and at the next line they
/// stop and report.
///
/// # Errors
/// If the orders cannot be read.
///
/// # Panics
/// As for [`Callers`].
pub fn call_by_order(name: &str) -> std::io::Result<()> {
    let callers = Callers::import(name);
    let mut orders = stdin().lines();
    let tell = |times: &[u64]| {
        let told: Vec<_> = times.iter().map(u64::to_string).collect();
        writeln!(stdout().lock(), "{}", told.join(" "))
    };
    tell(&[])?;
    while orders.next().transpose()?.is_some() {
        tell(&callers.beside(|| _ = orders.next()))?;
    }
    Ok(())
}
