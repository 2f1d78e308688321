#[derive(Clone, Copy, underpass::Shareable)]
#[repr(C)]
struct Book {
    rows: [u64; 8],
}

#[underpass::object]
impl Book {
    fn unmarked(&self) {}

    #[access]
    fn changes(&mut self) {}

    #[access]
    #[either]
    fn twice(&self) {}

    #[invoke(interrupt)]
    fn text(&self, _text: &str) {}

    #[invoke(urgent)]
    fn unknown(&self) {}

    #[access]
    fn access(&self) {}

    const ROWS: usize = 8;
}

fn main() {}
