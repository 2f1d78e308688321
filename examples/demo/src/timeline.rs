//! The calls of a round on one clock: their caller, their server, their times and their processors.

use super::event::{DemoDomain, DemoProcedure, EditorThread, Event};
use super::round::Round;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// A round's calls, and the moves of its processors.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Timeline {
    /// The calls, in the order in which they began.
    pub calls: Vec<TimelineCall>,
    /// The moments at which a processor ran another domain than before.
    pub moves: Vec<Move>,
}

/// One call; times in ns since the round's first call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimelineCall {
    /// The calling thread.
    pub thread: EditorThread,
    /// The domain that was called.
    pub server: DemoDomain,
    /// The called procedure.
    pub procedure: DemoProcedure,
    /// When the caller made the call and when it continued.
    pub from: u64,
    /// See `from`.
    pub to: u64,
    /// The caller's processor before the call.
    pub cpu_from: usize,
    /// The caller's processor after the call.
    pub cpu_to: usize,
    /// Wake-ups that the client sent over the binding during the call, for any call.
    pub wakeups: u64,
    /// The handler, where the server recorded it.
    pub handler: Option<Handled>,
}

/// A call as its handler recorded it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Handled {
    /// When the handler began and when it ended.
    pub from: u64,
    /// See `from`.
    pub to: u64,
    /// Its processor.
    pub cpu: usize,
}

/// A processor that ran another domain than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Move {
    /// When it ran there, in ns since the round's first call.
    pub at: u64,
    /// The processor.
    pub cpu: usize,
    /// The domain that it ran before.
    pub from: DemoDomain,
    /// The domain that it runs now.
    pub to: DemoDomain,
}

impl Timeline {
    /// Combines the records of the three processes.
    pub fn of(round: &Round) -> Self {
        let start = round.edited.from;
        let handled = round.served.values().flat_map(|served| &served.events);
        let calls = calls(start, &round.edited.events, handled);
        let moves = moves(&calls);
        Self { calls, moves }
    }

    /// Up to `calls` calls from number `first` on, and the moves in their time. Times count from
    /// the first of these calls.
    pub fn excerpt(&self, first: usize, calls: usize) -> Self {
        let end = self.calls.len().min(first.saturating_add(calls));
        let mut calls: Vec<TimelineCall> = self.calls.get(first..end).unwrap_or_default().to_vec();
        let start = calls.first().map_or(0, |call| call.from);
        let end = calls.iter().map(|call| call.to).max().unwrap_or(0);
        for call in &mut calls {
            call.from -= start;
            call.to -= start;
            if let Some(handler) = &mut call.handler {
                handler.from = handler.from.saturating_sub(start);
                handler.to = handler.to.saturating_sub(start);
            }
        }
        let within = self.moves.iter().filter(|moved| (start..=end).contains(&moved.at));
        let moves = within.map(|moved| Move { at: moved.at - start, ..moved.clone() }).collect();
        Self { calls, moves }
    }

    /// The sightings of domains on processors: time, processor and domain, in the order of time.
    pub fn sightings(&self) -> Vec<(u64, usize, DemoDomain)> {
        sightings(&self.calls)
    }
}

/// Joins each call to its handler.
fn calls<'a>(start: u64, made: &[Event], handled: impl Iterator<Item = &'a Event>) -> Vec<TimelineCall> {
    let mut waiting: HashMap<(DemoProcedure, u64), VecDeque<&Event>> = HashMap::new();
    for event in handled {
        waiting.entry((event.procedure, event.key)).or_default().push_back(event);
    }
    let wakeups = new_wakeups(made);
    let since = |at: u64| at.saturating_sub(start);
    let mut calls = Vec::with_capacity(made.len());
    for (event, wakeups) in made.iter().zip(wakeups) {
        let queue = waiting.entry((event.procedure, event.key)).or_default();
        let at = queue.iter().position(|handler| handler.from >= event.from && handler.to <= event.to);
        let handler = at.and_then(|at| queue.remove(at)).map(|handler| Handled {
            from: since(handler.from),
            to: since(handler.to),
            cpu: handler.cpu_to,
        });
        calls.push(TimelineCall {
            thread: event.thread.unwrap_or(EditorThread::T1),
            server: event.procedure.server(),
            procedure: event.procedure,
            from: since(event.from),
            to: since(event.to),
            cpu_from: event.cpu_from,
            cpu_to: event.cpu_to,
            wakeups,
            handler,
        });
    }
    calls
}

/// An event knows its binding's wake-ups up to its end. This is the number since the previous
/// event's end.
fn new_wakeups(made: &[Event]) -> Vec<u64> {
    let mut by_end: Vec<usize> = (0..made.len()).collect();
    by_end.sort_by_key(|&at| made[at].to);
    let (mut known, mut new) = (BTreeMap::new(), vec![0; made.len()]);
    for at in by_end {
        let before = known.insert(made[at].procedure.server(), made[at].wakeups).unwrap_or(0);
        new[at] = made[at].wakeups.saturating_sub(before);
    }
    new
}

fn sightings(calls: &[TimelineCall]) -> Vec<(u64, usize, DemoDomain)> {
    let mut seen = Vec::with_capacity(4 * calls.len());
    for call in calls {
        seen.push((call.from, call.cpu_from, DemoDomain::Editor));
        seen.push((call.to, call.cpu_to, DemoDomain::Editor));
        if let Some(handler) = &call.handler {
            seen.push((handler.from, handler.cpu, call.server));
            seen.push((handler.to, handler.cpu, call.server));
        }
    }
    seen.sort_unstable();
    seen
}

fn moves(calls: &[TimelineCall]) -> Vec<Move> {
    let mut with: HashMap<usize, DemoDomain> = HashMap::new();
    let mut moves = Vec::new();
    for (at, cpu, to) in sightings(calls) {
        if let Some(from) = with.insert(cpu, to)
            && from != to
        {
            moves.push(Move { at, cpu, from, to });
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(
        thread: Option<EditorThread>,
        procedure: DemoProcedure,
        key: u64,
        (from, to): (u64, u64),
        cpu: usize,
    ) -> Event {
        let (kernel_entries, wakeups) = (0, to / 1_000);
        Event {
            thread,
            procedure,
            key,
            from,
            to,
            cpu_from: cpu,
            cpu_to: cpu,
            kernel_entries,
            wakeups,
            fine: true,
        }
    }

    fn two_at_once() -> Vec<TimelineCall> {
        let made = [
            event(Some(EditorThread::T1), DemoProcedure::Read, 0, (1_000, 1_900), 0),
            event(Some(EditorThread::T2), DemoProcedure::Read, 8, (1_100, 2_500), 0),
            event(Some(EditorThread::T1), DemoProcedure::Draw, 0, (2_000, 3_000), 0),
        ];
        let handled = [
            event(None, DemoProcedure::Read, 8, (1_200, 1_300), 1),
            event(None, DemoProcedure::Read, 0, (1_300, 1_400), 1),
            event(None, DemoProcedure::Draw, 0, (2_700, 2_800), 0),
        ];
        calls(1_000, &made, handled.iter())
    }

    #[test]
    fn calls_find_their_handlers() {
        let calls = two_at_once();
        assert_eq!(calls[0].handler, Some(Handled { from: 300, to: 400, cpu: 1 }));
        assert_eq!(calls[1].handler, Some(Handled { from: 200, to: 300, cpu: 1 }));
        assert_eq!((calls[1].from, calls[1].to, calls[1].thread), (100, 1_500, EditorThread::T2));
        assert_eq!(calls.iter().map(|call| call.wakeups).collect::<Vec<_>>(), [1, 1, 3]);
    }

    #[test]
    fn a_processor_moves_when_it_is_seen_elsewhere() {
        let moves = moves(&two_at_once());
        let editor = DemoDomain::Editor;
        let windows = DemoDomain::Windows;
        assert_eq!(moves.len(), 2);
        assert_eq!(moves[0], Move { at: 1_700, cpu: 0, from: editor, to: windows });
        assert_eq!(moves[1], Move { at: 2_000, cpu: 0, from: windows, to: editor });
    }

    #[test]
    fn an_excerpt_begins_at_nought() {
        let calls = two_at_once();
        let all = Timeline { moves: moves(&calls), calls };
        let part = all.excerpt(1, 2);
        assert_eq!((part.calls.len(), part.calls[0].from, part.calls[1].from), (2, 0, 900));
        assert_eq!(part.moves.len(), 2);
        assert_eq!(part.moves[0].at, 1_600);
        assert!(all.excerpt(9, 5).calls.is_empty());
    }
}
