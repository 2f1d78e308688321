//! Copying bytes into memory that a peer may be writing, and out of it.

use std::arch::asm;

/// Copies bytes where one side is shared with a peer that may be writing it.
///
/// The compiler can't see into it, so it neither assumes that the bytes stay as they are nor reads
/// them twice.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they don't overlap.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    match len {
        // SAFETY: the caller's promise.
        MUCH.. => unsafe { copy_much(from, to, len) },
        // SAFETY: likewise.
        16.. => unsafe { copy_some(from, to, len) },
        // SAFETY: likewise; they are fewer.
        _ => unsafe { copy_little(from, to, len) },
    }
}

/// From so many bytes on the processor's own way to copy is as fast as any, once it has begun: that
/// takes as long as a hundred bytes by `copy_some`, or more (decision 0037).
const MUCH: usize = 4096;

/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn copy_much(from: *const u8, to: *mut u8, len: usize) {
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

/// By sixty-four bytes, thirty-two and sixteen, then as `copy_little`. No move overlaps another:
/// who reads what was written by two moves in one piece waits until all that was written before is
/// out (decision 0021).
///
/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn copy_some(mut from: *const u8, mut to: *mut u8, len: usize) {
    // SAFETY: the caller's promise: first as often sixty-four bytes as the length has them, then
    // each move takes as many as it has in that bit.
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
    // SAFETY: likewise: the moves above have left so many.
    unsafe { copy_little(from, to, len & 15) }
}

/// By eight, four, two and one.
///
/// # Safety
/// As [`copy`]; and they are fewer than sixteen.
#[inline(always)]
unsafe fn copy_little(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise: each move takes as many bytes as the length has in that bit,
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
        let from: Vec<u8> = (0..2 * MUCH).map(|n| n as u8 ^ (n >> 8) as u8 | 1).collect();
        let lengths = (0..300).chain([MUCH - 1, MUCH, MUCH + 1]);
        for len in lengths {
            for (begin, end) in [(0, 0), (1, 0), (0, 1), (3, 14), (15, 15)] {
                let mut to = vec![0; len + 32];
                // SAFETY: both have as many bytes.
                unsafe { copy(from[begin..].as_ptr(), to[end..].as_mut_ptr(), len) };
                assert_eq!(to[end..end + len], from[begin..begin + len], "{len}");
                assert!(to[..end].iter().chain(&to[end + len..]).all(|&byte| byte == 0), "{len}: no more");
            }
        }
    }
}
