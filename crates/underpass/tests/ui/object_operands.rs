#[derive(Clone, Copy, underpass::Shareable)]
#[repr(C)]
struct Book {
    rows: [u64; 8],
}

#[underpass::object]
impl Book {
    #[invoke(interrupt)]
    fn large(&mut self, rows: [u64; 7]) {
        self.rows[0] = rows[0];
    }
}

fn main() {}
