use underpass::CallError;

#[underpass::interface]
trait Store {
    fn put<T: Send>(&self, value: T) -> Result<(), CallError>;
}

fn main() {}
