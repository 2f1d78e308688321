//! An object of tests. Its operations run in each way.

/// Rows, and how often they were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, underpass::Shareable)]
#[repr(C)]
pub struct Tableau {
    /// The rows.
    pub rows: [u64; 64],
    /// Changes at process level.
    pub calls: u64,
    /// Changes at interrupt level.
    pub interrupts: u64,
}

impl Tableau {
    /// One without rows.
    pub const EMPTY: Self = Self { rows: [0; 64], calls: 0, interrupts: 0 };
}

#[underpass::object]
impl Tableau {
    /// One row.
    #[access]
    pub fn row(&self, row: u32) -> Option<u64> {
        self.rows.get(row as usize).copied()
    }

    /// The process in which it runs.
    #[access]
    pub fn accessed_by(&self) -> u32 {
        std::process::id()
    }

    /// The sum of the rows, and how many changes have made it.
    #[either]
    pub fn sum(&self) -> (u64, u64) {
        (self.rows.iter().sum(), self.calls + self.interrupts)
    }

    /// The rows that have this number of digits, each behind `prefix`.
    #[either]
    pub fn listed(&self, prefix: &str, digits: Vec<u32>) -> Vec<String> {
        let texts = self.rows.iter().map(|row| row.to_string());
        texts
            .filter(|text| digits.contains(&(text.len() as u32)))
            .map(|text| format!("{prefix}{text}"))
            .collect()
    }

    /// The process in which it runs.
    #[either]
    pub fn runs_in(&self) -> u32 {
        std::process::id()
    }

    /// The process in which it runs: the home's.
    #[either(fixed = invoke)]
    pub fn fixed_to_home(&self) -> u32 {
        std::process::id()
    }

    /// The process in which it runs: the caller's.
    #[either(fixed = access)]
    pub fn fixed_to_caller(&self) -> u32 {
        std::process::id()
    }

    /// The process in which it runs: the home's.
    #[invoke]
    pub fn invoked_in(&self) -> u32 {
        std::process::id()
    }

    /// Adds to a row, and returns it.
    ///
    /// # Errors
    /// There is no such row.
    #[invoke]
    pub fn add(&mut self, row: u32, more: u64) -> Result<u64, String> {
        let found = self.rows.get_mut(row as usize).ok_or_else(|| format!("there is no row {row}"))?;
        *found += more;
        self.calls += 1;
        Ok(*found)
    }

    /// Makes it a board with five in all, by one change.
    #[invoke]
    pub fn restart(&mut self) {
        *self = Self::EMPTY;
        (self.rows[0], self.calls) = (5, 1);
    }

    /// Changes something, and panics.
    #[invoke]
    pub fn fail(&mut self) {
        self.rows[0] = u64::MAX;
        std::panic::resume_unwind(Box::new("on purpose"));
    }

    /// Adds to a row, and returns it.
    #[invoke(interrupt)]
    pub fn interrupt(&mut self, row: u8, more: u64) -> u64 {
        let found = &mut self.rows[usize::from(row) % 64];
        *found += more;
        self.interrupts += 1;
        *found
    }

    /// The process in which it runs: the home's.
    #[invoke(interrupt)]
    pub fn interrupted_in(&self) -> u32 {
        std::process::id()
    }

    /// Counts a change.
    #[invoke(interrupt)]
    pub fn touch(&mut self) {
        self.interrupts += 1;
    }
}
