#[interface]
trait Archive {
    fn stat(&self, path: &str) -> Result<Stat, FsError>;
    #[underpass(since = 2)]
    fn remove(&self, path: &str) -> Result<(), FsError>;
    #[underpass(since = 3, calls = 1)]
    fn compact(&self) -> Result<(), FsError>;
}
