#[derive(underpass::Wire)]
union Either {
    number: u32,
    bytes: [u8; 4],
}

#[derive(underpass::Wire)]
struct Lent<'a> {
    text: &'a str,
}

#[derive(underpass::Wire)]
enum Callback {
    Function(fn(u8)),
    Pointer { at: *const u8 },
}

fn main() {}
