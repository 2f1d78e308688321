//! Formats numbers for people.

/// The nearest-rank quantile: the value at or below which `per_mille` of 1,000 of the sorted values
/// lie. 0 if there are no values.
pub fn percentile(sorted: &[u64], per_mille: usize) -> u64 {
    let rank = (sorted.len() * per_mille).div_ceil(1_000).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

/// The median. 0 if there are no values.
pub fn median(values: impl IntoIterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    percentile(&values, 500)
}

/// `a / b`, or 0 where `b` is 0.
pub fn per(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// "12,345".
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// "0.84 µs", "12.3 µs", "1.40 ms", "2.10 s": three digits.
pub fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", three(value))
}

/// "12.3 MB".
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", three(bytes as f64 / 1e3)),
        _ => format!("{} MB", three(bytes as f64 / 1e6)),
    }
}

/// "0.01", "4.00", "12.3", "1,234": three digits, or all before the point.
pub fn three(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => grouped(v.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<u64> = (1..=1_000).collect();
        assert_eq!(percentile(&values, 500), 500);
        assert_eq!(percentile(&values, 990), 990);
        assert_eq!(percentile(&values, 999), 999);
        assert_eq!(percentile(&values, 1_000), 1_000);
        assert_eq!(percentile(&[7], 999), 7);
        assert_eq!(percentile(&[1, 2], 999), 2);
        assert_eq!(percentile(&[], 500), 0);
    }

    #[test]
    fn the_median_needs_no_order() {
        assert_eq!(median([9, 1, 5]), 5);
        assert_eq!(median([4, 2]), 2);
        assert_eq!(median([]), 0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(time(840), "0.84 µs");
        assert_eq!(time(12_345), "12.3 µs");
        assert_eq!(time(999_999), "1,000 µs");
        assert_eq!(time(1_400_000), "1.40 ms");
        assert_eq!(time(2_100_000_000), "2.10 s");
        assert_eq!(bytes(12_345_678), "12.3 MB");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(per(1, 0), 0.0);
    }
}
