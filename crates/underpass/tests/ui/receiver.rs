use std::sync::Arc;
use underpass::CallError;

#[underpass::interface]
trait Store {
    fn exclusive(&mut self) -> Result<(), CallError>;
    fn consuming(self) -> Result<(), CallError>;
    fn shared(self: Arc<Self>) -> Result<(), CallError>;
    fn none(value: u8) -> Result<(), CallError>;
}

fn main() {}
