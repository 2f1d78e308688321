//! What the client is told, and what it answers: one JSON object a line.

use crate::{Client, Load, Outcome};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first line: how long it took until the first Null was answered.
#[derive(Serialize)]
struct Connected {
    connect_ns: u64,
}

/// The answer to `load` and `until-failure`.
#[derive(Serialize)]
struct Done {
    /// All calls, with those of the warm-up.
    made: u64,
    /// Processor time of this process meanwhile.
    cpu_ns: u64,
    /// The time of the calls that were measured.
    span_ns: u64,
    /// Nanoseconds, and how many measured calls took as long.
    latencies: Vec<(u64, u64)>,
}

#[derive(Serialize)]
struct Failed {
    error: String,
}

#[derive(Serialize)]
struct Kept {
    connections: u64,
}

/// Connects, and carries out one line after another until `quit` or the end of the input.
pub(crate) fn obey(connect: impl FnOnce() -> Outcome<Box<dyn Client>>) -> Outcome {
    let begun = Instant::now();
    let mut client = connect()?;
    client.load(&Arc::new(Load::single()))?;
    say(&Connected { connect_ns: begun.elapsed().as_nanos() as u64 })?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["quit"] => break,
            ["load", ref rest @ ..] => match load(rest).and_then(|load| calls(&mut *client, load)) {
                Ok(done) => say(&done)?,
                Err(failure) => say(&Failed { error: failure.to_string() })?,
            },
            ["connections", count] => match more(&mut *client, count) {
                Ok(kept) => say(&kept)?,
                Err(failure) => say(&Failed { error: failure.to_string() })?,
            },
            _ => say(&Failed { error: format!("`{line}` is no line of the protocol") })?,
        }
    }
    Ok(())
}

fn say(what: &impl Serialize) -> Outcome {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(what)?)?;
    Ok(out.flush()?)
}

/// `load BYTES CALLERS MILLISECONDS [CALLS-A-SECOND]`.
fn load(words: &[&str]) -> Outcome<Load> {
    let number = |word: &str| word.parse::<u64>().map_err(|_| format!("`{word}` is no number"));
    let (bytes, callers, time, rate) = match *words {
        [bytes, callers, time] => (number(bytes)?, number(callers)?, number(time)?, None),
        [bytes, callers, time, rate] => {
            (number(bytes)?, number(callers)?, number(time)?, Some(number(rate)?))
        }
        _ => return Err("say `load BYTES CALLERS MILLISECONDS [CALLS-A-SECOND]`".into()),
    };
    if callers == 0 || rate == Some(0) || (1..8).contains(&bytes) {
        return Err("callers and calls a second are one or more, bytes are none or eight and more".into());
    }
    let gap = rate.map(|rate| Duration::from_secs(1) / rate as u32);
    Ok(Load::new(bytes as usize, callers as usize, Duration::from_millis(time), gap))
}

fn calls(client: &mut dyn Client, load: Load) -> Outcome<Done> {
    let before = cpu_ns();
    let totals = client.load(&Arc::new(load))?;
    let cpu_ns = cpu_ns() - before;
    let latencies = totals.latencies.iter_recorded();
    let latencies = latencies.map(|step| (step.value_iterated_to(), step.count_at_value().into()));
    let span_ns = totals.span.as_nanos() as u64;
    Ok(Done { made: totals.made, cpu_ns, span_ns, latencies: latencies.collect() })
}

/// `connections COUNT`.
fn more(client: &mut dyn Client, count: &str) -> Outcome<Kept> {
    let connections: u64 = count.parse().map_err(|_| format!("`{count}` is no number"))?;
    for _ in 0..connections {
        client.another()?;
    }
    Ok(Kept { connections })
}

/// The processor time that the kernel accounts to this process.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_four_numbers() {
        let told = load(&["200", "32", "50"]).unwrap();
        assert_eq!((told.bytes(), told.callers()), (200, 32));
        assert!(load(&["0", "1", "50", "1000"]).is_ok());
        for wrong in
            [&["0", "0", "50"][..], &["7", "1", "50"], &["0", "1"], &["0", "1", "x"], &["0", "1", "5", "0"]]
        {
            assert!(load(wrong).is_err(), "{wrong:?} was taken");
        }
    }
}
