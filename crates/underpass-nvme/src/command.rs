//! Commands and completions, as they lie in their queues.

/// Bytes of a command.
pub(crate) const COMMAND: usize = 64;
/// Bytes of a completion.
pub(crate) const COMPLETION: usize = 16;

/// The only namespace that this driver uses.
const NAMESPACE: u32 = 1;

/// A command, without its id.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NvmeCommand {
    opcode: u8,
    namespace: u32,
    /// Where its data lie: two addresses of the device.
    data: [u64; 2],
    /// The words 10 to 15.
    words: [u32; 6],
}

impl NvmeCommand {
    /// Tells about the controller (1) or the namespace (0), in 4096 bytes at `data`.
    pub(crate) fn identify(what: u32, data: u64) -> Self {
        let namespace = if what == 0 { NAMESPACE } else { 0 };
        Self { opcode: 0x06, namespace, data: [data, 0], words: [what, 0, 0, 0, 0, 0] }
    }

    /// Makes a completion queue of `entries` at `data`, which raises interrupts of `vector`.
    pub(crate) fn create_completion_queue(queue: u16, entries: u16, data: u64, vector: u16) -> Self {
        let size = u32::from(queue) | u32::from(entries - 1) << 16;
        // Contiguous, with interrupts.
        Self {
            opcode: 0x05,
            data: [data, 0],
            words: [size, 3 | u32::from(vector) << 16, 0, 0, 0, 0],
            ..Self::default()
        }
    }

    /// Makes a submission queue of `entries` at `data`, which completes into `queue`.
    pub(crate) fn create_submission_queue(queue: u16, entries: u16, data: u64) -> Self {
        let size = u32::from(queue) | u32::from(entries - 1) << 16;
        Self {
            opcode: 0x01,
            data: [data, 0],
            words: [size, 1 | u32::from(queue) << 16, 0, 0, 0, 0],
            ..Self::default()
        }
    }

    /// Reads `blocks` blocks, from `block` on.
    pub(crate) fn read(block: u64, blocks: u16, data: [u64; 2]) -> Self {
        Self::transfer(0x02, block, blocks, data)
    }

    /// Writes `blocks` blocks, from `block` on.
    pub(crate) fn write(block: u64, blocks: u16, data: [u64; 2]) -> Self {
        Self::transfer(0x01, block, blocks, data)
    }

    fn transfer(opcode: u8, block: u64, blocks: u16, data: [u64; 2]) -> Self {
        let words = [block as u32, (block >> 32) as u32, u32::from(blocks - 1), 0, 0, 0];
        Self { opcode, namespace: NAMESPACE, data, words }
    }

    /// Makes all writes that have completed last.
    pub(crate) fn flush() -> Self {
        Self { opcode: 0x00, namespace: NAMESPACE, ..Self::default() }
    }

    /// Its bytes, with its id.
    pub(crate) fn encode(self, id: u16) -> [u8; COMMAND] {
        let mut bytes = [0; COMMAND];
        let mut put = |at: usize, of: &[u8]| bytes[at..at + of.len()].copy_from_slice(of);
        put(0, &[self.opcode, 0]);
        put(2, &id.to_le_bytes());
        put(4, &self.namespace.to_le_bytes());
        put(24, &self.data[0].to_le_bytes());
        put(32, &self.data[1].to_le_bytes());
        for (number, word) in self.words.iter().enumerate() {
            put(40 + 4 * number, &word.to_le_bytes());
        }
        bytes
    }
}

/// What a disk says of a command that has ended. Nothing of it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) id: u16,
    /// The status: type and code.
    pub(crate) status: (u8, u8),
}

impl Completion {
    /// Whether the entry with this last word is new, for a reader in this phase.
    pub(crate) fn is_new(last_word: u32, phase: bool) -> bool {
        (last_word >> 16 & 1 == 1) == phase
    }

    /// Reads the last word of an entry.
    pub(crate) fn decode(last_word: u32) -> Self {
        Self { id: last_word as u16, status: ((last_word >> 25) as u8 & 7, (last_word >> 17) as u8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_laid_out_as_specified() {
        let bytes = NvmeCommand::write(0x1_0000_0002, 8, [3, 4]).encode(0x0506);
        assert_eq!((bytes[0], &bytes[2..4], bytes[4]), (1, &[6, 5][..], 1));
        assert_eq!((bytes[24], bytes[32]), (3, 4));
        assert_eq!((&bytes[40..49]), &[2, 0, 0, 0, 1, 0, 0, 0, 7]);
    }

    #[test]
    fn a_completion_is_read_as_specified() {
        let word = 0x1234 | 1 << 16 | 0x81 << 17 | 2 << 25;
        assert!(Completion::is_new(word, true) && !Completion::is_new(word, false));
        assert_eq!(Completion::decode(word), Completion { id: 0x1234, status: (2, 0x81) });
    }
}
