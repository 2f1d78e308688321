//! The container of `Containerfile`, as far as the kernel makes it: the service and its clients
//! have namespaces of their own for mounts, processes, IPC, users, the network and the host's name.
//! They see nothing of each other but the directory of names. No container engine is run, and no
//! image is built.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use underpass_harness::skip;

const PROGRAM: &str = env!("CARGO_BIN_EXE_underpass-example");
const NAMESPACES: [&str; 8] =
    ["--user", "--map-root-user", "--mount", "--pid", "--ipc", "--net", "--uts", "--kill-child"];

/// Whether this user can make such namespaces.
fn can_contain() -> bool {
    let tried =
        Command::new("unshare").args(NAMESPACES).args(["--fork", "true"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

/// The program in a container. It and `names` are mounted into the container, and the folders in
/// which programs of one machine meet are its own. The program may lie below one of these.
fn contained(names: &Path, access: &str, arguments: &[&str]) -> Command {
    let script = "set -e
        mount -t tmpfs tmpfs /mnt
        mkdir /mnt/names /mnt/state
        mount --bind \"$1\" /mnt/names
        mount -o remount,bind,\"$2\" /mnt/names
        touch /mnt/program
        mount --bind \"$3\" /mnt/program
        mount -t tmpfs tmpfs /dev/shm
        mount -t tmpfs tmpfs /tmp
        mount -t tmpfs tmpfs /run
        shift 3
        UNDERPASS_DIR=/mnt/names STATE_DIRECTORY=/mnt/state exec /mnt/program \"$@\"";
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).args(["--fork", "sh", "-c", script, "sh"]).arg(names).args([access, PROGRAM]);
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").stdin(Stdio::null());
    command
}

/// A container, ended when it is dropped.
struct Container(Child);

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The words of an instruction of `Containerfile`.
fn instruction(which: &str) -> String {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Containerfile")).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(which));
    lines.next_back().unwrap_or_else(|| panic!("no {which}")).trim().to_owned()
}

#[test]
fn two_containers_share_the_directory_of_names_and_nothing_else() {
    if !can_contain() {
        skip!("this user can make no container");
    }
    let home = tempfile::tempdir().unwrap();
    let names = home.path().join("names");
    fs::create_dir(&names).unwrap();
    assert_eq!(instruction("CMD "), "[\"serve\"]");
    let _service = Container(contained(&names, "rw", &["serve"]).spawn().unwrap());
    let client = |arguments: &[&str]| {
        // A client writes nothing there.
        let output = contained(&names, "ro", arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(client(&["set", "plum", "blue"]), "");
    assert_eq!(client(&["get", "plum"]), "blue\n");
    assert_eq!(instruction("HEALTHCHECK "), "CMD [\"/usr/local/bin/underpass-example\", \"health\"]");
    assert_eq!(client(&["health"]), "");
}

#[test]
fn the_container_has_what_the_program_needs() {
    assert_eq!(instruction("ENTRYPOINT "), "[\"/usr/local/bin/underpass-example\"]");
    assert_eq!(instruction("RUN "), "cargo build --release --locked --package service-example");
    let copied = instruction("COPY --from=build ");
    assert_eq!(copied, "/source/target/release/underpass-example /usr/local/bin/");
    assert_eq!(instruction("VOLUME "), "/names /state");
}
