//! Copies into memory that a peer may be writing, and out of it.

use std::arch::asm;

/// Copies bytes between private memory and memory that a peer may be writing.
///
/// The compiler can't see into the assembly. So it neither assumes that the bytes stay as they are,
/// nor reads them twice.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they don't overlap.
#[inline]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    match len {
        // SAFETY: the caller's promise.
        LARGE.. => unsafe { copy_large(from, to, len) },
        // SAFETY: as above.
        16.. => unsafe { copy_medium(from, to, len) },
        // SAFETY: as above, and there are fewer than sixteen.
        _ => unsafe { copy_small(from, to, len) },
    }
}

/// From this length on, `rep movsb` is as fast as any other way once it has begun. To begin takes
/// at least as long as a hundred bytes by `copy_medium` (decision 0037).
const LARGE: usize = 4096;

/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn copy_large(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; the direction flag is clear at every `asm!`.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Moves 64 bytes at a time, then 32 and 16, and the rest by `copy_small`. No move overlaps
/// another: a load of bytes that two stores wrote has to wait until all earlier stores are in
/// memory (decision 0021).
///
/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn copy_medium(mut from: *const u8, mut to: *mut u8, len: usize) {
    // SAFETY: the caller's promise. The loop moves 64 bytes as often as `len` contains 64; then
    // each move takes as many bytes as its bit of `len` stands for.
    unsafe {
        asm!(
            "mov {left}, {len}",
            "shr {left}, 6",
            "jz 3f",
            "2:",
            "movups {a}, xmmword ptr [{from}]",
            "movups {b}, xmmword ptr [{from} + 16]",
            "movups {c}, xmmword ptr [{from} + 32]",
            "movups {d}, xmmword ptr [{from} + 48]",
            "movups xmmword ptr [{to}], {a}",
            "movups xmmword ptr [{to} + 16], {b}",
            "movups xmmword ptr [{to} + 32], {c}",
            "movups xmmword ptr [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "dec {left}",
            "jnz 2b",
            "3:",
            "test {len}, 32",
            "jz 4f",
            "movups {a}, xmmword ptr [{from}]",
            "movups {b}, xmmword ptr [{from} + 16]",
            "movups xmmword ptr [{to}], {a}",
            "movups xmmword ptr [{to} + 16], {b}",
            "add {from}, 32",
            "add {to}, 32",
            "4:",
            "test {len}, 16",
            "jz 5f",
            "movups {a}, xmmword ptr [{from}]",
            "movups xmmword ptr [{to}], {a}",
            "add {from}, 16",
            "add {to}, 16",
            "5:",
            from = inout(reg) from,
            to = inout(reg) to,
            len = in(reg) len,
            left = out(reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
    // SAFETY: the caller's promise; the moves above have left this many bytes.
    unsafe { copy_small(from, to, len & 15) }
}

/// Moves eight bytes, four, two and one.
///
/// # Safety
/// As [`copy`], and `len` is below sixteen.
#[inline(always)]
unsafe fn copy_small(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise. Each move takes as many bytes as its bit of `len` stands for,
    // behind those of the moves before.
    unsafe {
        asm!(
            "test {len}, 8",
            "jz 2f",
            "mov {some}, qword ptr [{from}]",
            "mov qword ptr [{to}], {some}",
            "add {from}, 8",
            "add {to}, 8",
            "2:",
            "test {len}, 4",
            "jz 3f",
            "mov {some:e}, dword ptr [{from}]",
            "mov dword ptr [{to}], {some:e}",
            "add {from}, 4",
            "add {to}, 4",
            "3:",
            "test {len}, 2",
            "jz 4f",
            "mov {some:x}, word ptr [{from}]",
            "mov word ptr [{to}], {some:x}",
            "add {from}, 2",
            "add {to}, 2",
            "4:",
            "test {len}, 1",
            "jz 5f",
            "mov {some:l}, byte ptr [{from}]",
            "mov byte ptr [{to}], {some:l}",
            "5:",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            len = in(reg) len,
            some = out(reg) _,
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_bytes_is_copied_from_anywhere_to_anywhere() {
        let from: Vec<u8> = (0..2 * LARGE).map(|n| n as u8 ^ (n >> 8) as u8 | 1).collect();
        let lengths = (0..300).chain([LARGE - 1, LARGE, LARGE + 1]);
        for len in lengths {
            for (begin, end) in [(0, 0), (1, 0), (0, 1), (3, 14), (15, 15)] {
                let mut to = vec![0; len + 32];
                // SAFETY: both have at least `len` bytes.
                unsafe { copy(from[begin..].as_ptr(), to[end..].as_mut_ptr(), len) };
                assert_eq!(to[end..end + len], from[begin..begin + len], "{len}");
                assert!(
                    to[..end].iter().chain(&to[end + len..]).all(|&byte| byte == 0),
                    "{len}: nothing beyond was written"
                );
            }
        }
    }
}
