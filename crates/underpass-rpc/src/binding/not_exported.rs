//! The error text for a name that no server exports: where the name was looked up and why, and
//! where else a file of that name exists.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use underpass_os::{Directory, process};

/// The error text for the missing `path`.
pub(crate) fn explain(path: &Path) -> String {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return format!("no server exports {}", path.display());
    };
    let why = Directory::at(directory).why();
    let remedy = "start its server, or wait for it with import_within";
    let hint = match others(directory).iter().find_map(|other| found(other, name)) {
        Some(hint) => hint,
        None => {
            "a server of another user, or with another $UNDERPASS_DIR, exports into another directory".into()
        }
    };
    format!(
        "no server exports {}: names were looked up only in {} ({why}); {remedy}; {hint}",
        path.display(),
        directory.display()
    )
}

/// The hint to give if `name` exists in `directory`, which is not the directory that this process
/// uses.
fn found(directory: &Path, name: &OsStr) -> Option<String> {
    let path = directory.join(name);
    fs::symlink_metadata(&path).ok()?;
    let owner = fs::symlink_metadata(directory).ok()?.uid();
    let (path, directory) = (path.display(), directory.display());
    Some(match owner == process::user() || owner == 0 {
        true => format!("{path} exists: if that is the server, set UNDERPASS_DIR={directory}"),
        false => format!(
            "user {owner} exports {path}: run as that user, or set $UNDERPASS_DIR on both sides to a directory \
             of root's"
        ),
    })
}

/// The directories that other users and other environments use, as far as this user can see them.
fn others(own: &Path) -> Vec<PathBuf> {
    let entries =
        |directory| fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let of_sessions = entries("/run/user").map(|session| session.join("underpass"));
    let of_users = entries("/tmp").filter(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"underpass-"))
    });
    let in_session = std::env::var_os("XDG_RUNTIME_DIR").map(|session| Path::new(&session).join("underpass"));
    let all = in_session.into_iter().chain(["/run/underpass".into()]).chain(of_sessions).chain(of_users);
    all.filter(|path| path != own).collect()
}
