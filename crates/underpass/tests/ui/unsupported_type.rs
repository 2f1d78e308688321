use std::borrow::Cow;
use std::io::Read;
use underpass::CallError;

#[underpass::interface]
trait Store {
    fn change(&self, value: &mut u8) -> Result<(), CallError>;
    fn any(&self, value: impl Send) -> Result<(), CallError>;
    fn dynamic(&self, value: Box<dyn Read>) -> Result<(), CallError>;
    fn pointer(&self, value: *const u8) -> Result<(), CallError>;
    fn function(&self, value: fn(u8) -> u8) -> Result<(), CallError>;
    fn inside(&self, value: Option<&str>) -> Result<(), CallError>;
    fn lifetime(&self, value: Cow<'_, str>) -> Result<(), CallError>;
    fn pattern(&self, (a, b): (u8, u8)) -> Result<(), CallError>;
    fn lent(&self) -> Result<&str, CallError>;
}

fn main() {}
