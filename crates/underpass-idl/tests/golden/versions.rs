#[interface]
trait Archive {
    fn stat(&self, path: &str) -> Result<Stat, FsError>;
    #[underpass(since = 2)]
    fn remove(&self, path: &str) -> Result<(), FsError>;
    #[underpass(since = 3, calls = 1)]
    fn compact(&self) -> Result<(), FsError>;
}

#[derive(Wire)]
#[underpass(extensible)]
struct Stat {
    size: u64,
    id: FileId,
    #[underpass(since = 2)]
    owner: Option<u32>,
    #[underpass(since = 3, default = 0o644)]
    mode: u32,
}

#[derive(Wire)]
#[underpass(extensible)]
struct Nothing<T> {
    first: T,
}
