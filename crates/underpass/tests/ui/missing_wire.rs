use underpass::CallError;

struct Key(u64);
struct Value(String);

#[underpass::interface]
trait Put {
    fn put(&self, before: u8, key: Key) -> Result<(), CallError>;
}

#[underpass::interface]
trait Get {
    fn get(&self, key: u64) -> Result<Option<Value>, CallError>;
}

#[derive(underpass::Wire)]
struct Entry {
    key: u64,
    value: Value,
}

fn main() {}
