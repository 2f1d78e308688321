use std::borrow::Cow;
use std::collections::HashMap;
use std::thread::ThreadId;
use underpass::CallError;

#[derive(Clone)]
struct Key(u64);
struct Value(String);
enum StoreError {
    Call(CallError),
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

#[underpass::interface]
trait Put {
    fn put(&self, before: u8, key: Key) -> Result<(), CallError>;
    fn put_again(&self, key: &Key) -> Result<(), CallError>;
}

#[underpass::interface]
trait Get {
    fn get(&self, key: u64) -> Result<Option<Value>, CallError>;
}

#[underpass::interface(asynchronous)]
trait All {
    fn put_all(&self, keys: &[Key]) -> Result<(), CallError>;
    fn put_both(&self, keys: (Cow<'static, [Key]>, u8)) -> Result<(), CallError>;
    fn get_all(&self) -> Result<HashMap<u8, Vec<Value>>, CallError>;
}

#[underpass::interface]
trait Failing {
    fn fail(&self) -> Result<(), StoreError>;
    fn fail_again(&self) -> Result<u8, StoreError>;
}

#[underpass::interface]
trait Foreign {
    fn thread(&self) -> Result<ThreadId, CallError>;
}

#[derive(underpass::Wire)]
struct Entry<T> {
    key: T,
    value: Value,
    older: Vec<Value>,
    oldest: Value,
}

fn main() {}
