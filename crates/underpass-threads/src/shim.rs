#![allow(missing_docs, dead_code)]
use std::sync::atomic::*;
use std::sync::OnceLock;
use underpass_processor::Parker;
pub(crate) const MOST_ACTIVATIONS: usize = 1024;
pub(crate) trait Upcall: Send + Sync {
    fn activate(&'static self, activation: &'static Activation) -> !;
    fn unstarted(&self) -> bool;
    fn ready(&self, activation: &Activation) -> bool;
    fn found_blocking(&self, activation: &Activation);
    fn found_computing(&self, activation: &Activation);
    fn tick(&self) {}
}
pub struct Activation { number: usize, parker: Parker, steps: AtomicU32, summons: AtomicU32, state: AtomicU32 }
impl Activation {
    pub fn number(&self) -> usize { self.number }
    pub fn parker(&self) -> &Parker { &self.parker }
    #[inline] pub fn stepped(&self) { self.steps.store(self.steps.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed); }
    #[inline] pub fn summoned(&self) -> bool { self.summons.load(Ordering::Relaxed) != 0 }
    pub fn answer(&self) {}
    pub fn idle(&self, sleep: impl FnOnce(bool)) {
        let last = RUNNING.fetch_sub(1, Ordering::AcqRel) == 1; sleep(last); RUNNING.fetch_add(1, Ordering::AcqRel);
    }
    #[inline] pub fn begin_blocking(&self) { self.state.swap(1, Ordering::AcqRel); }
    #[inline] pub fn end_blocking(&self) { let _ = self.state.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Acquire); }
}
static RUNNING: AtomicU32 = AtomicU32::new(0);
static POOL: OnceLock<Pool> = OnceLock::new();
pub struct Pool { all: Vec<&'static Activation> }
impl Pool {
    pub fn start(upcall: &'static dyn Upcall) -> &'static Pool {
        let mut new = false;
        let pool = POOL.get_or_init(|| {
            new = true;
            let n: usize = std::env::var("UNDERPASS_PROCESSORS").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| underpass_os::cpu::allowed().unwrap().len());
            RUNNING.store(n as u32, Ordering::Relaxed);
            Pool { all: (0..n).map(|number| &*Box::leak(Box::new(Activation { number, parker: Parker::new(), steps: AtomicU32::new(0), summons: AtomicU32::new(0), state: AtomicU32::new(0) }))).collect() }
        });
        if new { for a in &pool.all { let a = *a; std::thread::Builder::new().name(format!("activation-{}", a.number)).spawn(move || { upcall.activate(a) }).unwrap(); } }
        pool
    }
    #[inline] pub fn heed() {}
    #[inline] pub fn request(&self) {
        if self.all.len() as u32 == RUNNING.load(Ordering::Relaxed) { return }
        for a in &self.all { if a.parker.asleep() && a.parker.call() { return } }
    }
}
pub mod preempt {
    use std::cell::Cell;
    thread_local! { static W: Cell<u32> = const { Cell::new(0) }; }
    #[inline] pub fn disable() { W.set(W.get() + 1); }
    #[inline] pub fn enable() { W.set(W.get() - 1); if W.get() & 0x8000_0000 != 0 { panic!() } }
}
pub mod barrier { #[inline] pub fn light() { std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst); } }
