//! The tools of a scenario's client.

use crate::catalogue::selects;
use crate::measure::contest::{Contest, Subject};
use crate::processes::pair::{ChildMessage, tell};
use crate::processes::role::ChildRole;
use crate::raw::ping::{LatePing, Orders, Ping, ReplyKind};
use crate::raw::shared_words::SharedWords;
use crate::{BenchError, Effort, Figures, Pinning, Placement, Row};
use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};
use underpass_os::cpu;

/// The least time between two reports of progress. A report wakes the parent, on a processor that
/// is measured.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// The measuring side of a scenario.
#[derive(Debug)]
pub struct ScenarioClient {
    role: ChildRole,
    pinning: Pinning,
    orders: Orders,
    told: Cell<Option<Instant>>,
}

impl ScenarioClient {
    pub(crate) fn new(role: ChildRole, pinning: Pinning, lines: SharedWords) -> Self {
        Self { role, pinning, orders: Orders::new(lines), told: Cell::new(None) }
    }

    /// How long to measure.
    pub fn effort(&self) -> Effort {
        self.role.effort
    }

    /// Whether `case` is selected.
    pub fn wants(&self, case: &str) -> bool {
        selects(self.role.case.as_deref(), case)
    }

    /// Whether long lists of cases are cut short.
    pub fn few(&self) -> bool {
        self.role.effort.few && self.role.case.is_none()
    }

    /// Where the two sides run.
    pub fn pinning(&self) -> Pinning {
        self.pinning
    }

    /// The CPUs.
    pub fn placement(&self) -> &Placement {
        &self.role.placement
    }

    /// The CPUs of the client and of the server.
    ///
    /// # Errors
    /// The reason, if there are too few.
    pub fn sides(&self) -> Result<(Vec<usize>, Vec<usize>), BenchError> {
        Ok(self.role.placement.sides(self.pinning)?)
    }

    /// The directory of the peers, if there are any.
    pub fn peers(&self) -> Option<&Path> {
        self.role.peers.as_deref()
    }

    /// The directory for sockets.
    pub fn scratch(&self) -> &Path {
        &self.role.scratch
    }

    /// Confines this kernel thread, which measures the limits, to the client's CPU.
    ///
    /// Call this once the runtime has its kernel threads. Those keep the CPUs of the scenario.
    ///
    /// # Errors
    /// If this process may not use the CPU any more.
    pub fn settle(&self) -> Result<(), BenchError> {
        Ok(cpu::confine(&[self.placement().near])?)
    }

    /// A raw limit of `kind`, with the responder on `cpu`.
    pub fn ping(&self, name: &'static str, kind: ReplyKind, cpu: usize) -> Ping<'_> {
        Ping::new(name, &self.orders, kind, cpu)
    }

    /// As [`ping`](Self::ping), one round at a time. Before each, both sides sleep for `pause`.
    pub fn late_ping(&self, name: &'static str, cpu: usize, pause: Duration) -> LatePing<'_> {
        LatePing::new(name, &self.orders, cpu, pause)
    }

    /// The limit of a call under this scenario's placement: two cache lines, or a round trip by the
    /// kernel if there is one CPU.
    pub fn limit(&self) -> Ping<'_> {
        let place = self.placement();
        match (self.pinning, place.far) {
            (Pinning::Together | Pinning::Alone | Pinning::Split { servers: 0, .. }, _) | (_, None) => {
                self.ping("futex-same-cpu", ReplyKind::Futex, place.near)
            }
            (_, Some(far)) => self.ping("two-line", ReplyKind::TwoLine, far),
        }
    }

    /// Measures `subjects` beside each other, as part `part` of `parts` of the scenario.
    ///
    /// # Errors
    /// The first error of a subject.
    pub fn contest(
        &self,
        subjects: &mut [&mut dyn Subject],
        part: usize,
        parts: usize,
    ) -> Result<Contest, BenchError> {
        let mut tell = |share: f64| self.progress((part as f64 + share) / parts as f64);
        Contest::hold(subjects, self.effort(), &mut tell)
    }

    /// Reports how much of the scenario is done, 0 to 1.
    pub fn progress(&self, share: f64) {
        if self.told.get().is_none_or(|told| told.elapsed() > TELL_EVERY) {
            self.told.set(Some(Instant::now()));
            // If the parent is gone, this process is about to be killed.
            let _ = tell(&ChildMessage::Progress(share));
        }
    }

    /// Sends people a note that is no result.
    ///
    /// # Errors
    /// If the parent is gone.
    pub fn note(&self, text: &str) -> Result<(), BenchError> {
        tell(&ChildMessage::Note(text.into()))
    }

    /// Reports the figures of `case`.
    ///
    /// # Errors
    /// If the parent is gone.
    pub fn report(&self, case: &str, figures: Figures) -> Result<(), BenchError> {
        self.row(case, self.pinning, Ok(figures))
    }

    /// Reports a row whose placement differs from the scenario's, or that was skipped for a reason.
    ///
    /// # Errors
    /// If the parent is gone.
    pub fn row(
        &self,
        case: &str,
        pinning: Pinning,
        result: Result<Figures, String>,
    ) -> Result<(), BenchError> {
        tell(&ChildMessage::Row(Row {
            bench: self.role.bench.clone(),
            case: case.into(),
            pinning: self.placement().describe(pinning),
            result,
        }))
    }
}
