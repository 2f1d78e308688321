use std::time::Instant;
use underpass_threads::*;
fn time(name: &str, n: u64, f: impl FnOnce(u64) + Send + 'static) {
    let ns = spawn(move || {
        let t = Instant::now();
        f(n);
        t.elapsed().as_nanos() as f64 / n as f64
    })
    .join()
    .unwrap();
    print!("{name} {ns:.1}  ");
}
fn main() {
    let only = std::env::args().nth(1);
    let rounds: u32 = std::env::args().nth(2).map_or(5, |s| s.parse().unwrap());
    let want = |s: &str| only.as_deref().is_none_or(|o| o == s);
    for _ in 0..rounds {
        if want("yield") {
            time("yield", 2_000_000, |n| {
                let other = spawn(move || {
                    for _ in 0..n / 2 {
                        yield_now()
                    }
                });
                for _ in 0..n / 2 {
                    yield_now()
                }
                other.join().unwrap();
            });
        }
        if want("fork-join") {
            time("fork-join", 1_000_000, |n| {
                for _ in 0..n {
                    spawn(|| ()).join().unwrap()
                }
            });
        }
        if want("fork") {
            time("fork", 1_000_000, |n| {
                use std::sync::Arc;
                use std::sync::atomic::*;
                let done = Arc::new(AtomicU64::new(0));
                for b in 0..n / 1000 {
                    for _ in 0..1000 {
                        let d = done.clone();
                        drop(spawn(move || {
                            d.fetch_add(1, Ordering::Relaxed);
                        }));
                    }
                    while done.load(Ordering::Relaxed) < (b + 1) * 1000 {
                        yield_now()
                    }
                }
            });
        }
        if want("park") {
            time("park", 1_000_000, |n| {
                let me = current();
                let other = spawn(move || {
                    for _ in 0..n {
                        park();
                        me.unpark()
                    }
                });
                let o = other.thread().clone();
                for _ in 0..n {
                    o.unpark();
                    park()
                }
                other.join().unwrap();
            });
        }
        if want("blocking") {
            time("blocking", 5_000_000, |n| {
                for _ in 0..n {
                    blocking(|| std::hint::black_box(()))
                }
            });
        }
        println!();
    }
}
