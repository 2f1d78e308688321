use underpass::CallError;

type OddResult<T> = Option<T>;

#[underpass::interface]
trait Store {
    fn nothing(&self);
    fn number(&self) -> u32;
    fn fine(&self) -> Result<u32, CallError>;
}

#[underpass::interface]
trait Hidden {
    fn odd(&self) -> OddResult<u8>;
}

fn main() {}
