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
