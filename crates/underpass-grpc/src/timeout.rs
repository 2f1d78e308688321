//! The `grpc-timeout` header.

use http::HeaderMap;
use std::time::Duration;

/// How long the call may take, as its headers say. `None` if they say nothing that can be read.
pub(crate) fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    // The specification allows eight digits, and no sign.
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn read(text: &'static str) -> Option<Duration> {
        grpc_timeout(&HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-timeout"),
            HeaderValue::from_static(text),
        )]))
    }

    #[test]
    fn each_unit_is_read() {
        let read_all = ["2H", "3M", "4S", "5m", "6u", "99999999n"].map(|text| read(text).unwrap());
        let seconds = [7200, 180, 4].map(Duration::from_secs);
        assert_eq!(read_all[..3], seconds);
        assert_eq!(read_all[3..5], [Duration::from_millis(5), Duration::from_micros(6)]);
        assert_eq!(read_all[5], Duration::from_nanos(99_999_999));
    }

    #[test]
    fn what_is_no_timeout_is_none() {
        for text in ["", "S", "5", "5s", "+5S", "-1S", "123456789S", "5 S"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(grpc_timeout(&HeaderMap::new()), None);
    }
}
