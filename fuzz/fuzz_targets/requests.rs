//! A request area's requester and home, and whatever either could write into it. As long as nobody
//! has lied, each request is executed once, with its arguments, and gets its results.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;
use underpass_homed::fuzz::{FuzzRequest, FuzzRequests};

#[derive(Debug, Arbitrary)]
enum Step {
    /// A thread of the requester posts a request, and offers it.
    Post,
    /// It looks whether that is completed. If so, it gives it back.
    Look { which: u8 },
    /// It offers the request again, if another offer has overwritten it.
    OfferAgain { which: u8 },
    /// Its deadline passes.
    Abandon { which: u8 },
    /// The home is interrupted.
    Interrupt { panics: bool },
    /// Either side writes a word.
    Word { which: u16, value: u64 },
    /// The requester offers something.
    Offer { value: u8 },
}

struct Area {
    area: FuzzRequests,
    posted: Vec<(u64, FuzzRequest)>,
    executed: HashSet<u64>,
    panicked: HashSet<u64>,
    next: u64,
    honest: bool,
}

impl Area {
    /// One of those that were posted.
    fn take(&mut self, which: u8) -> Option<(u64, FuzzRequest)> {
        let count = self.posted.len();
        (count > 0).then(|| self.posted.swap_remove(usize::from(which) % count))
    }

    fn does(&mut self, step: &Step) {
        match *step {
            Step::Post => {
                self.next += 1;
                if let Some(request) = self.area.post(self.next, [self.next; 6]) {
                    self.posted.push((self.next, request));
                }
            }
            Step::Look { which } => {
                let Some((operation, request)) = self.take(which) else { return };
                match self.area.completion(&request) {
                    None => self.posted.push((operation, request)),
                    Some(results) => {
                        if self.honest {
                            assert!(self.executed.contains(&operation));
                            let panicked = self.panicked.contains(&operation);
                            assert_eq!(results, (!panicked).then_some([operation + 1; 6]));
                        }
                        self.area.give_back(request);
                    }
                }
            }
            Step::OfferAgain { which } => {
                let Some((operation, request)) = self.take(which) else { return };
                self.area.offer_again(&request);
                self.posted.push((operation, request));
            }
            Step::Abandon { which } => {
                if let Some((_, request)) = self.take(which) {
                    self.area.abandon(request);
                }
            }
            Step::Interrupt { panics } => {
                let Self { area, executed, panicked, honest, .. } = self;
                area.interrupt(|operation, arguments| {
                    if *honest {
                        assert_eq!(arguments, [operation; 6]);
                        assert!(executed.insert(operation), "{operation} is executed twice");
                        if panics {
                            panicked.insert(operation);
                        }
                    }
                    (!panics).then(|| [operation.wrapping_add(1); 6])
                });
            }
            Step::Word { which, value } => {
                self.honest = false;
                self.area.lie(which, value);
            }
            Step::Offer { value } => {
                self.honest = false;
                self.area.lie(0, value.into());
            }
        }
    }

    /// Without lies, every request that somebody waits for is executed in the end.
    fn settle(&mut self) {
        while let Some((operation, request)) = self.posted.pop() {
            if self.area.completion(&request).is_some() {
                continue;
            }
            self.area.offer_again(&request);
            let mut executed = None;
            assert!(self.area.interrupt(|operation, _| {
                executed = Some(operation);
                Some([0; 6])
            }));
            assert_eq!(executed, Some(operation), "it is the one that was offered last");
            assert!(self.executed.insert(operation), "{operation} is executed twice");
            assert_eq!(self.area.completion(&request), Some(Some([0; 6])));
        }
    }
}

fuzz_target!(|steps: Vec<Step>| {
    let mut area = Area {
        area: FuzzRequests::new(),
        posted: Vec::new(),
        executed: HashSet::new(),
        panicked: HashSet::new(),
        next: 0,
        honest: true,
    };
    steps.iter().for_each(|step| area.does(step));
    if area.honest {
        area.settle();
    }
});
