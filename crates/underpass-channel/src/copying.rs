//! Copying bytes into memory that a peer may be writing, and out of it.

use std::arch::asm;

/// Copies bytes where one side is shared with a peer that may be writing it.
///
/// The compiler can't see into it, so it neither assumes that the bytes stay as they are nor reads them twice. Where two moves overlap, what the second has read stands.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they don't overlap.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    match len {
        // SAFETY: the caller's promise.
        MUCH.. => unsafe { copy_much(from, to, len) },
        // SAFETY: likewise; they are at least sixteen.
        16.. => unsafe { copy_some(from, to, len) },
        // SAFETY: likewise; they are fewer.
        _ => unsafe { copy_little(from, to, len) },
    }
}

/// From so many bytes on the processor's own way to copy is as fast as any, once it has begun: that takes as long as a hundred bytes by `copy_some`, or more (decision 0037).
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

/// By sixteen bytes, the last of which may overlap those before.
///
/// # Safety
/// As [`copy`]; and they are at least sixteen.
#[inline(always)]
unsafe fn copy_some(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise: each move but the last begins before the last sixteen bytes.
    unsafe {
        asm!(
            "xor {at:e}, {at:e}",
            "cmp {at}, {last}",
            "jae 3f",
            "2:",
            "movups {some}, xmmword ptr [{from} + {at}]",
            "movups xmmword ptr [{to} + {at}], {some}",
            "add {at}, 16",
            "cmp {at}, {last}",
            "jb 2b",
            "3:",
            "movups {some}, xmmword ptr [{from} + {last}]",
            "movups xmmword ptr [{to} + {last}], {some}",
            from = in(reg) from,
            to = in(reg) to,
            last = in(reg) len - 16,
            at = out(reg) _,
            some = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// By eight, four, two and one.
///
/// # Safety
/// As [`copy`]; and they are fewer than sixteen.
#[inline(always)]
unsafe fn copy_little(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise: each move takes as many bytes as the length has in that bit, behind those of the moves before.
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
