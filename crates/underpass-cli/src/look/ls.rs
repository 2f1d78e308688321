//! `underpass ls`: the names that there are, their servers, and their clients.

use super::methods;
use super::table::TextTable;
use super::{age, ask, json_line, names, parse_time, rate, short};
use anyhow::Result;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant, UNIX_EPOCH};
use underpass::inspect::{BindingView, ExportView, Inspect, InspectClient, InspectError, InterfaceView};
use underpass::metrics::{InterfaceMetrics, MeasuredSide};

/// What `underpass ls` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct LsOptions {
    /// Names to list, which have to be there; without any, all that are
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// How long calls are counted for the calls a second; 0 leaves them out
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_time)]
    over: Duration,
    /// Print one JSON object a line, with the bindings
    #[arg(long)]
    json: bool,
}

/// What a name has told.
struct Told {
    client: InspectClient,
    export: ExportView,
    interfaces: Vec<InterfaceView>,
    /// The bindings and when they were told. `None`: this user is not told.
    bindings: Option<(Vec<BindingView>, Instant)>,
    calls_a_second: Option<f64>,
    /// What the methods of the name have done so far, if they are measured.
    methods: Vec<InterfaceMetrics>,
}

/// Lists the names. Fails if one that was asked for does not tell.
///
/// # Errors
/// The directory can't be read, or the standard output can't be written.
pub fn run(options: &LsOptions) -> Result<ExitCode> {
    let names = if options.names.is_empty() { names()? } else { options.names.clone() };
    // A process that is stopped delays the answers of no other.
    let mut told: Vec<(String, Result<Told, String>)> = std::thread::scope(|scope| {
        let asked = names.into_iter().map(|name| {
            let of = name.clone();
            (name, scope.spawn(move || tell(&of)))
        });
        let asked: Vec<_> = asked.collect();
        let joined = asked.into_iter().map(|(name, answer)| {
            (name, answer.join().unwrap_or_else(|_| Err("this program failed to ask".to_owned())))
        });
        joined.collect()
    });
    if !options.over.is_zero() && told.iter().any(|(_, told)| told.is_ok()) {
        std::thread::sleep(options.over);
        told.iter_mut().filter_map(|(_, told)| told.as_mut().ok()).for_each(Told::count);
    }
    let is_missing = !options.names.is_empty() && told.iter().any(|(_, told)| told.is_err());
    let status = if is_missing { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    let mut out = anstream::stdout().lock();
    let written = match options.json {
        true => told.iter().try_for_each(|(name, told)| writeln!(out, "{}", json_line(&as_json(name, told)))),
        false => as_table(&told).write(&mut out),
    };
    match written {
        // The reader has seen enough.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(status),
        written => Ok(written.map(|()| status)?),
    }
}

fn tell(name: &str) -> Result<Told, String> {
    let client = ask(name)?;
    let said = |e: InspectError| e.to_string();
    let (export, interfaces) = (client.export().map_err(said)?, client.interfaces().map_err(said)?);
    let bindings = match client.bindings() {
        Ok(bindings) => Some((bindings, Instant::now())),
        Err(InspectError::OtherUser) => None,
        Err(e) => return Err(said(e)),
    };
    // A server that is older than this command has none.
    let mut methods = client.metrics().unwrap_or_default();
    methods.retain(|of| of.side == MeasuredSide::Export && of.name == export.name);
    Ok(Told { client, export, interfaces, bindings, calls_a_second: None, methods })
}

/// The calls that each connection of these bindings has carried.
fn of_connections(bindings: &[BindingView]) -> HashMap<u64, u64> {
    bindings.iter().map(|binding| (binding.connection, binding.calls)).collect()
}

/// The calls that the connections of `after` have carried since `before`.
pub(super) fn calls_between(before: &[BindingView], after: &[BindingView]) -> u64 {
    let before = of_connections(before);
    let new = of_connections(after).into_iter();
    // A server may say any numbers.
    new.map(|(connection, calls)| calls.saturating_sub(before.get(&connection).copied().unwrap_or(0)))
        .fold(0, u64::saturating_add)
}

impl Told {
    /// Counts the calls since the bindings were told.
    fn count(&mut self) {
        let (Some((before, at)), Ok(after)) = (&self.bindings, self.client.bindings()) else { return };
        self.calls_a_second = Some(rate(calls_between(before, &after), at.elapsed()));
    }

    fn interface_names(&self) -> String {
        let names: Vec<_> = self.interfaces.iter().map(|of| of.name.as_str()).collect();
        names.join(", ")
    }

    /// How many versions each interface has.
    fn versions(&self) -> String {
        let counts: Vec<_> = self.interfaces.iter().map(|of| of.versions.len().to_string()).collect();
        counts.join(", ")
    }
}

fn as_table(told: &[(String, Result<Told, String>)]) -> TextTable {
    let heads =
        ["name", "interface", ">pid", ">user", "since", "mode", "versions", ">bindings", ">calls/s", ""];
    let mut table = TextTable::new(&heads);
    for (name, told) in told {
        match told {
            Ok(told) => {
                let bindings = told.bindings.as_ref().map(|(bindings, _)| bindings.len().to_string());
                table.row([
                    name.clone(),
                    told.interface_names(),
                    told.export.pid.to_string(),
                    told.export.user.to_string(),
                    age(told.export.since),
                    format!("{:04o}", told.export.mode & 0o7777),
                    told.versions(),
                    bindings.unwrap_or_else(|| "-".to_owned()),
                    told.calls_a_second.map_or_else(|| "-".to_owned(), short),
                    String::new(),
                ]);
            }
            Err(why) => {
                let mut row = vec![name.clone()];
                row.extend(vec!["-".to_owned(); 8]);
                row.push(why.clone());
                table.row(row);
            }
        }
    }
    table
}

fn as_json(name: &str, told: &Result<Told, String>) -> Value {
    let told = match told {
        Ok(told) => told,
        Err(why) => return json!({ "name": name, "error": why }),
    };
    let interface = |of: &InterfaceView| {
        let versions: Vec<_> = of.versions.iter().map(|version| format!("{:016x}", version.hash)).collect();
        json!({ "name": of.name, "versions": versions, "methods": of.methods.len() })
    };
    let bindings =
        told.bindings.as_ref().map(|(bindings, _)| bindings.iter().map(binding_as_json).collect::<Vec<_>>());
    let export = &told.export;
    json!({
        "name": name,
        "pid": export.pid,
        "user": export.user,
        "since": export.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        "mode": format!("{:04o}", export.mode & 0o7777),
        "revocable": export.revocable,
        "interfaces": told.interfaces.iter().map(interface).collect::<Vec<_>>(),
        "bindings": bindings,
        "calls_a_second": told.calls_a_second,
        "methods": methods::between(&[], &told.methods).iter().map(methods::as_json).collect::<Vec<_>>(),
    })
}

fn binding_as_json(of: &BindingView) -> Value {
    json!({
        "id": of.id,
        "interface": of.interface,
        "pid": of.pid,
        "user": of.user,
        "is_value": of.is_value,
        "connection": of.connection,
        "calls_of_connection": of.calls,
        "expires_in_ns": of.expires_in,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(id: u64, connection: u64, calls: u64) -> BindingView {
        BindingView {
            id,
            interface: "Cache".to_owned(),
            pid: 1,
            user: 0,
            is_value: false,
            calls,
            connection,
            expires_in: None,
        }
    }

    #[test]
    fn the_calls_of_a_connection_count_once() {
        let before = [binding(1, 1, 10), binding(2, 1, 10), binding(3, 3, 5)];
        let after = [binding(1, 1, 17), binding(2, 1, 17), binding(4, 4, 2)];
        assert_eq!(calls_between(&before, &after), 9);
        assert_eq!(calls_between(&after, &after), 0);
        let many = [binding(1, 1, u64::MAX), binding(2, 2, u64::MAX)];
        assert_eq!(calls_between(&[], &many), u64::MAX);
    }
}
