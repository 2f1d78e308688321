/// Files, in blocks.
///
/// Blocks stay in memory.
#[interface]
pub trait FileCache {
    /// Reads up to `len` bytes at `offset`.
    #[idempotent]
    fn read(&self, file: FileId, offset: u64, len: u32) -> Result<Vec<u8>, FsError>;
    #[must_use]
    fn flush(&self) -> Result<(), FsError>;
}
