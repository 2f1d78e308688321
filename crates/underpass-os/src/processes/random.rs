//! Random numbers of the kernel.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// A number that nobody can guess.
///
/// # Errors
/// The errors of `getrandom`.
pub fn number() -> io::Result<u128> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(u128::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_numbers_differ() {
        assert_ne!(super::number().unwrap(), super::number().unwrap());
    }
}
