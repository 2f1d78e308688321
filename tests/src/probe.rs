//! The interface that most tests call, and its implementation.
#![allow(clippy::missing_errors_doc, reason = "an interface of the tests: what goes wrong is what they test")]

use crate::entries::Entries;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use underpass::{CallError, Wire, thread};

/// An error type of the implementation.
#[derive(Clone, Debug, PartialEq, Wire)]
pub enum Trouble {
    /// The call itself failed.
    Call(CallError),
    /// The implementation refuses.
    Refused {
        /// The reason.
        why: String,
    },
}

impl From<CallError> for Trouble {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

/// An enum of every kind of variant.
#[derive(Clone, Debug, PartialEq, Wire)]
pub enum Shape {
    /// Unit.
    Nothing,
    /// Tuple.
    Circle(f64),
    /// Named.
    Box {
        /// Extent.
        width: u32,
        /// Extent.
        height: u32,
    },
    /// Recursive.
    Many(Vec<Shape>),
}

/// A struct of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Wire)]
pub struct Plain {
    /// A field.
    pub id: u64,
    /// A field.
    pub at: (i16, i32),
    /// A field.
    pub flags: [bool; 3],
}

/// A value of every kind that can travel.
#[derive(Clone, Debug, PartialEq, Wire)]
pub struct Everything {
    /// Integers.
    pub integers: (u8, u16, u32, u64, u128, i8, i16, i32, i64, i128),
    /// Floats.
    pub floats: (f32, f64),
    /// The rest of the scalars.
    pub scalars: (bool, char, usize, isize),
    /// An array.
    pub array: [u16; 4],
    /// An option.
    pub option: Option<Box<Everything>>,
    /// A result.
    pub result: Result<u8, String>,
    /// A string.
    pub string: String,
    /// Bytes.
    pub bytes: Vec<u8>,
    /// A list.
    pub list: Vec<(u32, String)>,
    /// A map.
    pub map: HashMap<String, i64>,
    /// A sorted map.
    pub tree: BTreeMap<u8, Vec<u16>>,
    /// A struct.
    pub plain: Plain,
    /// An enum.
    pub shape: Shape,
    /// A span.
    pub span: Duration,
}

/// What the tests call.
#[underpass::interface]
pub trait Probe {
    /// Does nothing.
    fn null(&self) -> Result<(), CallError>;
    /// Adds.
    fn add(&self, a: u8, b: u8) -> Result<u8, CallError>;
    /// Returns its argument.
    fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError>;
    /// Returns its argument.
    fn everything(&self, value: Everything) -> Result<Everything, Trouble>;
    /// Returns its arguments, which it gets by reference.
    fn shapes(&self, shapes: &[Shape], name: &str) -> Result<(Vec<Shape>, String), Trouble>;
    /// Refuses.
    fn refuse(&self, why: &str) -> Result<(), Trouble>;
    /// Returns `len` bytes.
    fn fill(&self, len: u64) -> Result<Vec<u8>, CallError>;
    /// How many bytes came.
    fn count(&self, bytes: &[u8]) -> Result<u64, CallError>;
    /// Sleeps in its thread for `ms` ms.
    fn nap(&self, ms: u64) -> Result<(), CallError>;
    /// Waits until `others` calls have come here in all.
    fn meet(&self, others: u32) -> Result<(), CallError>;
    /// Panics.
    fn panic(&self, message: &str) -> Result<(), CallError>;
    /// Calls `add` of the `Probe` under `name`.
    fn call_back(&self, name: &str, a: u8, b: u8) -> Result<u8, CallError>;
    /// Calls `chain` of the `Probe` under the first of `names` with the others. If there are none,
    /// it naps. Returns how many names there were.
    fn chain(&self, names: &[String], ms: u64) -> Result<u32, CallError>;
    /// Computes for `ms` ms.
    fn compute(&self, ms: u64) -> Result<(), CallError>;
    /// Blocks its kernel thread without announcing it, until `others` calls have come to
    /// [`meet`](Self::meet) or here.
    fn block(&self, others: u32) -> Result<(), CallError>;
    /// The processors that its domain has donated, was lent, and has returned.
    fn donations(&self) -> Result<(u64, u64, u64), CallError>;
    /// The calls that its domain has made, its spins that ended with a message, and its spins that
    /// ended in a sleep.
    fn spins(&self) -> Result<(u64, u64, u64), CallError>;
    /// Ends its process.
    fn die(&self) -> Result<(), CallError>;
    /// The server's process.
    fn pid(&self) -> Result<u32, CallError>;
    /// Its domain's kernel entries; see [`Entries::marked`].
    fn entries(&self) -> Result<Entries, CallError>;
    /// Bytes of arguments that have arrived here, including those of calls in progress.
    fn arrived(&self) -> Result<u64, CallError>;
    /// How many binding ends its domain polls.
    fn active(&self) -> Result<u64, CallError>;
    /// The number of calls before this one, of all callers.
    fn turn(&self) -> Result<u64, CallError>;
}

/// Another interface.
#[underpass::interface]
pub trait Other {
    /// Has another procedure.
    fn different(&self, argument: u8) -> Result<(), CallError>;
}

/// The implementation of [`Probe`].
#[derive(Debug, Default)]
pub struct Subject {
    met: AtomicU32,
    turns: AtomicU64,
    next: Mutex<BTreeMap<String, ProbeClient>>,
}

impl Probe for Subject {
    fn null(&self) -> Result<(), CallError> {
        Ok(())
    }

    fn add(&self, a: u8, b: u8) -> Result<u8, CallError> {
        Ok(a.wrapping_add(b))
    }

    fn echo(&self, bytes: &[u8]) -> Result<Vec<u8>, CallError> {
        Ok(bytes.to_vec())
    }

    fn everything(&self, value: Everything) -> Result<Everything, Trouble> {
        Ok(value)
    }

    fn shapes(&self, shapes: &[Shape], name: &str) -> Result<(Vec<Shape>, String), Trouble> {
        Ok((shapes.to_vec(), name.to_owned()))
    }

    fn refuse(&self, why: &str) -> Result<(), Trouble> {
        Err(Trouble::Refused { why: why.to_owned() })
    }

    fn fill(&self, len: u64) -> Result<Vec<u8>, CallError> {
        Ok((0..len).map(|i| i as u8).collect())
    }

    fn count(&self, bytes: &[u8]) -> Result<u64, CallError> {
        Ok(bytes.len() as u64)
    }

    fn nap(&self, ms: u64) -> Result<(), CallError> {
        thread::sleep(Duration::from_millis(ms));
        Ok(())
    }

    fn meet(&self, others: u32) -> Result<(), CallError> {
        self.met.fetch_add(1, Ordering::SeqCst);
        while self.met.load(Ordering::SeqCst) < others {
            thread::yield_now();
        }
        Ok(())
    }

    fn panic(&self, message: &str) -> Result<(), CallError> {
        panic!("{message}");
    }

    fn call_back(&self, name: &str, a: u8, b: u8) -> Result<u8, CallError> {
        let back = ProbeClient::import(name).map_err(|e| CallError::Panicked(e.to_string()))?;
        back.add(a, b)
    }

    fn chain(&self, names: &[String], ms: u64) -> Result<u32, CallError> {
        let Some((name, others)) = names.split_first() else {
            if ms > 0 {
                thread::sleep(Duration::from_millis(ms));
            }
            return Ok(0);
        };
        let known = self.next.lock().unwrap().get(name).cloned();
        let next = match known {
            Some(next) => next,
            None => {
                let next = ProbeClient::import(name).map_err(|e| CallError::Panicked(e.to_string()))?;
                self.next.lock().unwrap().entry(name.clone()).or_insert(next).clone()
            }
        };
        Ok(next.chain(others, ms)? + 1)
    }

    fn compute(&self, ms: u64) -> Result<(), CallError> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(ms) {
            std::hint::spin_loop();
        }
        Ok(())
    }

    fn block(&self, others: u32) -> Result<(), CallError> {
        self.met.fetch_add(1, Ordering::SeqCst);
        while self.met.load(Ordering::SeqCst) < others {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn donations(&self) -> Result<(u64, u64, u64), CallError> {
        let counters = underpass::counters();
        Ok((counters.donations_given, counters.donations_taken, counters.donations_returned))
    }

    fn spins(&self) -> Result<(u64, u64, u64), CallError> {
        let counters = underpass::counters();
        Ok((counters.calls, counters.spins_paid, counters.spins_in_vain))
    }

    fn die(&self) -> Result<(), CallError> {
        std::process::exit(9);
    }

    fn pid(&self) -> Result<u32, CallError> {
        Ok(std::process::id())
    }

    fn entries(&self) -> Result<Entries, CallError> {
        Ok(Entries::marked())
    }

    fn arrived(&self) -> Result<u64, CallError> {
        Ok(underpass::counters().bytes_in)
    }

    fn active(&self) -> Result<u64, CallError> {
        Ok(underpass::active_bindings() as u64)
    }

    fn turn(&self) -> Result<u64, CallError> {
        Ok(self.turns.fetch_add(1, Ordering::SeqCst))
    }
}

/// The implementation of [`Other`].
#[derive(Debug)]
pub struct Unlike;

impl Other for Unlike {
    fn different(&self, _argument: u8) -> Result<(), CallError> {
        Ok(())
    }
}
