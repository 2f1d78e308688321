//! Which names an export can have.

/// Bytes of the longest name.
const MOST: usize = 64;

/// Checks a name. The error says what is wrong with it.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let wrong = if name.is_empty() {
        "is empty"
    } else if name.len() > MOST {
        "is longer than 64 bytes"
    } else if name.contains('/') {
        "has a `/`"
    } else if name.contains('\0') {
        "has a NUL"
    } else if name == "." || name == ".." {
        "is a directory"
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(MOST).collect();
    Err(format!("the name {shown:?} {wrong}; use 1 to 64 bytes without `/`, like \"fs.cache\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_file_names_of_64_bytes() {
        for good in ["fs.cache", "a", &"x".repeat(64), "Ä b"] {
            assert_eq!(check(good), Ok(()));
        }
        for (bad, why) in
            [("", "empty"), ("a/b", "`/`"), ("a\0", "NUL"), ("..", "directory"), (&"x".repeat(65), "longer")]
        {
            assert!(check(bad).unwrap_err().contains(why), "{bad:?}");
        }
    }
}
