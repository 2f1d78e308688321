use underpass::CallError;

#[underpass::interface]
trait Generic<T> {
    fn get(&self) -> Result<(), CallError>;
}

#[underpass::interface]
trait Above: Clone + Send {
    fn get(&self) -> Result<(), CallError>;
}

#[underpass::interface]
trait More {
    type Key;
    const SIZE: usize;
}

#[underpass::interface]
struct Store;

#[underpass::interface(crates = underpass)]
trait Misspelt {}

fn main() {}
