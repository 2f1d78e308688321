//! Made-up results, of which the truth is known.

use super::*;

/// Random numbers that are the same in each run (SplitMix64).
struct Chance(u64);

impl Chance {
    /// Between 0 and 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A factor that scatters around 1, by about `spread`.
    fn noise(&mut self, spread: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.uniform()).sum();
        (spread * (sum - 6.0)).exp()
    }
}

/// Two files of `runs` runs of each case. The machine drifts by a factor of two from pair to pair,
/// each row has a noise of 2 %, and in the second file each case takes its factor of the time.
fn files(chance: &mut Chance, runs: usize, factors: &[f64]) -> [String; 2] {
    let mut files = [String::new(), String::new()];
    for _ in 0..runs {
        let drift = 1.0 + chance.uniform();
        for (case, &factor) in factors.iter().enumerate() {
            for (number, file) in files.iter_mut().enumerate() {
                let factor = if number == 1 { factor } else { 1.0 };
                let ratio = drift * factor * chance.noise(0.02);
                *file += &format!("{{\"bench\":\"b\",\"case\":\"{case}\",\"ratio\":{ratio}}}\n");
            }
        }
    }
    files
}

fn changes(chance: &mut Chance, runs: usize, factors: &[f64]) -> Vec<Comparison> {
    let [first, second] = files(chance, runs, factors);
    compare(&first, &second).unwrap().cases
}

#[test]
fn a_difference_is_found_through_noise_and_drift() {
    let mut chance = Chance(1);
    for _ in 0..50 {
        let cases = changes(&mut chance, 16, &[1.1, 1.0 / 1.1]);
        assert_eq!([cases[0].change, cases[1].change], [CaseChange::Slower, CaseChange::Faster], "{cases:?}");
        assert!((cases[0].ratio / 1.1 - 1.0).abs() < 0.03, "{cases:?}");
    }
}

#[test]
fn where_nothing_differs_a_difference_is_seldom_claimed() {
    let mut chance = Chance(2);
    const TRIALS: usize = 400;
    let claims = (0..TRIALS).filter(|_| {
        let cases = changes(&mut chance, 10, &[1.0; 5]);
        cases.iter().any(|case| matches!(case.change, CaseChange::Faster | CaseChange::Slower))
    });
    // Any of the five cases: at most 5 %, with room for chance. The numbers are the same each time.
    let claims = claims.count();
    assert!(claims <= TRIALS * 7 / 100, "{claims} of {TRIALS}");
}

#[test]
fn the_confidence_interval_holds_the_truth() {
    let mut chance = Chance(3);
    const TRIALS: usize = 400;
    let held = (0..TRIALS).filter(|_| {
        let case = &changes(&mut chance, 10, &[1.07])[0];
        (case.low..=case.high).contains(&1.07)
    });
    let held = held.count();
    assert!(held >= TRIALS * 93 / 100, "{held} of {TRIALS}");
}

#[test]
fn one_changed_case_among_many_is_found_and_no_other() {
    let mut factors = [1.0; 20];
    factors[7] = 1.15;
    let cases = changes(&mut Chance(4), 20, &factors);
    let changed: Vec<_> = cases.iter().filter(|case| case.change != CaseChange::NotShown).collect();
    assert!(changed.len() == 1 && changed[0].case == "b 7" && changed[0].change == CaseChange::Slower);
}

#[test]
fn few_runs_show_nothing_and_it_is_said() {
    let cases = changes(&mut Chance(5), 5, &[2.0]);
    assert_eq!((cases[0].change, cases[0].pairs), (CaseChange::TooFewRuns, 5));
    let six = changes(&mut Chance(5), 6, &[2.0]);
    assert_eq!(six[0].change, CaseChange::Slower);
    let of_many = changes(&mut Chance(5), 6, &[2.0; 3]);
    assert!(of_many.iter().all(|case| case.change == CaseChange::TooFewRuns), "{of_many:?}");
}

#[test]
fn rows_of_one_case_are_told_apart_and_skipped_ones_left_out() {
    let row =
        |t: u32, ratio: &str| format!("{{\"bench\":\"b\",\"case\":\"c\",\"T\":{t},\"ratio\":{ratio}}}\n");
    let file = |factor: f64| {
        let run =
            |n: u32| row(1, &n.to_string()) + &row(2, &(f64::from(n) * factor).to_string()) + &row(3, "null");
        (1..=7).map(run).collect::<String>()
    };
    let cases = compare(&file(1.0), &file(0.5)).unwrap().cases;
    let told: Vec<_> = cases.iter().map(|case| (case.case.as_str(), case.ratio, case.change)).collect();
    assert_eq!(told.len(), 2);
    assert_eq!(told[0], ("b c T=1", 1.0, CaseChange::NotShown), "no pair differs");
    assert!((told[1].1 - 0.5).abs() < 1e-9 && told[1].2 == CaseChange::Faster, "{told:?}");
}

#[test]
fn files_that_do_not_match_are_an_error_or_a_note() {
    let row = |case: &str, cpu: &str| {
        format!("{{\"bench\":\"b\",\"case\":\"{case}\",\"ratio\":1,\"cpu\":\"{cpu}\"}}\n")
    };
    let error = compare("{}", "").unwrap_err().to_string();
    assert!(error.contains("line 1 of the first file"), "{error}");
    assert!(compare(&row("x", "a"), &row("y", "a")).unwrap_err().to_string().contains("no case"));
    let notes = compare(&(row("x", "a") + &row("y", "a")), &(row("x", "b") + &row("x", "b"))).unwrap().notes;
    for word in ["two machines", "1 runs in the first", "b y is in the first file only"] {
        assert!(notes.iter().any(|note| note.contains(word)), "{word}: {notes:?}");
    }
}
