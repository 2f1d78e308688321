//! Objects of 1 to 64 lines: the choice by cost, the break-even, and reads by access.

use super::kernel::{APPEAR, KernelCalls, KernelCallsClient, KernelConnection};
use super::timed::{SelfTimed, clock_ns, each};
use crate::measure::contest::{Contest, Subject};
use crate::measure::in_process::InProcess;
use crate::processes::client::ScenarioClient;
use crate::{BenchError, Figures};
use std::hint::black_box;
use std::process::Command;
use std::time::Duration;
use underpass::Server;
use underpass::homed::{ChosenWay, Explanation, HomeState};

/// `either` takes no more than that times what the better of both ways takes.
const OF_BETTER: f64 = 1.15;
/// A read by access takes no more than that times what a bare copy takes.
const OF_COPY: f64 = 1.1;
/// The measured and the predicted break-even are within one line, or that much.
const OF_PREDICTED: f64 = 1.5;

/// An object of some lines, as the client has it.
trait LinesClient {
    /// The sum of the first words of its lines.
    fn sum(&self, way: Option<ChosenWay>) -> Result<u64, BenchError>;
    /// The home writes all lines.
    fn turn(&self) -> Result<(), BenchError>;
    /// A copy of the whole object, and how old it is.
    fn read(&self) -> Result<Duration, BenchError>;
    fn explain(&self) -> Explanation;
}

/// Objects of so many lines, without the line of the header.
macro_rules! objects {
    ($($lines:literal $name:ident $client:ident $home:ident)*) => {
        /// Their numbers of lines.
        const LINES: &[u32] = &[$($lines),*];

        $(
            #[derive(Clone, Copy, Debug, underpass::Shareable)]
            #[repr(C)]
            pub(crate) struct $name {
                // The last word of the first line is the time of the version.
                words: [u64; $lines * 8 - 1],
            }

            #[underpass::object]
            impl $name {
                #[either]
                pub(crate) fn sum(&self) -> u64 {
                    self.words.iter().step_by(8).fold(0, |sum, word| sum ^ word)
                }

                #[invoke]
                pub(crate) fn turn(&mut self) {
                    self.words.iter_mut().step_by(8).for_each(|word| *word += 1);
                }
            }

            impl LinesClient for [$client; 3] {
                fn sum(&self, way: Option<ChosenWay>) -> Result<u64, BenchError> {
                    let [access, invoke, either] = self;
                    Ok(match way {
                        Some(ChosenWay::Access) => access.sum(),
                        Some(ChosenWay::Invoke) => invoke.sum(),
                        None => either.sum(),
                    }?)
                }

                fn turn(&self) -> Result<(), BenchError> {
                    Ok(self[0].turn()?)
                }

                fn read(&self) -> Result<Duration, BenchError> {
                    let version = black_box(self[0].access()).map_err(|e| e.to_string())?;
                    Ok(version.age())
                }

                fn explain(&self) -> Explanation {
                    self[2].explain().remove(0)
                }
            }
        )*

        /// Adds the objects to what the home exports.
        pub(super) fn export(server: Server) -> Result<Server, BenchError> {
            $(
                let (services, home) = $home::new($name { words: [0; $lines * 8 - 1] })?;
                // It lasts as long as this process.
                std::mem::forget(home);
                let server = services.export(server, &name_of($lines));
            )*
            Ok(server)
        }

        /// The object of that many lines.
        fn import(lines: u32) -> Result<Box<dyn LinesClient>, BenchError> {
            Ok(match lines {
                $($lines => {
                    let object = $client::import_within(&name_of($lines), APPEAR)?;
                    let fixed = |way| object.fixed(Some(way));
                    Box::new([fixed(ChosenWay::Access), fixed(ChosenWay::Invoke), object.clone()])
                })*
                _ => return Err(format!("there is no object of {lines} lines").into()),
            })
        }
    };
}

objects! {
    1 Lines1 Lines1Client Lines1Home
    2 Lines2 Lines2Client Lines2Home
    4 Lines4 Lines4Client Lines4Home
    8 Lines8 Lines8Client Lines8Home
    16 Lines16 Lines16Client Lines16Home
    32 Lines32 Lines32Client Lines32Home
    64 Lines64 Lines64Client Lines64Home
}

fn name_of(lines: u32) -> String {
    format!("psyche-lines-{lines}")
}

/// `kill -SIGNAL`.
fn signal(signal: &str, process: u32) -> Result<(), BenchError> {
    let status = Command::new("kill").args([signal, &process.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(format!("`kill {signal} {process}` fails").into()) }
}

/// The home's process, stopped as long as this lives.
struct StoppedHome(u32);

impl StoppedHome {
    fn stop(calls: &KernelCallsClient) -> Result<Self, BenchError> {
        let process = calls.process()?;
        signal("-STOP", process)?;
        Ok(Self(process))
    }
}

impl Drop for StoppedHome {
    fn drop(&mut self) {
        // If it can't be continued, it is killed soon.
        let _ = signal("-CONT", self.0);
    }
}

/// How many times to wait until the home sleeps, and how long.
const NAPS: usize = 4_000;
const NAP: Duration = Duration::from_micros(50);

/// Operations in a slice, if they take long to prepare.
const FEW: u64 = 3;
const MANY: u64 = 24;

/// Waits until the home sleeps.
fn until_asleep(object: &dyn LinesClient) -> Result<(), BenchError> {
    for _ in 0..NAPS {
        if object.explain().home() == HomeState::Asleep {
            return Ok(());
        }
        std::thread::sleep(NAP);
    }
    Err("the home does not sleep".into())
}

/// One state of the home, for objects of all sizes.
pub(super) fn measure_either(client: &ScenarioClient) -> Result<(), BenchError> {
    let home = KernelConnection::import()?;
    let objects: Result<Vec<_>, _> = LINES.iter().map(|lines| import(*lines)).collect();
    let objects = objects?;
    client.settle()?;
    let clock = clock_ns();
    let wants = |case: &str| client.wants(case);
    let some = Some(if client.few() { FEW } else { MANY });
    if wants("either/polling") || wants("break-even") {
        let medians = rows(client, "either/polling", &objects, (0, None), |object, way, times| {
            each(times, clock, || object.turn(), || object.sum(way))
        })?;
        if wants("break-even") {
            break_even(client, &medians, objects[4].explain())?;
        }
    }
    if wants("either/asleep") {
        rows(client, "either/asleep", &objects, (1, some), |object, way, times| {
            let prepare = || {
                object.turn()?;
                until_asleep(object)
            };
            each(times, clock, prepare, || object.sum(way))
        })?;
    }
    if wants("either/busy") {
        home.calls.keep_busy(true)?;
        rows(client, "either/busy", &objects, (2, some), |object, way, times| {
            each(times, clock, || object.turn(), || object.sum(way))
        })?;
        home.calls.keep_busy(false)?;
    }
    if wants("either/stopped") {
        let _stopped = StoppedHome::stop(&home.calls)?;
        stopped_rows(client, &objects, clock)?;
    }
    Ok(())
}

/// A row for each number of lines, of a home that is stopped.
fn stopped_rows(
    client: &ScenarioClient,
    objects: &[Box<dyn LinesClient>],
    clock: u64,
) -> Result<(), BenchError> {
    for (lines, object) in LINES.iter().zip(objects) {
        let of = |way| move |times| each(times, clock, || Ok(()), || object.sum(way));
        let mut access = SelfTimed::new("access", of(Some(ChosenWay::Access)));
        let mut either = SelfTimed::new("either", of(None));
        // The first one finds out that the home is stopped.
        object.sum(None)?;
        let contest = client.contest(&mut [&mut access, &mut either], 3, 4)?;
        let figures = Figures::of(&contest, 1, 0).with("lines", *lines);
        let met = figures.ratio <= OF_BETTER;
        client.report("either/stopped", figures.judged("bar", OF_BETTER, met))?;
    }
    Ok(())
}

/// The medians of both ways, for one number of lines.
type Medians = (u32, f64, f64);

/// A row for each number of lines.
fn rows(
    client: &ScenarioClient,
    case: &str,
    objects: &[Box<dyn LinesClient>],
    (part, operations): (usize, Option<u64>),
    run: impl Fn(&dyn LinesClient, Option<ChosenWay>, u64) -> Result<u64, BenchError>,
) -> Result<Vec<Medians>, BenchError> {
    let mut medians = Vec::new();
    for (lines, object) in LINES.iter().zip(objects) {
        let of = |way| {
            let (run, object) = (&run, &**object);
            move |times| run(object, way, times)
        };
        let mut access = SelfTimed::new("access", of(Some(ChosenWay::Access)));
        let mut invoke = SelfTimed::new("invoke", of(Some(ChosenWay::Invoke)));
        let mut either = SelfTimed::new("either", of(None));
        let subjects: &mut [&mut dyn Subject] = &mut [&mut access, &mut invoke, &mut either];
        let contest = match operations {
            None => client.contest(subjects, part, 4)?,
            // They take longer to prepare than to execute.
            Some(operations) => Contest::of(subjects, &[operations; 3], client.effort(), &mut |share| {
                client.progress(share);
            })?,
        };
        let (figures, both) = beside_the_better(&contest);
        medians.push((*lines, both.0, both.1));
        let told = object.explain();
        let figures = figures
            .with("lines", *lines)
            .with("access_ns", both.0)
            .with("invoke_ns", both.1)
            .with("chosen", told.way().to_string())
            .with_detail("r", told.r())
            .with_detail("c", told.c(told.home()))
            .with_detail("home", told.home().to_string())
            .with_detail("watched_share", told.watched_share());
        client.report(case, figures)?;
    }
    Ok(medians)
}

/// The figures of `either` beside the better way, and the medians of both.
fn beside_the_better(contest: &Contest) -> (Figures, (f64, f64)) {
    let both = (contest.measured[0].slices().median(), contest.measured[1].slices().median());
    let figures = Figures::of(contest, 2, if both.0 <= both.1 { 0 } else { 1 });
    let met = figures.ratio <= OF_BETTER;
    (figures.judged("bar", OF_BETTER, met), both)
}

/// The number of lines at which both ways take as long, by the measured times. `None` if one way is
/// always better.
fn crossing(medians: &[Medians]) -> Option<f64> {
    medians.windows(2).find_map(|pair| {
        let [(fewer, access, invoke), (more, later_access, later_invoke)] = *pair else { return None };
        let (before, after) = (access - invoke, later_access - later_invoke);
        let share = before / (before - after);
        (before < 0.0 && after >= 0.0).then(|| f64::from(fewer) + share * f64::from(more - fewer))
    })
}

fn break_even(client: &ScenarioClient, medians: &[Medians], told: Explanation) -> Result<(), BenchError> {
    let (measured, predicted) = (crossing(medians), told.break_even(HomeState::Polling));
    let Some((measured, predicted)) = measured.zip(predicted) else {
        let why = "one way is the better one for all sizes, measured or predicted";
        return client.row("break-even", client.pinning(), Err(why.to_owned()));
    };
    let ratio = (measured / predicted).max(predicted / measured);
    let met = (measured - predicted).abs() <= 1.0 || ratio <= OF_PREDICTED;
    let figures = Figures::one(measured, "predicted", predicted)
        .with("measured_lines", measured)
        .with("predicted_lines", predicted)
        .with("r", told.r())
        .with("c", told.c(HomeState::Polling))
        .judged("bar", OF_PREDICTED, met);
    client.report("break-even", figures)
}

/// Reads by access beside a bare copy of as many lines.
pub(super) fn measure_access(client: &ScenarioClient) -> Result<(), BenchError> {
    let home = KernelConnection::import()?;
    let objects: Result<Vec<_>, _> = LINES.iter().map(|lines| import(*lines)).collect();
    let objects = objects?;
    client.settle()?;
    for case in ["access/hot", "access/stopped"] {
        if !client.wants(case) {
            continue;
        }
        let _stopped = (case == "access/stopped").then(|| StoppedHome::stop(&home.calls)).transpose()?;
        for (lines, object) in LINES.iter().zip(&objects) {
            let (from, mut to) = (vec![1_u64; (*lines as usize + 1) * 8], vec![0; (*lines as usize + 1) * 8]);
            let mut copy = InProcess::new("copy", 100, |_| {
                black_box(&mut to[..]).copy_from_slice(black_box(&from));
            });
            let mut access = InProcess::new("access", 100, |_| {
                black_box(object.sum(Some(ChosenWay::Access)).expect("its last version is readable"));
            });
            let contest = client.contest(&mut [&mut copy, &mut access], 0, 1)?;
            let figures = Figures::of(&contest, 1, 0).with("lines", *lines);
            let met = figures.ratio <= OF_COPY;
            let age = object.read()?.as_secs_f64() * 1e3;
            client.report(case, figures.with("age_ms", age).judged("bar", OF_COPY, met))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crossing_lies_between_two_sizes() {
        let medians = [(1, 10.0, 50.0), (2, 30.0, 50.0), (4, 60.0, 50.0), (8, 90.0, 50.0)];
        let lines = crossing(&medians).unwrap();
        assert!((lines - (2.0 + 2.0 * 2.0 / 3.0)).abs() < 1e-9, "{lines}");
        assert_eq!(crossing(&medians[..2]), None);
        assert_eq!(crossing(&[(1, 60.0, 50.0), (2, 70.0, 50.0)]), None);
    }
}
