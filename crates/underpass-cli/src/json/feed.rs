//! Streams as arguments: items of JSON that are sent while the call is under way.

use super::encode::Encoder;
use super::mismatch::{Mismatch, unlike};
use super::shape::{Catalog, JsonShape};
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::Arc;
use std::thread::JoinHandle;
use underpass::Encode;
use underpass::inspect::UntypedMessage;
use underpass::stream::{StreamOptions, StreamSender};
use underpass_wire::Sink;

/// A stream that was encoded: the items to send, once the call is made.
#[derive(Debug)]
pub struct StreamFeed {
    items: Items,
    item: Arc<JsonShape>,
    sender: StreamSender<UntypedMessage, UntypedMessage>,
}

#[derive(Debug)]
enum Items {
    Listed(Vec<Value>),
    /// JSON lines of a file, or of the standard input.
    Lines(Option<String>),
}

/// The most bytes of an item that is sent.
const LONGEST_ITEM: usize = 1 << 20;

impl StreamFeed {
    /// Puts a stream of items of type `item`: an array of them, `-`, or `{"lines": PATH}`.
    ///
    /// # Errors
    /// The value is none of these, or no stream can be opened.
    pub fn put(item: &Arc<JsonShape>, value: &Value, to: &mut dyn Sink) -> Result<Self, Mismatch> {
        let lines = |path: &str| Items::Lines((path != "-").then(|| path.to_owned()));
        let items = match value {
            Value::Array(items) => Items::Listed(items.clone()),
            Value::String(path) => lines(path),
            Value::Object(object) if object.len() == 1 => {
                let path = object.get("lines").and_then(Value::as_str);
                lines(path.ok_or_else(|| unlike("{\"lines\": PATH}", value))?)
            }
            _ => return Err(unlike("an array of items, {\"lines\": PATH}, or \"-\"", value)),
        };
        let options = StreamOptions::new().longest(LONGEST_ITEM).bytes(4 * LONGEST_ITEM);
        let (sender, reader) = options.open_failing().map_err(|e| format!("no stream can be opened: {e}"))?;
        // The message has files of its own.
        reader.encode(to);
        Ok(Self { items, item: item.clone(), sender })
    }

    /// Sends the items, and then ends the stream. Returns how many were sent.
    ///
    /// # Errors
    /// An item is no JSON or no value of the type, or the reader has ended the stream.
    pub fn send(self, types: &Catalog) -> Result<u64, Mismatch> {
        let Self { items, item, sender } = self;
        let mut sent = 0;
        let mut send = |value: &Value| {
            let mut message = UntypedMessage::default();
            let mut encoder = Encoder::new(types);
            let at = |e: Mismatch| e.within(format!("item {sent} of the stream"));
            encoder.put(&item, value, &mut message).map_err(at)?;
            sender.send(&message).map_err(|e| at(e.to_string().into()))?;
            sent += 1;
            Ok::<(), Mismatch>(())
        };
        match items {
            Items::Listed(values) => values.iter().try_for_each(&mut send)?,
            Items::Lines(path) => {
                let from: Box<dyn BufRead> = match &path {
                    None => Box::new(io::stdin().lock()),
                    Some(path) => {
                        Box::new(BufReader::new(File::open(path).map_err(|e| format!("{path}: {e}"))?))
                    }
                };
                for line in from.lines() {
                    let line = line.map_err(|e| format!("a line can't be read: {e}"))?;
                    if !line.trim().is_empty() {
                        send(&serde_json::from_str(&line).map_err(|e| format!("{line}: {e}"))?)?;
                    }
                }
            }
        }
        sender.finish();
        Ok(sent)
    }

    /// [Sends](Self::send) on a thread of its own, while the call is under way.
    pub fn start(self, types: Arc<Catalog>) -> JoinHandle<Result<u64, Mismatch>> {
        std::thread::spawn(move || self.send(&types))
    }
}
