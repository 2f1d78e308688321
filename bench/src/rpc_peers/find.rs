//! The executables of the peers, and the ways in which each is measured.

use crate::BenchError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The prefix of the executables' names.
const PREFIX: &str = "underpass-rpc-peer-";

/// The environment variable that names the directory, if no option does.
const VARIABLE: &str = "UNDERPASS_PEERS";

/// Where `peers/build` leaves them.
const USUAL: &str = "peers/target/release";

/// The peer whose figures the others are compared with.
pub(super) const OURS: &str = "underpass";

/// What a peer tells about itself.
#[derive(Debug, Deserialize)]
struct Introduced {
    peer: String,
    version: String,
    variants: Vec<IntroducedVariant>,
}

#[derive(Debug, Deserialize)]
struct IntroducedVariant {
    name: String,
    about: String,
    callers: u64,
}

/// A peer in one of its ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PeerWay {
    pub(super) program: PathBuf,
    pub(super) variant: String,
    /// What it is called: `kernel-pipe`.
    pub(super) name: String,
    pub(super) version: String,
    pub(super) about: String,
    /// The most callers at once that make sense.
    pub(super) callers: u64,
    /// Whether it is Underpass.
    pub(super) ours: bool,
}

/// All ways of all peers that were built, ours first.
///
/// # Errors
/// There is none, or ours is missing, or one cannot be run.
pub(super) fn all(asked: Option<&Path>) -> Result<Vec<PeerWay>, BenchError> {
    let named = asked.map(Path::to_owned).or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    let directory = named.unwrap_or_else(|| USUAL.into());
    let missing = |what: &dyn std::fmt::Display| {
        format!(
            "{}: {what}; build the peers with `peers/build rpc`, and run this in the directory that `peers` is in, \
             or name theirs with `--peers DIR`",
            directory.display()
        )
    };
    let entries = std::fs::read_dir(&directory).map_err(|e| missing(&e))?;
    let is_peer = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // The files that cargo puts beside them have an extension.
        name.starts_with(PREFIX) && !name.contains('.') && path.is_file()
    };
    let mut programs: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_peer).collect();
    programs.sort();
    let mut ways = Vec::new();
    for program in programs {
        ways.extend(introduced(&program)?);
    }
    ways.sort_by_key(|way| !way.ours);
    match ways.first() {
        Some(first) if first.ours => Ok(ways),
        _ => Err(missing(&format!("it holds no {PREFIX}{OURS}")).into()),
    }
}

fn introduced(program: &Path) -> Result<Vec<PeerWay>, BenchError> {
    let what = |e: &dyn std::fmt::Display| format!("{}: {e}; `peers/check` says more", program.display());
    // A path without a slash would be looked up elsewhere.
    let program = program.canonicalize().map_err(|e| what(&e))?;
    let output = Command::new(&program).arg("variants").output().map_err(|e| what(&e))?;
    let told: Introduced = serde_json::from_slice(&output.stdout).map_err(|e| what(&e))?;
    let ours = told.peer == OURS;
    let several = told.variants.len() > 1;
    let way = |variant: IntroducedVariant| PeerWay {
        program: program.clone(),
        name: if several { format!("{}-{}", told.peer, variant.name) } else { told.peer.clone() },
        variant: variant.name,
        version: told.version.clone(),
        about: variant.about,
        callers: variant.callers,
        ours,
    };
    Ok(told.variants.into_iter().map(way).collect())
}

/// Those of `ways` that `only` names, by their names or those of their peers, and always ours.
///
/// # Errors
/// One of `only` names none.
pub(super) fn chosen(ways: Vec<PeerWay>, only: &[String]) -> Result<Vec<PeerWay>, BenchError> {
    let named = |way: &PeerWay, name: &str| {
        way.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    if let Some(unknown) = only.iter().find(|name| !ways.iter().any(|way| named(way, name))) {
        let known: Vec<_> = ways.iter().map(|way| way.name.as_str()).collect();
        return Err(format!("no peer is called `{unknown}`; there are {}", known.join(", ")).into());
    }
    let wanted = |way: &PeerWay| only.is_empty() || way.ours || only.iter().any(|name| named(way, name));
    Ok(ways.into_iter().filter(wanted).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn way(name: &str) -> PeerWay {
        PeerWay {
            program: "/bin/false".into(),
            variant: "default".into(),
            name: name.into(),
            version: "1".into(),
            about: "blocks".into(),
            callers: 32,
            ours: name == OURS,
        }
    }

    #[test]
    fn a_peer_is_chosen_by_its_name_or_that_of_its_way() {
        let ways = || ["underpass", "kernel-pipe", "kernel-stream", "tonic"].map(way).to_vec();
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|&name| name.to_owned()).collect();
            chosen(ways(), &only).map(|ways| ways.into_iter().map(|way| way.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap().len(), 4);
        assert_eq!(names(&["tonic"]).unwrap(), ["underpass", "tonic"]);
        assert_eq!(names(&["kernel"]).unwrap(), ["underpass", "kernel-pipe", "kernel-stream"]);
        assert_eq!(names(&["kernel-pipe"]).unwrap(), ["underpass", "kernel-pipe"]);
        let error = names(&["kern"]).unwrap_err().to_string();
        assert!(error.contains("`kern`") && error.contains("kernel-pipe"), "{error}");
    }

    #[test]
    fn a_directory_without_peers_is_answered_with_how_to_build_them() {
        let error = all(Some(Path::new("/nowhere"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere") && error.contains("peers/build"), "{error}");
    }
}
