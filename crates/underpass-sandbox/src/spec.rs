//! The description of a sandbox, as it is sent to the process in it.

use crate::Measure;
use underpass_wire::{from_bytes, to_bytes};

/// The limits, and the required measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// Bytes of memory that it may use beyond those in use when it begins to serve.
    pub(crate) memory: u64,
    /// Bytes of the largest argument or result that travels out of band.
    pub(crate) largest: u64,
    pub(crate) files: u64,
    pub(crate) tasks: u64,
    /// In seconds.
    pub(crate) processor_time: Option<u64>,
    /// Whether a forbidden call fails instead of ending the domain.
    pub(crate) lenient: bool,
    pub(crate) required: Vec<Measure>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            largest: 64 << 20,
            files: 256,
            tasks: 256,
            processor_time: None,
            lenient: false,
            required: Vec::new(),
        }
    }
}

impl Spec {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let required: Vec<u8> = self.required.iter().map(|&measure| measure as u8).collect();
        let limits = (self.memory, self.largest, self.files, self.tasks, self.processor_time);
        to_bytes(&(limits, self.lenient, required))
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        type Limits = (u64, u64, u64, u64, Option<u64>);
        let (limits, lenient, required): (Limits, bool, Vec<u8>) = from_bytes(bytes).ok()?;
        let (memory, largest, files, tasks, processor_time) = limits;
        let required = required.into_iter().map(Measure::from_number).collect::<Option<_>>()?;
        Some(Self { memory, largest, files, tasks, processor_time, lenient, required })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_survives_the_way() {
        let spec = Spec {
            processor_time: Some(7),
            lenient: true,
            required: vec![Measure::Files, Measure::Namespaces],
            ..Spec::default()
        };
        assert_eq!(Spec::from_bytes(&spec.to_bytes()), Some(spec));
        assert_eq!(Spec::from_bytes(b"nonsense"), None);
    }
}
