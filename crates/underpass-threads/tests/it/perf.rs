//! What perf shows of threads that run alternately: each sample has the frames of one thread, from
//! where it is to where its stack begins. Without perf, or without permission, the test only prints
//! that it was skipped.

use crate::common::{setting, test_name, watchdog};
use std::path::Path;
use std::process::Command;
use underpass_harness::skip;
use underpass_threads::{Builder, yield_now};

#[inline(never)]
fn computes(begin: u64) -> u64 {
    (0..5_000).fold(begin, |sum: u64, i| std::hint::black_box(sum.rotate_left(5) ^ i))
}

#[inline(never)]
fn ping(turns: u64) {
    for turn in 0..turns {
        std::hint::black_box(computes(turn));
        yield_now();
    }
}

#[inline(never)]
fn pong(turns: u64) {
    for turn in 0..turns {
        std::hint::black_box(computes(turn));
        yield_now();
    }
    // Not the same code as `ping`, so that the compiler doesn't merge them.
    std::hint::black_box(turns);
}

/// The process that perf samples: two threads on one activation.
fn watched() {
    let both = underpass_threads::spawn(|| {
        let ping = Builder::new().name("ping").spawn(|| ping(20_000)).unwrap();
        let pong = Builder::new().name("pong").spawn(|| pong(20_000)).unwrap();
        (ping, pong)
    });
    let (ping, pong) = both.join().unwrap();
    ping.join().unwrap();
    pong.join().unwrap();
}

/// The samples, each with the names of its functions, the innermost first. `None` if perf is not
/// permitted.
fn samples(data: &Path) -> Result<Vec<Vec<String>>, String> {
    let mut record = Command::new("perf");
    // The kernel's clock, since not every machine has counters to show.
    record.args([
        "record",
        "--quiet",
        "--event",
        "cpu-clock:u",
        "--freq",
        "999",
        "--call-graph",
        "dwarf,8192",
        "--output",
    ]);
    record.arg(data).arg(std::env::current_exe().unwrap()).args(["--exact", &test_name(), "--nocapture"]);
    let recorded = record.env("UNDERPASS_TEST_WATCHED", "1").env("UNDERPASS_PROCESSORS", "1").output();
    let recorded = recorded.map_err(|e| format!("perf: {e}"))?;
    if !recorded.status.success() {
        return Err(format!("perf: {}", String::from_utf8_lossy(&recorded.stderr)));
    }
    let mut script = Command::new("perf");
    script.args(["script", "--no-inline", "--fields", "ip,sym", "--input"]).arg(data);
    let output = script.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let samples = output.split("\n\n").map(|sample| {
        let names = sample.lines().filter_map(|line| line.trim().split_once(' '));
        names.map(|(_, name)| name.to_owned()).collect()
    });
    Ok(samples.collect())
}

#[test]
fn perf_shows_the_frames_of_one_thread() {
    let _dog = watchdog();
    if setting("UNDERPASS_TEST_WATCHED", 0) == 1 {
        return watched();
    }
    if cfg!(any(not(target_arch = "x86_64"), underpass_portable)) {
        skip!("the switch is not ours");
    }
    if Command::new("perf").arg("--version").output().is_err() {
        skip!("there is no perf");
    }
    let data = std::env::temp_dir().join(format!("underpass-perf-{}", std::process::id()));
    let samples = samples(&data);
    // The file is there only if perf was permitted.
    let _ = std::fs::remove_file(&data);
    let samples = match samples {
        Ok(samples) => samples,
        Err(why) => skip!("{why}"),
    };
    let has = |sample: &[String], what: &str| sample.iter().any(|name| name.contains(what));
    let of = |what: &str| samples.iter().filter(|sample| has(sample, what)).count();
    assert!(of("perf::ping") > 5 && of("perf::pong") > 5, "{} samples: {samples:#?}", samples.len());
    for sample in samples.iter().filter(|sample| has(sample, "perf::computes")) {
        assert!(has(sample, "perf::ping") != has(sample, "perf::pong"), "of one thread: {sample:#?}");
        assert_eq!(sample.last().unwrap(), "underpass_context_entry", "{sample:#?}");
    }
}
