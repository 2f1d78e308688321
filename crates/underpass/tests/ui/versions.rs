use underpass::{CallError, Wire};

#[underpass::interface]
trait Store {
    #[underpass(since = 2)]
    fn added(&self) -> Result<(), CallError>;
    fn forgotten(&self) -> Result<(), CallError>;
    #[underpass(since = 65)]
    fn late(&self) -> Result<(), CallError>;
}

#[derive(Wire)]
#[underpass(extensible)]
struct Stat {
    size: u64,
    #[underpass(since = 2)]
    owner: u32,
    mode: u32,
}

#[derive(Wire)]
#[underpass(extensible)]
struct Position(u64);

#[derive(Wire)]
struct Fixed {
    #[underpass(since = 2)]
    size: u64,
}

#[derive(Wire)]
enum Kind {
    File,
    #[underpass(since = 2)]
    Socket,
}

/// Has no default.
#[derive(Wire)]
struct Id(u64);

#[derive(Wire)]
#[underpass(extensible)]
struct Named {
    name: String,
    #[underpass(since = 2)]
    id: Id,
    #[underpass(since = 2, default = "one")]
    count: u64,
}

fn main() {}
