//! Several raw pairs of rings at once: what as many clients and servers cost the machine, without
//! calls.
//!
//! ```text
//! a client's thread                        its server's thread
//! for k in ..: ring 0 := k                 waits for k in ring 0
//! waits for k in ring 1                    ring 1 := k
//! at the end: ring 0 := k with LAST        ends
//! ```

use crate::BenchError;
use crate::measure::contest::Subject;
use crate::raw::responder::spin_until;
use crate::raw::shared_words::SharedWords;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use underpass_os::clock::now_ns;
use underpass_os::cpu;

/// With a round: it is not answered.
const LAST: u64 = 1 << 63;
/// Rounds between two readings of the clock.
const ROUNDS_A_LOOK: u64 = 16;
/// Polls between two readings of the clock.
const POLLS: u32 = 1 << 20;
/// How long the other side may be silent before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(10);

/// Two rings between two CPUs.
struct RawPair {
    lines: SharedWords,
    client: usize,
    server: usize,
    /// The next round.
    round: u64,
}

/// That many pairs at once, each with two CPUs. An operation is a message and its answer, of any
/// pair.
pub(crate) struct RawPairs {
    name: String,
    pairs: Vec<RawPair>,
    window: Duration,
}

impl RawPairs {
    /// As many pairs as both sides have CPUs. They send for `window`.
    ///
    /// # Errors
    /// There is no memory for the rings, or a side has no CPU.
    pub(crate) fn between(
        (clients, servers): (Vec<usize>, Vec<usize>),
        window: Duration,
    ) -> Result<Self, BenchError> {
        let pair = |(client, server)| {
            Ok::<_, BenchError>(RawPair { lines: SharedWords::create()?.0, client, server, round: 1 })
        };
        let pairs = clients.into_iter().zip(servers).map(pair).collect::<Result<Vec<_>, _>>()?;
        match pairs.len() {
            0 => Err("a pair of rings needs a CPU on each side".into()),
            1 => Ok(Self { name: "1 raw pair".into(), pairs, window }),
            more => Ok(Self { name: format!("{more} raw pairs"), pairs, window }),
        }
    }
}

impl Subject for RawPairs {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_windowed(&self) -> bool {
        true
    }

    fn batch(&mut self, operations: u64) -> Result<u64, BenchError> {
        let gate = Barrier::new(2 * self.pairs.len());
        let (gate, over, window) = (&gate, &AtomicBool::new(false), self.window.as_nanos() as u64);
        let rates = std::thread::scope(|scope| {
            let both = self.pairs.iter_mut().map(|pair| {
                let RawPair { lines, client, server, round } = pair;
                let (lines, first, client, server) = (&*lines, *round, *client, *server);
                let answers = scope.spawn(move || answer(lines, first, server, gate));
                (scope.spawn(move || send(lines, round, client, (gate, over, window))), answers)
            });
            let both: Vec<_> = both.collect();
            let joined = both.into_iter().map(|(sends, answers)| {
                let rate = sends.join().map_err(|_| "a sending thread panicked")?;
                answers.join().map_err(|_| "an answering thread panicked")??;
                rate
            });
            joined.collect::<Result<Vec<f64>, BenchError>>()
        })?;
        Ok((operations as f64 / rates.iter().sum::<f64>()) as u64)
    }

    /// A window is timed as a whole.
    fn single(&mut self, _: u64, _: &mut Vec<f64>) -> Result<(), BenchError> {
        Ok(())
    }
}

/// Sends until the window is over. Returns the messages for each ns. A side that can't move to its
/// CPU still takes part, so that the other one ends.
fn send(
    lines: &SharedWords,
    round: &mut u64,
    cpu: usize,
    (gate, over, window): (&Barrier, &AtomicBool, u64),
) -> Result<f64, BenchError> {
    let confined = cpu::confine(&[cpu]);
    gate.wait();
    let (first, begun) = (*round, now_ns());
    let mut done = Ok(());
    // Relaxed: a pair may make another round.
    while !over.load(Ordering::Relaxed) && done.is_ok() {
        // SYNC with `turn` load in `answer`: nothing but the round.
        lines.turn(0, *round).store(*round, Ordering::Release);
        done = spin_until(lines.turn(1, *round), *round);
        *round += 1;
        if (*round - first).is_multiple_of(ROUNDS_A_LOOK) && now_ns() - begun >= window {
            over.store(true, Ordering::Relaxed);
        }
    }
    let rate = (*round - first) as f64 / (now_ns() - begun).max(1) as f64;
    over.store(true, Ordering::Relaxed);
    // SYNC as above.
    lines.turn(0, *round).store(*round | LAST, Ordering::Release);
    *round += 1;
    confined?;
    done.map(|()| rate)
}

/// Answers until the last message.
fn answer(lines: &SharedWords, first: u64, cpu: usize, gate: &Barrier) -> Result<(), BenchError> {
    let confined = cpu::confine(&[cpu]);
    gate.wait();
    for round in first.. {
        if wait_for(lines, round)? & LAST != 0 {
            break;
        }
        // SYNC with `turn` load in `spin_until`: nothing but the round.
        lines.turn(1, round).store(round, Ordering::Release);
    }
    Ok(confined?)
}

/// Polls the client's ring until the message of `round` is there.
fn wait_for(lines: &SharedWords, round: u64) -> Result<u64, BenchError> {
    let (word, since) = (lines.turn(0, round), Instant::now());
    loop {
        for _ in 0..POLLS {
            // SYNC with `turn` store in `send`: nothing but the round.
            let found = word.load(Ordering::Acquire);
            if found & !LAST == round {
                return Ok(found);
            }
        }
        if since.elapsed() > PATIENCE {
            return Err(format!("the other side has sent nothing for {} s", PATIENCE.as_secs()).into());
        }
        // If both sides were on one CPU, the other could not run.
        cpu::give_way();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Placement;

    #[test]
    fn several_pairs_send_at_once_and_again() {
        let place = Placement::choose().unwrap();
        let far = place.far.unwrap_or(place.near);
        let sides = (vec![place.near, far], vec![far, place.near]);
        let mut pairs = RawPairs::between(sides, Duration::from_millis(3)).unwrap();
        assert_eq!((pairs.name(), pairs.is_windowed()), ("2 raw pairs", true));
        for _ in 0..2 {
            let before: Vec<u64> = pairs.pairs.iter().map(|pair| pair.round).collect();
            assert!(pairs.batch(1_000).unwrap() > 0);
            let rounds: Vec<u64> =
                pairs.pairs.iter().zip(before).map(|(pair, before)| pair.round - before).collect();
            // The last message is no round. A pair may get no processor within the window.
            assert!(rounds.iter().all(|rounds| *rounds > 0) && rounds.iter().any(|rounds| *rounds > 1));
        }
        assert!(RawPairs::between((vec![0], Vec::new()), Duration::ZERO).is_err());
    }
}
