//! Backtraces: return addresses, and the names of their places.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a thread is. Threads of one dump that are at the same place share the trace.
///
/// Written with `{}`, it names functions, files and lines, from the program's debug information. It
/// leaves out the frames of the switch, and those below the thread's own body.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Trace(Arc<[usize]>);

/// Crates and files whose innermost frames belong to the switch, not to the thread.
const SWITCH: [(&str, &str); 5] = [
    ("underpass-context", ""),
    ("underpass-threads", "sched/scheduler.rs"),
    ("underpass-threads", "sched/switching.rs"),
    ("underpass-threads", "sched/self_report.rs"),
    ("underpass-threads", "wait/suspend.rs"),
];
/// Where a thread's own frames end.
const BODY: (&str, &str) = ("underpass-threads", "block/body.rs");

impl Trace {
    /// The calling thread's own.
    #[inline(never)]
    pub(crate) fn here() -> Self {
        let mut frames = [0; crate::sched::self_report::FRAMES];
        let found = underpass_context::trace_here(&mut frames);
        // The first two are the unwinder's caller and this function.
        Self(frames[found.min(2)..found].into())
    }

    /// Return addresses, the innermost first.
    pub fn addresses(&self) -> &[usize] {
        &self.0
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trace").field(&format_args!("{:x?}", self.0)).finish()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.0, f)
    }
}

/// Writes the names of the places of these return addresses.
pub(crate) fn write(addresses: &[usize], to: &mut impl fmt::Write) -> fmt::Result {
    for (number, place) in own(addresses).iter().enumerate() {
        writeln!(to, "{number:>4}: {}", place.name)?;
        if let Some(file) = &place.file {
            writeln!(to, "             at {}:{}", file.display(), place.line)?;
        }
    }
    Ok(())
}

/// One frame. Inlining may have put several into one address.
struct Place {
    name: String,
    file: Option<PathBuf>,
    line: u32,
}

impl Place {
    fn is_in(&self, (room, file): (&str, &str)) -> bool {
        let path = self.file.as_ref().and_then(|path| path.to_str());
        path.is_some_and(|path| path.contains(room) && path.contains("/src/") && path.ends_with(file))
    }

    /// Whether it belongs to Rust's libraries.
    fn is_std(&self) -> bool {
        self.file.as_ref().and_then(|path| path.to_str()).is_some_and(|path| path.contains("/library/"))
    }
}

/// The frames between the switch and the thread's body.
fn own(addresses: &[usize]) -> Vec<Place> {
    let mut places = Vec::new();
    for &address in addresses {
        let before = places.len();
        #[cfg(feature = "symbols")]
        backtrace::resolve(address as *mut std::ffi::c_void, |symbol| {
            let name = symbol.name().map_or_else(|| format!("{address:#x}"), |name| format!("{name:#}"));
            let (file, line) = (symbol.filename().map(PathBuf::from), symbol.lineno().unwrap_or(0));
            places.push(Place { name, file, line });
        });
        if places.len() == before {
            places.push(Place { name: format!("{address:#x}"), file: None, line: 0 });
        }
        // What is below a thread's body is the same for all threads. Above it are the frames by
        // which `std` calls it.
        if let Some(body) = places[before..].iter().position(|place| place.is_in(BODY)) {
            places.truncate(before + body);
            while places.pop_if(|place| place.is_std()).is_some() {}
            break;
        }
    }
    let begin = places.iter().position(|place| !SWITCH.iter().any(|room| place.is_in(*room)));
    places.split_off(begin.unwrap_or(0))
}

/// The traces of one dump.
#[derive(Default)]
pub(crate) struct Traces(HashSet<Arc<[usize]>>);

impl Traces {
    pub(crate) fn of(&mut self, frames: Box<[usize]>) -> Trace {
        if let Some(known) = self.0.get(&*frames) {
            return Trace(known.clone());
        }
        let new: Arc<[usize]> = frames.into();
        self.0.insert(new.clone());
        Trace(new)
    }
}
