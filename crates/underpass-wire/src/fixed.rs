//! Arithmetic with optional fixed sizes, for [`Encode::FIXED`](crate::Encode::FIXED).

/// The size of parts that follow each other: fixed if all of theirs are.
///
/// # Examples
/// ```
/// use underpass_wire::fixed;
///
/// assert_eq!(fixed::sum(&[Some(4), Some(8)]), Some(12));
/// assert_eq!(fixed::sum(&[Some(4), None]), None);
/// ```
pub const fn sum(parts: &[Option<usize>]) -> Option<usize> {
    let mut all = 0usize;
    let mut i = 0;
    while i < parts.len() {
        match parts[i] {
            Some(n) => all += n,
            None => return None,
        }
        i += 1;
    }
    Some(all)
}

/// The size of `n` equal parts.
pub const fn times(part: Option<usize>, n: usize) -> Option<usize> {
    match part {
        Some(size) => Some(size * n),
        None => None,
    }
}

/// The size of alternatives: fixed if they all have the same.
///
/// # Examples
/// ```
/// use underpass_wire::fixed;
///
/// assert_eq!(fixed::same(&[Some(1), Some(1)]), Some(1));
/// assert_eq!(fixed::same(&[Some(1), Some(5)]), None);
/// ```
pub const fn same(alternatives: &[Option<usize>]) -> Option<usize> {
    let Some(first) = alternatives.first() else {
        return None;
    };
    let Some(size) = *first else {
        return None;
    };
    let mut i = 1;
    while i < alternatives.len() {
        match alternatives[i] {
            Some(n) if n == size => {}
            _ => return None,
        }
        i += 1;
    }
    Some(size)
}
