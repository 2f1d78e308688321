//! Generated stubs carry what `std` has, without `serde`.

use crate::mock;
use mock::{CallError, export};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use underpass_macros::{Wire, interface};

#[derive(Clone, Debug, PartialEq, Wire)]
#[underpass(crate = mock)]
struct File {
    path: PathBuf,
    name: OsString,
    changed: SystemTime,
    rows: Range<u64>,
    columns: RangeInclusive<u16>,
    owner: IpAddr,
    seen_by: Vec<SocketAddr>,
    tags: Arc<[Arc<str>]>,
    kind: Cow<'static, str>,
}

#[derive(Debug, Wire)]
#[underpass(crate = mock)]
enum FileError {
    Call(CallError),
    Io(io::Error),
    Kind(io::ErrorKind),
}

impl From<CallError> for FileError {
    fn from(e: CallError) -> Self {
        Self::Call(e)
    }
}

#[interface(crate = mock, asynchronous)]
trait Files {
    fn file(&self, path: &Path, name: &OsStr, file: Arc<File>) -> Result<File, FileError>;
    fn open(&self, path: &std::path::Path, at: SystemTime) -> Result<SystemTime, FileError>;
}

struct Disk;

impl Files for Disk {
    fn file(&self, path: &Path, name: &OsStr, file: Arc<File>) -> Result<File, FileError> {
        Ok(File { path: path.into(), name: name.into(), ..(*file).clone() })
    }

    fn open(&self, path: &Path, at: SystemTime) -> Result<SystemTime, FileError> {
        match std::fs::File::open(path) {
            Ok(_) => Ok(at + Duration::from_nanos(1)),
            Err(e) if at < UNIX_EPOCH => Err(FileError::Kind(e.kind())),
            Err(e) => Err(FileError::Io(e)),
        }
    }
}

fn file() -> File {
    File {
        path: "/etc/hosts".into(),
        name: "hosts".into(),
        changed: UNIX_EPOCH - Duration::from_nanos(1),
        rows: 7..7,
        columns: 1..=u16::MAX,
        owner: IpAddr::from([127, 0, 0, 1]),
        seen_by: vec!["[fe80::1%3]:80".parse().unwrap(), "1.2.3.4:5".parse().unwrap()],
        tags: ["a", "b"].map(Arc::from).into(),
        kind: "text".into(),
    }
}

#[test]
fn types_of_std_travel() {
    export("std", Files::serve(Disk));
    let files = FilesClient::import("std").unwrap();
    let (path, name) = (Path::new("/tmp/\u{e4}"), OsStr::new("\u{e4}"));
    let told = files.file(path, name, file().into()).unwrap();
    assert_eq!(told, File { path: path.into(), name: name.into(), ..file() });

    assert_eq!(files.open(Path::new("/"), UNIX_EPOCH).unwrap(), UNIX_EPOCH + Duration::from_nanos(1));
    let missing = Path::new("/nothing/here");
    let FileError::Io(e) = files.open(missing, UNIX_EPOCH).unwrap_err() else {
        panic!("an error of the system")
    };
    assert_eq!((e.kind(), e.raw_os_error()), (io::ErrorKind::NotFound, Some(2)));
    let before = UNIX_EPOCH - Duration::from_secs(1);
    let kind = files.open(missing, before).unwrap_err();
    assert!(matches!(kind, FileError::Kind(io::ErrorKind::NotFound)), "{kind:?}");
}

/// Both sides know a type by its name: these must never change.
#[test]
fn types_of_std_have_names() {
    let descriptor = FilesClient::descriptor();
    let [file, open] = &descriptor.procedures[..] else { panic!("two procedures") };
    let names = |procedure: &underpass_wire::Procedure| -> Vec<String> {
        procedure.arguments.iter().map(|argument| argument.of.to_string()).collect()
    };
    assert_eq!(names(file), ["PathBuf", "OsString", "File"]);
    assert_eq!(names(open), ["PathBuf", "SystemTime"]);
    let types: Vec<String> = descriptor.types.iter().map(ToString::to_string).collect();
    assert_eq!(
        types[1..],
        [
            "struct File { path: PathBuf, name: OsString, changed: SystemTime, rows: Range<u64>, columns: \
             RangeInclusive<u16>, owner: IpAddr, seen_by: Vec<SocketAddr>, tags: Vec<String>, kind: String }",
            "enum FileError { Call(CallError), Io(io::Error), Kind(io::ErrorKind) }"
        ]
    );
}

/// A type of the author's own may be called `Path`.
mod own {
    use super::mock::{self, CallError, export};
    use underpass_macros::{Wire, interface};

    #[derive(Clone, Debug, PartialEq, Wire)]
    #[underpass(crate = mock)]
    struct Path(Vec<(f32, f32)>);

    #[interface(crate = mock)]
    trait Pen {
        fn draw(&self, path: &Path) -> Result<Path, CallError>;
    }

    struct Mirror;

    impl Pen for Mirror {
        fn draw(&self, path: &Path) -> Result<Path, CallError> {
            Ok(Path(path.0.iter().map(|&(x, y)| (-x, y)).collect()))
        }
    }

    #[test]
    fn another_type_of_that_name_travels_as_itself() {
        export("pen", Pen::serve(Mirror));
        let pen = PenClient::import("pen").unwrap();
        assert_eq!(pen.draw(&Path(vec![(1.0, 2.0)])), Ok(Path(vec![(-1.0, 2.0)])));
    }
}
