//! The text is read back, and compared with the snapshot.

use std::collections::BTreeMap;
use underpass::metrics::{InterfaceMetrics, MeasuredSide, MethodMetrics, snapshot};
use underpass::{CallError, Handler, Server};
use underpass_harness::alone;
use underpass_prometheus::{render, text};

/// The labels of a series, and its value.
type Series = (BTreeMap<String, String>, f64);

/// Reads the text format: the series of each name.
fn read(text: &str) -> BTreeMap<String, Vec<Series>> {
    let mut found: BTreeMap<String, Vec<Series>> = BTreeMap::new();
    let mut types = BTreeMap::new();
    for line in text.lines() {
        if let Some(about) = line.strip_prefix("# TYPE ") {
            let (name, kind) = about.split_once(' ').expect("a type");
            assert_eq!(types.insert(name, kind), None, "one type for each name");
        }
        if line.starts_with('#') {
            continue;
        }
        let (name, rest) = line.split_once('{').expect("labels");
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let kind = types.get(family.unwrap_or(name)).copied();
        assert_eq!(kind, Some(if family.is_some() { "histogram" } else { "counter" }), "{name}");
        let (labels, value) = labels(rest);
        found.entry(name.to_owned()).or_default().push((labels, value.parse().expect("a number")));
    }
    found
}

/// Reads labels to their closing brace. Returns what is behind it.
fn labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, behind) = rest.split_once("=\"").expect("a label");
        let (mut value, mut chars) = (String::new(), behind.char_indices());
        let end = loop {
            match chars.next().expect("a closing quote") {
                (end, '"') => break end,
                (_, '\\') => value.push(match chars.next().expect("an escape").1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        labels.insert(name.to_owned(), value);
        rest = &behind[end + 1..];
        match rest.split_at(1) {
            (",", behind) => rest = behind,
            ("}", behind) => return (labels, behind.trim()),
            other => panic!("{other:?} behind a label"),
        }
    }
}

/// The value of the series of a method that has this label as well.
fn value(found: &BTreeMap<String, Vec<Series>>, of: (&str, &str), method: &str, label: (&str, &str)) -> f64 {
    let (name, side) = of;
    let series = found[name].iter().find(|(labels, _)| {
        labels["method"] == method
            && labels["side"] == side
            && labels.get(label.0).is_some_and(|one| one == label.1)
    });
    series.unwrap_or_else(|| panic!("no {name} of {method} with {label:?}")).1
}

#[underpass::interface(asynchronous)]
trait Shop {
    fn order(&self, pieces: u32) -> Result<u32, CallError>;
    fn cancel(&self) -> Result<(), CallError>;
}

struct Counter;

impl ShopAsync for Counter {
    async fn order(&self, pieces: u32) -> Result<u32, CallError> {
        Ok(pieces)
    }
    async fn cancel(&self) -> Result<(), CallError> {
        Err(CallError::Overloaded)
    }
}

fn spawn(mut handler: Handler) {
    std::thread::spawn(move || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        while handler.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
    });
}

#[test]
fn the_text_is_the_snapshot() {
    alone!();
    let name = format!("prometheus-{}", std::process::id());
    let running =
        Server::new().export(&name, ShopAsync::serve(Counter, spawn).measured(true)).start().unwrap();
    let shop = ShopClient::import(&name).unwrap().measured(&name);
    (0..100).for_each(|pieces| assert_eq!(shop.order(pieces), Ok(pieces)));
    (0..7).for_each(|_| assert!(shop.cancel().is_err()));

    let import = snapshot().into_iter().find(|of| of.side == MeasuredSide::Import).unwrap();
    let found = read(&text());
    for method in &import.methods {
        let calls = ("underpass_calls_total", "import");
        let value = |of, label| value(&found, of, &method.method, label) as u64;
        assert_eq!(value(calls, ("outcome", "returned")), method.returned);
        assert_eq!(value(calls, ("outcome", "error")), method.returned_errors);
        let bytes = ("underpass_bytes_total", "import");
        assert_eq!(value(bytes, ("direction", "in")), method.bytes_in);
        assert_eq!(value(bytes, ("direction", "out")), method.bytes_out);
        let [count, last] =
            ["underpass_call_duration_seconds_count", "underpass_call_duration_seconds_bucket"];
        assert_eq!(value((count, "import"), ("name", &name)), method.latency.count());
        assert_eq!(value((last, "import"), ("le", "+Inf")), method.latency.count());
    }
    assert_eq!((import.methods[0].returned, import.methods[1].returned_errors), (100, 7));
    drop(shop);
    running.stop();
}

#[test]
fn buckets_grow_and_names_are_escaped() {
    alone!();
    let mut method = MethodMetrics { method: "a\"b\\c\nd".to_owned(), ..MethodMetrics::default() };
    // One call in each range, to the last.
    method.latency.counts = vec![1; 272];
    method.latency.sum_ns = 2_500_000_000;
    let of = InterfaceMetrics {
        name: "odd".to_owned(),
        interface: "Odd".to_owned(),
        side: MeasuredSide::Export,
        methods: vec![method.clone()],
    };
    let found = read(&render(&[of]));
    let buckets = &found["underpass_call_duration_seconds_bucket"];
    assert_eq!(buckets.len(), 31);
    assert!(buckets.iter().all(|(labels, _)| labels["method"] == method.method));
    let counts: Vec<_> = buckets.iter().map(|(_, count)| *count as u64).collect();
    // Eight ranges for each power of two, from 40 that end at 128 ns.
    let expected: Vec<_> = (0..30).map(|power| 40 + 8 * power).chain([272]).collect();
    assert_eq!(counts, expected);
    assert!((buckets[0].0["le"].parse::<f64>().unwrap() - 128e-9).abs() < 1e-15);
    assert!((found["underpass_call_duration_seconds_sum"][0].1 - 2.5).abs() < 1e-9);
    assert!(!found.contains_key("underpass_call_queueing_seconds_count"), "nothing was measured");
}
