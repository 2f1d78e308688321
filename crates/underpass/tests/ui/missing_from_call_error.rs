#[derive(underpass::Wire)]
enum StoreError {
    Full,
}

type StoreResult<T> = Result<T, StoreError>;

#[underpass::interface]
trait Store {
    fn put(&self, value: u8) -> Result<(), StoreError>;
}

#[underpass::interface]
trait Aliased {
    fn put(&self, value: u8) -> StoreResult<()>;
}

fn main() {}
