//! The code that the demo's three processes run.

use super::editor;
use super::event::{DemoDomain, Event, Log};
use super::files::{FileCacheManager, Managed};
use super::imports::{Accounted, KernelThreads, Logs, OverSockets, OverUnderpass, UserLevel};
use super::interfaces::{FileCache, WindowManager};
use super::messages::{ChildTask, CounterTotals, Edited, Said, ServerAccount, Transport};
use super::over_sockets::{handle_files, handle_windows};
use super::plan::{COPY, EditorProgress, Pulse, SCREEN, TEXT, Threads};
use super::sockets;
use super::switches;
use super::traced::Traced;
use super::windows::Windows;
use anyhow::{Context, Result};
use std::io::{self, Read, Write};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use underpass::{Counters, Server};

/// The approximate number of calls that an editor's thread makes for a block.
const CALLS_A_BLOCK: u64 = 10;

/// Reads the task from the first line of standard input, and performs it as `domain`.
///
/// # Errors
/// If there is no task. If the task fails, the demo gets the error and the process ends.
pub fn run(domain: DemoDomain) -> Result<()> {
    underpass_os::process::die_with_parent()
        .context("can't have the kernel end this process with the demo")?;
    let line = io::stdin().lines().next().context("the demo has ended before it gave a task")?;
    let task = serde_json::from_str(&line?).context("the first line of standard input is no task")?;
    // As in Figure 1: the editor's two threads share one processor.
    underpass::processors::set(1);
    let done = match domain {
        DemoDomain::Editor => edit(&task),
        DemoDomain::Windows => serve_windows(&task),
        DemoDomain::Files => serve_files(&task),
    };
    if let Err(error) = done {
        say(&Said::Failed(format!("{error:#}")));
        std::process::exit(1);
    }
    Ok(())
}

/// Sends a message to the demo. If the demo is gone, the message is lost.
fn say(said: &Said) {
    if let Ok(mut line) = serde_json::to_string(said) {
        line.push('\n');
        let mut out = io::stdout().lock();
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

fn edit(task: &ChildTask) -> Result<()> {
    let logs = Logs::new((task.blocks * CALLS_A_BLOCK) as usize);
    match task.transport {
        Transport::Underpass => account(task, OverUnderpass::new(logs)?, &UserLevel, || 0),
        Transport::Direct => {
            let server = Server::new()
                .export(DemoDomain::Files.export(), FileCache::serve(files(task)))
                .export(DemoDomain::Windows.export(), WindowManager::serve(windows()));
            let _running = server.start().context("the editor can't export both interfaces to itself")?;
            account(task, OverUnderpass::new(logs)?, &UserLevel, || 0)
        }
        Transport::Sockets => {
            let threads = KernelThreads::default();
            account(task, OverSockets::new(task.directory.clone(), logs), &threads, || threads.sleeps())
        }
    }
}

/// Edits the text and reports the costs. `ended` returns how often threads fell asleep that have
/// ended by then.
fn account<I: Accounted>(
    task: &ChildTask,
    imports: I,
    threads: &impl Threads,
    ended: impl Fn() -> u64,
) -> Result<()> {
    let (imports, plan) = (Arc::new(imports), Arc::new(task.plan.clone()));
    let pulse = Arc::new(Pulse::new(task.step, |news: EditorProgress| say(&Said::News(news))));
    let (before, slept) = (underpass::counters(), switches::of_this_process());
    let done = editor::edit(&imports, threads, &plan, &pulse)?;
    let sleeps = switches::of_this_process().saturating_sub(slept) + ended();
    let domain = underpass::counters().since(&before).into();
    let bindings =
        DemoDomain::SERVERS.iter().map(|&server| (server, imports.counters(server).into())).collect();
    let editor::Done { from, to, places, bytes, checksum, screen } = done;
    let events = imports.events();
    say(&Said::Edited(Box::new(Edited {
        from,
        to,
        places,
        bytes,
        checksum,
        screen,
        events,
        bindings,
        domain,
        sleeps,
    })));
    Ok(())
}

fn files(task: &ChildTask) -> FileCacheManager {
    let text = Managed { name: TEXT, path: task.text.clone(), writable: false };
    let copy = Managed { name: COPY, path: task.copy(), writable: true };
    FileCacheManager::new(task.life, vec![text, copy], task.plan.block, task.cache)
}

fn windows() -> Windows {
    Windows::new(SCREEN.0, SCREEN.1)
}

fn serve_files(task: &ChildTask) -> Result<()> {
    let log = Arc::new(Log::new((task.blocks * CALLS_A_BLOCK) as usize));
    let files = Traced::new(files(task), None, log.clone());
    match task.transport {
        Transport::Sockets => over_sockets(task, DemoDomain::Files, handle_files(files), &log),
        _ => over_underpass(DemoDomain::Files, FileCache::serve(files), &log),
    }
}

fn serve_windows(task: &ChildTask) -> Result<()> {
    let log = Arc::new(Log::new((task.blocks * CALLS_A_BLOCK) as usize));
    let windows = Traced::new(windows(), None, log.clone());
    match task.transport {
        Transport::Sockets => over_sockets(task, DemoDomain::Windows, handle_windows(windows), &log),
        _ => over_underpass(DemoDomain::Windows, WindowManager::serve(windows), &log),
    }
}

fn over_underpass(domain: DemoDomain, service: underpass::Service, log: &Log) -> Result<()> {
    let server = Server::new().export(domain.export(), service);
    let _running =
        server.start().with_context(|| format!("the {domain} can't export {}", domain.export()))?;
    let slept = switches::of_this_process();
    let before = underpass::counters();
    served_until_told(log, || {
        let sleeps = switches::of_this_process().saturating_sub(slept);
        (underpass::counters().since(&before), sleeps)
    })
}

fn over_sockets(
    task: &ChildTask,
    domain: DemoDomain,
    handler: Arc<sockets::SocketHandler>,
    log: &Log,
) -> Result<()> {
    let (path, totals) = (task.directory.join(domain.export()), sockets::SharedCounters::default());
    sockets::serve(&path, handler, &totals).with_context(|| format!("can't listen at {}", path.display()))?;
    served_until_told(log, || {
        // A connection's thread reports when the editor is gone. The accept loop and this thread
        // also hold the handler.
        let deadline = Instant::now() + Duration::from_millis(200);
        while Arc::strong_count(&totals) > 2 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let counters = *totals.lock().unwrap_or_else(PoisonError::into_inner);
        (counters, counters.sleeps)
    })
}

/// Reports that the server is ready, waits until the demo closes standard input, and sends the
/// report.
fn served_until_told(log: &Log, counters: impl Fn() -> (Counters, u64)) -> Result<()> {
    say(&Said::Ready);
    io::stdin().lock().read_to_end(&mut Vec::new()).context("can't wait for the demo")?;
    let (counters, sleeps) = counters();
    let mut events: Vec<Event> = log.take();
    events.sort_by_key(|event| event.from);
    say(&Said::Served(ServerAccount { events, domain: CounterTotals::from(counters), sleeps }));
    Ok(())
}
