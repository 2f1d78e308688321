/// Files, in blocks.
#[interface(asynchronous, stateless)]
pub trait FileCache {
    /// Reads up to `len` bytes at `offset`.
    fn read(&self, path: &str, offset: u64, len: u32) -> Result<Vec<u8>, FsError>;
    fn flush(&self) -> io::Result<()>;
}
