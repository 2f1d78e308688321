//! Text of other processes, so that a terminal obeys nothing of it and no line of it is forged.

use serde_json::Value;
use std::fmt::Write as _;

/// The text without what a terminal could obey. Its lines stay.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// The name without what a terminal could obey, and on one line.
pub(super) fn printable_name(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The value as one line of JSON that a terminal obeys nothing of.
pub fn json_line(value: &Value) -> String {
    escaped(&value.to_string())
}

/// The JSON text with DEL and the controls of C1 as escapes too. JSON escapes all others where they
/// are part of a string.
pub fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter.is_control() && letter != '\n' {
            true => {
                let _ = write!(text, "\\u{:04x}", u32::from(letter));
            }
            false => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_terminal_obeys_no_text() {
        assert_eq!(printable("a\x1b[2J\u{9b}2J\x7f\nb"), "a\u{fffd}[2J\u{fffd}2J\u{fffd}\nb");
        assert_eq!(printable_name("a\r\nb\tc"), "a\u{fffd}\u{fffd}b\u{fffd}c");
    }

    #[test]
    fn json_is_the_same_value_without_controls() {
        let value = json!({ "na\u{9b}me": "a\x1b[2J\n\x7f\u{85}ß" });
        let pretty = escaped(&serde_json::to_string_pretty(&value).unwrap());
        for text in [json_line(&value), pretty.replace('\n', "")] {
            assert!(!text.chars().any(char::is_control), "{text:?}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }
}
