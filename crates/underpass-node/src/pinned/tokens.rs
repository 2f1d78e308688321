//! How many tokens of the jobserver are in circulation.

/// Tokens that no process can have are lost after so long, in ns.
const LOST_AFTER: u64 = 10_000_000_000;
/// If nothing is in circulation, the domain asks for one token after so long, in ns. Each time that
/// nobody takes it the time doubles, up to the second one.
const PROBE: u64 = 20_000_000;
const RAREST_PROBE: u64 = 5_000_000_000;
/// A token that has lain in the pipe for so long is not needed, in ns. One that a job has just put
/// back lies there for a moment.
const UNUSED: u64 = 300_000_000;

/// What a survey has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenSurvey {
    /// The processors that the domain is to have.
    pub(crate) processors: u32,
    /// Clients that no other client has started. Each runs one job without a token.
    pub(crate) roots: u32,
    /// The kernel threads of all processes of the domain, without one for each root.
    pub(crate) threads: u32,
    /// The tokens that lie in the pipe.
    pub(crate) inside: u32,
}

/// What is to be done with the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenChange {
    /// Nothing.
    Keep,
    /// Put so many in.
    Put(u32),
    /// Take so many out, as far as they lie there, and tell of it by
    /// [`TokenAccount::taken`].
    Take(u32),
}

/// The account of tokens.
#[derive(Debug)]
pub(crate) struct TokenAccount {
    /// Those in circulation: in the pipe or with clients.
    pub(crate) issued: u32,
    /// Since when more were out than threads could have.
    too_few_since: Option<u64>,
    /// Since when tokens lie in the pipe.
    unused_since: Option<u64>,
    probed_at: u64,
    /// The time from one such question to the next.
    probe: u64,
}

impl Default for TokenAccount {
    fn default() -> Self {
        Self { issued: 0, too_few_since: None, unused_since: None, probed_at: 0, probe: PROBE }
    }
}

impl TokenAccount {
    /// A process has opened the pipe, or has taken a token.
    pub(crate) fn notice(&mut self) {
        self.probe = PROBE;
    }

    /// Tokens that are with clients.
    pub(crate) fn out(&self, inside: u32) -> u32 {
        self.issued.saturating_sub(inside)
    }

    /// What follows from a survey. The caller carries it out.
    pub(crate) fn settle(&mut self, seen: &TokenSurvey, now: u64) -> TokenChange {
        if seen.inside > self.issued {
            // Put back by a client that had not taken them, or had them from an earlier server.
            self.issued = seen.inside;
        }
        self.find_lost(seen, now);
        let goal = match seen.roots {
            0 => 0,
            roots => seen.processors.saturating_sub(roots),
        };
        match goal {
            goal if goal > self.issued => {
                let more = goal - self.issued;
                self.issued = goal;
                TokenChange::Put(more)
            }
            goal if goal < self.issued && seen.inside > 0 => {
                TokenChange::Take((self.issued - goal).min(seen.inside))
            }
            _ => TokenChange::Keep,
        }
    }

    fn find_lost(&mut self, seen: &TokenSurvey, now: u64) {
        let out = self.out(seen.inside);
        if out <= seen.threads {
            self.too_few_since = None;
            return;
        }
        let since = *self.too_few_since.get_or_insert(now);
        if now.saturating_sub(since) >= LOST_AFTER {
            self.issued -= out - seen.threads;
            self.too_few_since = None;
        }
    }

    /// When to look again, though nothing has happened: tokens may be lost.
    pub(crate) fn due(&self) -> Option<u64> {
        self.too_few_since.map(|since| since + LOST_AFTER)
    }

    /// So many were taken out of the pipe.
    pub(crate) fn taken(&mut self, tokens: u32) {
        self.issued = self.issued.saturating_sub(tokens);
    }

    /// How many jobs the clients could run: those that run or will take a token in a moment, and
    /// one more if a client may wait for a token.
    pub(crate) fn jobs(&mut self, seen: &TokenSurvey, now: u64) -> u32 {
        let lies_there = seen.inside > 0;
        let unused_since = *self.unused_since.get_or_insert(now);
        self.unused_since = lies_there.then_some(unused_since);
        if lies_there && seen.threads > 0 && now.saturating_sub(unused_since) < UNUSED {
            return seen.roots + self.issued;
        }
        let out = self.out(seen.inside);
        let is_short = seen.roots > 0 && seen.inside == 0 && (self.issued > 0 || self.probes(now));
        // A shell that has the pipe open and runs nothing is no job.
        let roots = if seen.threads > 0 || out > 0 { seen.roots } else { 0 };
        match is_short {
            true => seen.roots + out + 1,
            false => roots + out,
        }
    }

    /// Whether it is time to ask for a token.
    fn probes(&mut self, now: u64) -> bool {
        let is_due = now.saturating_sub(self.probed_at) >= self.probe;
        if is_due {
            self.probed_at = now;
            self.probe = (2 * self.probe).min(RAREST_PROBE);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn seen(processors: u32, roots: u32, threads: u32, inside: u32) -> TokenSurvey {
        TokenSurvey { processors, roots, threads, inside }
    }

    #[test]
    fn tokens_follow_the_processors() {
        let mut tokens = TokenAccount::default();
        assert_eq!(tokens.settle(&seen(4, 0, 0, 0), 0), TokenChange::Keep, "without a client there is none");
        assert_eq!(tokens.settle(&seen(4, 1, 9, 0), 0), TokenChange::Put(3), "one job needs no token");
        // Two are out. One is taken back at once, and the next as soon as it is returned.
        assert_eq!(tokens.settle(&seen(2, 1, 9, 1), 0), TokenChange::Take(1));
        tokens.taken(1);
        assert_eq!(tokens.settle(&seen(2, 1, 9, 0), 0), TokenChange::Keep);
        assert_eq!(tokens.settle(&seen(2, 1, 9, 1), 0), TokenChange::Take(1));
        tokens.taken(1);
        assert_eq!((tokens.issued, tokens.settle(&seen(2, 1, 9, 0), 0)), (1, TokenChange::Keep));
        // A second build runs a job without a token as well.
        assert_eq!(tokens.settle(&seen(2, 2, 9, 1), 0), TokenChange::Take(1));
    }

    #[test]
    fn a_lost_token_is_made_anew_after_ten_seconds() {
        let mut tokens = TokenAccount::default();
        assert_eq!(tokens.settle(&seen(4, 1, 9, 0), 0), TokenChange::Put(3));
        // Three are out, and there is one job.
        assert_eq!(tokens.settle(&seen(4, 1, 1, 0), S), TokenChange::Keep);
        assert_eq!(tokens.due(), Some(11 * S));
        assert_eq!(tokens.settle(&seen(4, 1, 1, 0), 11 * S - 1), TokenChange::Keep);
        assert_eq!(tokens.settle(&seen(4, 1, 1, 0), 11 * S), TokenChange::Put(2));
        // A job that came meanwhile begins the time anew.
        assert_eq!(tokens.settle(&seen(4, 1, 1, 0), 12 * S), TokenChange::Keep);
        assert_eq!(tokens.settle(&seen(4, 1, 3, 0), 13 * S), TokenChange::Keep);
        assert_eq!((tokens.due(), tokens.settle(&seen(4, 1, 1, 0), 22 * S)), (None, TokenChange::Keep));
        // All of them are lost when nobody is left.
        assert_eq!(tokens.settle(&seen(4, 0, 0, 0), 32 * S), TokenChange::Keep);
        assert_eq!(tokens.issued, 0);
    }

    #[test]
    fn tokens_that_nobody_had_are_taken_out() {
        let mut tokens = TokenAccount::default();
        assert_eq!(tokens.settle(&seen(2, 1, 1, 5), 0), TokenChange::Take(4));
        tokens.taken(4);
        assert_eq!(tokens.issued, 1);
    }

    #[test]
    fn a_client_that_may_wait_asks_for_more() {
        let mut tokens = TokenAccount::default();
        assert_eq!(tokens.jobs(&seen(1, 0, 0, 0), S), 0, "there is no client");
        assert_eq!(tokens.jobs(&seen(1, 1, 1, 0), S), 2);
        assert_eq!(tokens.jobs(&seen(1, 1, 1, 0), S + PROBE), 1, "it was asked a moment ago");
        assert_eq!(tokens.jobs(&seen(1, 1, 1, 0), S + 2 * PROBE), 2);
        tokens.notice();
        assert_eq!(tokens.jobs(&seen(1, 1, 1, 0), S + 3 * PROBE), 2);
        assert_eq!(tokens.settle(&seen(2, 1, 1, 0), S), TokenChange::Put(1));
        assert_eq!(tokens.jobs(&seen(2, 1, 1, 1), S), 2, "one lies there for a moment");
        assert_eq!(tokens.jobs(&seen(2, 1, 1, 1), S + UNUSED), 1, "nobody takes it");
        assert_eq!(tokens.jobs(&seen(2, 1, 2, 0), S + 1), 3, "two jobs, and one that may wait");
    }

    #[test]
    fn a_shell_that_runs_nothing_wants_nothing() {
        let mut tokens = TokenAccount::default();
        let mut asked = 0;
        for tenth in 10..1000 {
            asked += tokens.jobs(&seen(1, 1, 0, 0), tenth * S / 10).min(1);
        }
        assert!(asked < 30, "asked {asked} times in 99 s");
    }
}
