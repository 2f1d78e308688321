//! What goes beside the messages, in the metadata of requests and responses.

use bytes::Bytes;
use std::fmt::Write as _;
use tonic::Status;
use tonic::metadata::MetadataMap;
use underpass::TraceContext;
use underpass::remote::RemoteMessage;

/// The hashes of the versions that the client knows of the interface, the newest first, in
/// hexadecimal with commas in between.
pub(super) const VERSIONS: &str = "underpass-versions";

/// The server instance from which the client has imported, in hexadecimal. None if the interface is
/// stateless.
pub(super) const INSTANCE: &str = "underpass-instance";

/// How many bytes each sealed value has, with commas in between. Copies of them follow the bytes of
/// the message. None if there are no such values.
const SEALED: &str = "underpass-sealed";

/// The most versions of an interface, and sealed values of a message.
const MOST: usize = 64;

/// Writes numbers into metadata.
fn put(metadata: &mut MetadataMap, key: &'static str, numbers: impl IntoIterator<Item = String>) {
    let text = numbers.into_iter().collect::<Vec<_>>().join(",");
    // Digits and commas are always good.
    if !text.is_empty()
        && let Ok(text) = text.parse()
    {
        metadata.insert(key, text);
    }
}

/// Reads numbers from metadata. None at all is an empty list.
fn get<T>(
    metadata: &MetadataMap,
    key: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Status> {
    let bad = || Status::invalid_argument(format!("the metadata `{key}` can't be read"));
    let Some(text) = metadata.get(key) else { return Ok(Vec::new()) };
    let text = text.to_str().map_err(|_| bad())?;
    let numbers = text.split(',').take(MOST + 1).map(read).collect::<Option<Vec<T>>>().ok_or_else(bad)?;
    if numbers.len() > MOST { Err(bad()) } else { Ok(numbers) }
}

pub(super) fn put_versions(metadata: &mut MetadataMap, hashes: &[u64]) {
    put(metadata, VERSIONS, hashes.iter().map(|hash| format!("{hash:016x}")));
}

/// # Errors
/// The metadata can't be read.
pub(super) fn versions(metadata: &MetadataMap) -> Result<Vec<u64>, Status> {
    get(metadata, VERSIONS, |text| u64::from_str_radix(text, 16).ok())
}

pub(super) fn put_instance(metadata: &mut MetadataMap, instance: Option<u128>) {
    put(metadata, INSTANCE, instance.map(|instance| format!("{instance:032x}")));
}

/// # Errors
/// The metadata can't be read.
pub(super) fn instance(metadata: &MetadataMap) -> Result<Option<u128>, Status> {
    Ok(get(metadata, INSTANCE, |text| u128::from_str_radix(text, 16).ok())?.pop())
}

/// The bytes of a message. What else is to know of them goes into `metadata`.
pub(super) fn put_message(metadata: &mut MetadataMap, message: RemoteMessage) -> Bytes {
    let RemoteMessage { mut bytes, sealed, .. } = message;
    put(metadata, SEALED, sealed.iter().map(|part| part.len().to_string()));
    sealed.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes.into()
}

/// The message that came as these bytes. If nobody else has them, their memory becomes the
/// message's.
///
/// # Errors
/// They are none.
pub(super) fn message(metadata: &MetadataMap, mut bytes: Bytes) -> Result<RemoteMessage, Status> {
    let lengths = get(metadata, SEALED, |text| text.parse::<usize>().ok())?;
    let all = lengths.iter().try_fold(0usize, |sum, length| sum.checked_add(*length));
    let own = all.and_then(|all| bytes.len().checked_sub(all));
    let bad = || Status::invalid_argument("the message has fewer bytes than its sealed values");
    let mut rest = bytes.split_off(own.ok_or_else(bad)?);
    let sealed = lengths.into_iter().map(|length| rest.split_to(length).into()).collect();
    Ok(RemoteMessage { bytes: bytes.into(), sealed, streams: Vec::new() })
}

/// The trace context of a call, as W3C Trace Context has it in headers.
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

pub(super) fn put_context(metadata: &mut MetadataMap, context: Option<&TraceContext>) {
    let Some(context) = context else { return };
    // Both are printable ASCII.
    if let Ok(parent) = context.to_string().parse() {
        metadata.insert(PARENT, parent);
    }
    if !context.state().is_empty()
        && let Ok(state) = context.state().parse()
    {
        metadata.insert(STATE, state);
    }
}

/// The trace context that came. The standard says that one that can't be read is none, and that
/// several of them are none.
pub(super) fn context(headers: &http::HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(PARENT).iter();
    let parent = parents.next().filter(|_| parents.next().is_none())?.to_str().ok()?;
    let states: Option<Vec<_>> = headers.get_all(STATE).iter().map(|state| state.to_str().ok()).collect();
    Some(TraceContext::parse(parent)?.with_state(&states.unwrap_or_default().join(",")))
}

/// The token of a client.
pub(super) fn token(headers: &http::HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The value of the metadata `authorization` with this token.
///
/// # Errors
/// It has characters that no header can have.
pub(super) fn authorization(token: &str) -> Result<tonic::metadata::AsciiMetadataValue, String> {
    let mut value = String::from("Bearer ");
    let _ = value.write_str(token);
    let mut value: tonic::metadata::AsciiMetadataValue =
        value.parse().map_err(|_| "the token has characters that no header can have".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_with_what_is_sealed() {
        for sealed in [vec![], vec![vec![1u8; 300], vec![], vec![2]]] {
            let sent = RemoteMessage { bytes: b"own".to_vec(), sealed: sealed.clone(), streams: vec![] };
            let mut metadata = MetadataMap::new();
            let bytes = put_message(&mut metadata, sent);
            let back = message(&metadata, bytes).unwrap();
            assert_eq!((&back.bytes[..], back.sealed), (&b"own"[..], sealed));
        }
    }

    #[test]
    fn metadata_of_a_hostile_peer_is_refused() {
        let with = |key: &'static str, value: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert(key, value.parse().unwrap());
            metadata
        };
        let bytes = Bytes::from_static(b"four");
        for bad in ["5", "-1", "x", "", "2,3", "18446744073709551615,1", &"0,".repeat(70)] {
            assert!(message(&with(SEALED, bad), bytes.clone()).is_err(), "{bad}");
        }
        for bad in ["g", "12345678901234567", &"1,".repeat(65)] {
            assert!(versions(&with(VERSIONS, bad)).is_err(), "{bad}");
        }
        assert!(instance(&with(INSTANCE, "z")).is_err());
    }

    #[test]
    fn a_trace_context_comes_back_and_nonsense_is_none() {
        let sent = TraceContext::new(u128::MAX, 7, 1).unwrap();
        for sent in [sent.clone(), sent.with_state("a=b,c=d")] {
            let mut metadata = MetadataMap::new();
            put_context(&mut metadata, Some(&sent));
            assert_eq!(context(&metadata.clone().into_headers()), Some(sent));
        }
        let parent = format!("00-{:032x}-{:016x}-01", 1, 2);
        let with = |parents: &[&str], states: &[&str]| {
            let mut metadata = MetadataMap::new();
            parents.iter().for_each(|one| _ = metadata.append(PARENT, one.parse().unwrap()));
            states.iter().for_each(|one| _ = metadata.append(STATE, one.parse().unwrap()));
            context(&metadata.clone().into_headers())
        };
        assert_eq!(with(&[], &["a=b"]), None);
        assert_eq!(with(&[&parent, &parent], &[]), None);
        assert_eq!(with(&["00-0-0-0"], &[]), None);
        assert_eq!(with(&[&parent], &["a=b", "c=d"]).unwrap().state(), "a=b,c=d");
        assert_eq!(with(&[&parent], &[&"x".repeat(513)]).unwrap().state(), "");
    }

    #[test]
    fn versions_and_instances_come_back() {
        let mut metadata = MetadataMap::new();
        put_versions(&mut metadata, &[7, u64::MAX]);
        put_instance(&mut metadata, Some(u128::MAX));
        assert_eq!(versions(&metadata).unwrap(), [7, u64::MAX]);
        assert_eq!(instance(&metadata).unwrap(), Some(u128::MAX));
        assert_eq!(
            (versions(&MetadataMap::new()).unwrap(), instance(&MetadataMap::new()).unwrap()),
            (vec![], None)
        );
    }
}
