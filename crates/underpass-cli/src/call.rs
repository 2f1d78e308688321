//! `underpass call`: calls a method of any exported interface, with JSON for arguments and results.
//!
//! *Decides:* how the words of the command line become arguments, and where results go. The bytes
//! are those of [`crate::json`].

use crate::json::{Catalog, Decoder, Encoder, JsonShape, MOST_SAVED, Mismatch, SavedFiles, UntypedStream};
use crate::look::{escaped, interfaces, json_line, parse_time};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use underpass::inspect::{InterfaceView, MethodView, UntypedClient, UntypedMessage};

/// What `underpass call` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct CallOptions {
    /// The name under which the interface is exported
    name: String,
    /// The method; `underpass describe NAME` shows them
    method: String,
    /// The arguments, in order or as ARGUMENT=VALUE: JSON, or text where the method takes text
    #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
    arguments: Vec<String>,
    /// All arguments as one JSON object, or `-` to read it from standard input
    #[arg(long, value_name = "JSON", conflicts_with = "arguments")]
    json_arguments: Option<String>,
    /// How long the call may take
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    deadline: Option<Duration>,
    /// Copies open files among the results into this folder
    #[arg(long, value_name = "FOLDER")]
    save_files: Option<PathBuf>,
    /// How many bytes the saved files may have together
    #[arg(long, value_name = "BYTES", default_value_t = MOST_SAVED)]
    max_bytes: u64,
    /// Print results in one line each, also on a terminal
    #[arg(long)]
    json: bool,
}

/// Makes the call, and prints its result.
///
/// # Errors
/// There is no such name or method, an argument is none of its type, or the call or the method
/// fails.
pub fn run(options: &CallOptions) -> Result<()> {
    let name = &options.name;
    let interfaces = interfaces(name)?;
    let (interface, index) = find(&interfaces, name, &options.method)?;
    let method = &interface.methods[index];
    let types = Arc::new(Catalog::of(interface));
    let what = format!("{name}.{}", method.name);
    let (message, sends) = encode(options, method, &types).with_context(|| what.clone())?;
    if let Some(folder) = &options.save_files {
        std::fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
    }
    let mut client = UntypedClient::import(name, interface).map_err(|e| anyhow!("{e}"))?;
    if let Some(deadline) = options.deadline {
        client = client.with_deadline(deadline);
    }
    let index = u16::try_from(index).map_err(|_| anyhow!("{what} has too high a number"))?;
    let answer = client.call(index, &message).map_err(|e| anyhow!("{what}: {e}"))?;
    drop(message);
    let shape = types.shape(&method.result).map_err(|e| anyhow!("{what}: {e}"))?;
    let JsonShape::Either(fine, failed) = &*shape else { bail!("{what} returns no Result") };
    let save = options.save_files.clone().map(|folder| SavedFiles::new(folder, options.max_bytes));
    let mut decoder = Decoder::new(&types, save);
    let odd = |e| anyhow!("{what}: its result makes no sense: {e}");
    match answer {
        Ok(mut value) => {
            let value = decoder.whole(fine, &mut value).map_err(odd)?;
            show(options, fine, &value, decoder.into_streams(), &types).with_context(|| what.clone())?;
            join(sends).with_context(|| what)
        }
        Err(mut error) => {
            let error = decoder.whole(failed, &mut error).map_err(odd)?;
            bail!("{what} returned the error {error}")
        }
    }
}

/// The interface of the name that has the method, and the method's index.
fn find<'a>(interfaces: &'a [InterfaceView], name: &str, method: &str) -> Result<(&'a InterfaceView, usize)> {
    let found = interfaces.iter().find_map(|interface| {
        let index = interface.methods.iter().position(|known| known.name == method);
        Some((interface, index?))
    });
    found.ok_or_else(|| {
        let methods = interfaces.iter().flat_map(|interface| &interface.methods);
        let known: Vec<_> = methods.map(|method| method.name.as_str()).collect();
        anyhow!("{name} has no method {method:?}, but {}; see `underpass describe {name}`", known.join(", "))
    })
}

/// Threads that send streams.
type Sends = Vec<JoinHandle<Result<u64, Mismatch>>>;

/// The arguments as they travel. Streams among them are being sent.
fn encode(
    options: &CallOptions,
    method: &MethodView,
    types: &Arc<Catalog>,
) -> Result<(UntypedMessage, Sends)> {
    let shapes: Vec<Arc<JsonShape>> = method
        .arguments
        .iter()
        .map(|(_, of)| types.shape(of))
        .collect::<Result<_, _>>()
        .map_err(|e| anyhow!("{e}"))?;
    let values = match &options.json_arguments {
        Some(json) => of_object(method, json)?,
        None => of_words(method, &shapes, &options.arguments)?,
    };
    let (mut message, mut encoder) = (UntypedMessage::default(), Encoder::new(types));
    for ((shape, value), (name, of)) in shapes.iter().zip(&values).zip(&method.arguments) {
        let at = |e: Mismatch| e.within(format!("argument `{name}` of type {of}"));
        encoder.put(shape, value, &mut message).map_err(at)?;
    }
    let streams = encoder.into_streams();
    Ok((message, streams.into_iter().map(|stream| stream.start(types.clone())).collect()))
}

/// The values of one JSON object, in the order of the arguments.
fn of_object(method: &MethodView, json: &str) -> Result<Vec<Value>> {
    let mut read = String::new();
    let json = match json {
        "-" => {
            std::io::stdin().lock().read_to_string(&mut read).context("the arguments can't be read")?;
            &read
        }
        json => json,
    };
    let mut object: Map<String, Value> =
        serde_json::from_str(json).context("the arguments are no JSON object")?;
    let values = method.arguments.iter().map(|(name, of)| match object.remove(name) {
        Some(value) => Ok(value),
        None if of.starts_with("Option<") => Ok(Value::Null),
        None => Err(anyhow!("the argument `{name}` of type {of} is missing")),
    });
    let values = values.collect::<Result<_>>()?;
    match object.keys().next() {
        Some(name) => Err(anyhow!("there is no argument `{name}`, but {}", known(method))),
        None => Ok(values),
    }
}

/// The values of words, in the order of the arguments.
fn of_words(method: &MethodView, shapes: &[Arc<JsonShape>], words: &[String]) -> Result<Vec<Value>> {
    let mut values: Vec<Option<Value>> = vec![None; shapes.len()];
    for word in words {
        let named = word.split_once('=').and_then(|(name, value)| {
            Some((method.arguments.iter().position(|(known, _)| known == name)?, value))
        });
        let (index, text) = match named {
            Some(named) => named,
            None => {
                let next = values.iter().position(Option::is_none);
                let next =
                    next.ok_or_else(|| anyhow!("{word:?} is one argument too many: {}", known(method)))?;
                (next, word.as_str())
            }
        };
        let (name, of) = &method.arguments[index];
        if values[index].is_some() {
            bail!("the argument `{name}` is given twice");
        }
        let value = value_of(&shapes[index], text);
        values[index] =
            Some(value.with_context(|| format!("argument `{name}` of type {of}: {text} is no JSON"))?);
    }
    let filled = values.into_iter().zip(shapes).zip(&method.arguments);
    let filled = filled.map(|((value, shape), (name, of))| match (value, &**shape) {
        (Some(value), _) => Ok(value),
        (None, JsonShape::Optional(_) | JsonShape::Unit) => Ok(Value::Null),
        (None, _) => Err(anyhow!("the argument `{name}` of type {of} is missing: {}", known(method))),
    });
    filled.collect()
}

/// The value of a word. Where text is wanted, only JSON that can be such a value is taken for JSON.
fn value_of(shape: &JsonShape, text: &str) -> Result<Value, serde_json::Error> {
    let json = serde_json::from_str(text);
    let inner = match shape {
        JsonShape::Optional(inner) => inner,
        shape => shape,
    };
    match json {
        Ok(value @ (Value::String(_) | Value::Object(_) | Value::Array(_) | Value::Null)) => Ok(value),
        _ if inner.is_text() => Ok(Value::String(text.to_owned())),
        json => json,
    }
}

/// The arguments of a method, for an error.
fn known(method: &MethodView) -> String {
    let arguments: Vec<_> = method.arguments.iter().map(|(name, of)| format!("{name}: {of}")).collect();
    format!("{}({})", method.name, arguments.join(", "))
}

/// Prints the value, and the items of its streams as they come. If the value is a stream, that is
/// all there is to print.
fn show(
    options: &CallOptions,
    shape: &JsonShape,
    value: &Value,
    streams: Vec<UntypedStream>,
    types: &Catalog,
) -> Result<()> {
    let stdout = std::io::stdout();
    let (alone, pretty) = (matches!(shape, JsonShape::Stream(..)), stdout.is_terminal() && !options.json);
    let mut out = stdout.lock();
    if !alone && pretty {
        writeln!(out, "{}", escaped(&serde_json::to_string_pretty(value)?))?;
    } else if !alone {
        writeln!(out, "{}", json_line(value))?;
    }
    let several = streams.len() > 1;
    for (number, mut stream) in streams.into_iter().enumerate() {
        while let Some(item) = stream.next(types).map_err(|e| anyhow!("{e}"))? {
            let item = if several { serde_json::json!({ "stream": number, "item": item }) } else { item };
            writeln!(out, "{}", json_line(&item))?;
        }
    }
    Ok(out.flush()?)
}

/// Waits until all streams are sent.
fn join(sends: Sends) -> Result<()> {
    for send in sends {
        send.join().map_err(|_| anyhow!("the thread that sends a stream has failed"))??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method() -> MethodView {
        let argument = |name: &str, of: &str| (name.to_owned(), of.to_owned());
        MethodView {
            name: "put".to_owned(),
            doc: String::new(),
            arguments: vec![
                argument("key", "String"),
                argument("size", "u32"),
                argument("note", "Option<String>"),
            ],
            result: "Result<(), CallError>".to_owned(),
        }
    }

    fn shapes() -> Vec<Arc<JsonShape>> {
        let number = JsonShape::Integer { signed: false, bytes: 4, zero: true };
        let note = JsonShape::Optional(Arc::new(JsonShape::Text));
        [JsonShape::Text, number, note].map(Arc::new).into()
    }

    fn values(words: &[&str]) -> Result<Value, String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        of_words(&method(), &shapes(), &words).map(Value::Array).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn words_are_arguments_in_order_or_by_name() {
        let json = |text: &str| Ok(serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(values(&["plum", "7"]), json(r#"["plum", 7, null]"#));
        assert_eq!(values(&["7", "7", "7"]), json(r#"["7", 7, "7"]"#));
        assert_eq!(values(&["size=7", "plum"]), json(r#"["plum", 7, null]"#));
        assert_eq!(values(&["\"plum\"", "7", "note=null"]), json(r#"["plum", 7, null]"#));
        assert_eq!(values(&["a=b", "7"]), json(r#"["a=b", 7, null]"#));
    }

    #[test]
    fn an_error_names_the_argument() {
        let of = "put(key: String, size: u32, note: Option<String>)";
        assert_eq!(values(&["plum"]), Err(format!("the argument `size` of type u32 is missing: {of}")));
        assert_eq!(values(&["a", "1", "b", "c"]), Err(format!("\"c\" is one argument too many: {of}")));
        assert_eq!(values(&["key=a", "key=b"]), Err("the argument `key` is given twice".to_owned()));
        let error = values(&["plum", "seven"]).unwrap_err();
        assert!(error.starts_with("argument `size` of type u32: seven is no JSON"), "{error}");
        let error = of_object(&method(), r#"{"key": "a", "size": 1, "x": 1}"#).unwrap_err();
        assert_eq!(error.to_string(), format!("there is no argument `x`, but {of}"));
    }
}
