//! `underpass send`: sends messages to any asynchronous port, which tells their type.
//!
//! *Decides:* where messages come from. The bytes are those of [`crate::json`].

use crate::json::{Catalog, Encoder, JsonShape, Mismatch};
use crate::look::{json_line, parse_time};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::time::Duration;
use underpass::ImportError;
use underpass::inspect::UntypedMessage;
use underpass::port::{ConnectError, PortSender};

/// What `underpass send` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct SendOptions {
    /// The name under which the port is exported
    name: String,
    /// Messages of JSON, or text where the port takes text; without any, a message for each line of
    /// the standard input
    #[arg(value_name = "MESSAGE", allow_negative_numbers = true)]
    messages: Vec<String>,
    /// How long each message may wait for room
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    deadline: Option<Duration>,
    /// Print how many were sent as a JSON object
    #[arg(long)]
    json: bool,
}

/// Sends the messages, and says how many there were.
///
/// # Errors
/// There is no such port, a message is none of its type, or the port does not take it.
pub fn run(options: &SendOptions) -> Result<()> {
    let name = &options.name;
    let (sender, described) = PortSender::connect_untyped(name).map_err(|e| match e {
        ConnectError::Import(ImportError::Mismatch { .. }) => {
            anyhow!("{name} is no asynchronous port; see `underpass describe {name}`")
        }
        ConnectError::Call(e) => anyhow!("{name} does not tell the type of its messages: {e}"),
        e => anyhow!("{e}"),
    })?;
    let types = Catalog::of(&described);
    let of = described.methods.first().and_then(|method| method.arguments.first());
    let (_, of) = of.with_context(|| format!("{name} describes no message"))?;
    let shape = types.shape(of).map_err(|e| anyhow!("{name}: {e}"))?;
    let mut sent = 0_u64;
    let mut send = |text: &str| {
        let what = || format!("message {sent} of type {of}");
        let value = value_of(&shape, text).with_context(|| format!("{}: {text} is no JSON", what()))?;
        let mut message = UntypedMessage::default();
        let mut encoder = Encoder::new(&types);
        encoder.put(&shape, &value, &mut message).map_err(|e: Mismatch| anyhow!("{}", e.within(what())))?;
        if !encoder.into_streams().is_empty() {
            bail!("{}: a message can't have streams", what());
        }
        let done = match options.deadline {
            None => sender.send(&message),
            Some(deadline) => sender.send_timeout(&message, deadline),
        };
        done.map_err(|e| anyhow!("{}: {e}", what()))?;
        sent += 1;
        Ok(())
    };
    let done = match options.messages.is_empty() {
        false => options.messages.iter().try_for_each(|message| send(message)),
        true => std::io::stdin().lock().lines().try_for_each(|line| {
            let line = line.context("the standard input can't be read")?;
            if line.trim().is_empty() { Ok(()) } else { send(&line) }
        }),
    };
    let mut out = anstream::stdout().lock();
    match options.json {
        true => writeln!(out, "{}", json_line(&json!({ "name": name, "sent": sent })))?,
        false => writeln!(out, "{sent} sent")?,
    }
    done
}

/// The value of a message. Where text is wanted, a word is enough.
fn value_of(shape: &JsonShape, text: &str) -> Result<Value, serde_json::Error> {
    match serde_json::from_str(text) {
        Ok(value @ Value::String(_)) => Ok(value),
        _ if shape.is_text() => Ok(Value::String(text.to_owned())),
        json => json,
    }
}
