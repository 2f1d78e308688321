//! Bytes as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The most bytes of a file that are taken for an argument.
const MOST: u64 = 1 << 30;

/// Bytes as text if they are text that one can read, else in base 64.
pub(super) fn to_json(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')) => {
            json!({ "text": text })
        }
        _ => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// The bytes that `value` stands for: a string, `{"text": ..}`, `{"base64": ..}`, `{"file": PATH}`,
/// or numbers.
pub(super) fn of_json(value: &Value) -> Result<Vec<u8>, String> {
    let other = || {
        "expected text, {\"text\": ..}, {\"base64\": ..}, {\"file\": PATH}, or an array of numbers up to 255"
            .to_owned()
    };
    match value {
        Value::String(text) => Ok(text.clone().into_bytes()),
        Value::Array(bytes) => {
            let byte = |byte: &Value| byte.as_u64().and_then(|byte| u8::try_from(byte).ok());
            bytes.iter().map(byte).collect::<Option<_>>().ok_or_else(other)
        }
        Value::Object(object) if object.len() == 1 => {
            let (form, content) = object.iter().next().ok_or_else(other)?;
            let content = content.as_str().ok_or_else(other)?;
            match form.as_str() {
                "text" => Ok(content.as_bytes().to_vec()),
                "base64" => STANDARD.decode(content).map_err(|e| format!("this is no base 64: {e}")),
                "file" => read(content),
                _ => Err(other()),
            }
        }
        _ => Err(other()),
    }
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    let unreadable = |e| format!("{path} can't be read: {e}");
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > MOST {
        return Err(format!(
            "{path} has more than {MOST} bytes; pass it as an open file if the method takes one"
        ));
    }
    std::fs::read(path).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        for bytes in [&b"two\nlines"[..], b"", b"\0\x01", b"\xff\xfe"] {
            assert_eq!(of_json(&to_json(bytes)).unwrap(), bytes);
        }
        assert_eq!(to_json(b"plain"), json!({ "text": "plain" }));
        assert_eq!(of_json(&json!("plain")).unwrap(), b"plain");
        assert_eq!(of_json(&json!([1, 255])).unwrap(), [1, 255]);
        for wrong in [json!(1), json!([256]), json!({ "base64": "?" }), json!({ "hex": "00" }), json!(null)] {
            assert!(of_json(&wrong).is_err(), "{wrong}");
        }
    }
}
