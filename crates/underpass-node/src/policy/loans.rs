//! Which domain has lent a processor to which.

use std::collections::BTreeSet;

/// The loans of all domains. There are no more of them than processors.
#[derive(Debug, Default)]
pub(super) struct Loans {
    /// Lender, serial number, borrower.
    by_lender: BTreeSet<(u32, u64, u32)>,
    /// Borrower, serial number, lender.
    by_borrower: BTreeSet<(u32, u64, u32)>,
    serial: u64,
}

impl Loans {
    pub(super) fn begin(&mut self, lender: u32, borrower: u32) {
        self.serial += 1;
        self.by_lender.insert((lender, self.serial, borrower));
        self.by_borrower.insert((borrower, self.serial, lender));
    }

    /// The borrowers of this lender, the oldest loan first.
    pub(super) fn borrowers(&self, lender: u32) -> impl Iterator<Item = u32> {
        self.by_lender.range((lender, 0, 0)..=(lender, u64::MAX, u32::MAX)).map(|&(_, _, borrower)| borrower)
    }

    /// The lender of the oldest loan of this borrower.
    pub(super) fn lender(&self, borrower: u32) -> Option<u32> {
        let mut of_borrower = self.by_borrower.range((borrower, 0, 0)..=(borrower, u64::MAX, u32::MAX));
        of_borrower.next().map(|&(_, _, lender)| lender)
    }

    /// Ends the oldest loan from this lender to this borrower, if there is one.
    pub(super) fn end(&mut self, lender: u32, borrower: u32) -> bool {
        let mut of_lender = self.by_lender.range((lender, 0, 0)..=(lender, u64::MAX, u32::MAX));
        let Some(&(_, serial, _)) = of_lender.find(|&&(_, _, to)| to == borrower) else { return false };
        self.by_lender.remove(&(lender, serial, borrower));
        self.by_borrower.remove(&(borrower, serial, lender));
        true
    }
}
