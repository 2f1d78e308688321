//! What a type of a description is, by its name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use underpass::inspect::{InterfaceView, StructureView};

/// The deepest nesting of a name. A server's description is untrusted.
const DEEPEST: u32 = 32;

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonShape {
    /// `()`
    Unit,
    /// `bool`
    Bool,
    /// `char`
    Char,
    /// An integer of so many bytes.
    Integer {
        /// Whether it has a sign.
        signed: bool,
        /// Its bytes.
        bytes: usize,
        /// Whether 0 is a value.
        zero: bool,
    },
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `String`
    Text,
    /// `OsString` and `PathBuf`: bytes that are text as a rule.
    OsText,
    /// `Option<T>`
    Optional(Arc<JsonShape>),
    /// `Result<T, E>`
    Either(Arc<JsonShape>, Arc<JsonShape>),
    /// `Vec<u8>`
    Buffer,
    /// `Vec<T>`, `Set<T>`
    List(Arc<JsonShape>),
    /// `Map<K, V>`
    Map(Arc<JsonShape>, Arc<JsonShape>),
    /// `(A, B)`
    Tuple(Vec<Arc<JsonShape>>),
    /// `[T; N]`
    Array(Arc<JsonShape>, usize),
    /// `Range<T>`, `RangeInclusive<T>`
    Range(Arc<JsonShape>),
    /// `Duration`
    Duration,
    /// `SystemTime`
    SystemTime,
    /// An address of the Internet.
    Address(Address),
    /// `io::ErrorKind`
    ErrorKind,
    /// `io::Error`
    IoError,
    /// `CallError`
    CallError,
    /// `OwnedFd`, `File`
    OpenFile,
    /// `Sealed`
    Sealed,
    /// `Stream<T, E>`
    Stream(Arc<JsonShape>, Arc<JsonShape>),
    /// A struct or an enum of the interface, by its name.
    Named(Arc<str>),
    /// An interface that travels as a value, by its name.
    Interface(Arc<str>),
}

/// Which address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// `Ipv4Addr`
    V4,
    /// `Ipv6Addr`
    V6,
    /// `IpAddr`
    Ip,
    /// `SocketAddrV4`
    SocketV4,
    /// `SocketAddrV6`
    SocketV6,
    /// `SocketAddr`
    Socket,
}

/// The types of an interface.
#[derive(Debug)]
pub struct Catalog {
    structures: HashMap<String, StructureView>,
    known: Mutex<HashMap<String, Arc<JsonShape>>>,
}

impl Catalog {
    /// The types that a server has described.
    pub fn of(interface: &InterfaceView) -> Self {
        let types = interface.types.iter();
        let structures = types.map(|of| (of.name.clone(), of.structure.clone())).collect();
        Self { structures, known: Mutex::default() }
    }

    /// The structure of a type that has a name of its own.
    pub fn structure(&self, name: &str) -> Option<&StructureView> {
        self.structures.get(name)
    }

    /// What the type of that name is.
    ///
    /// # Errors
    /// This program does not know the type, or its description makes no sense.
    pub fn shape(&self, name: &str) -> Result<Arc<JsonShape>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shape) = known.get(name) {
            return Ok(shape.clone());
        }
        let shape = self.parse(name, 0)?;
        known.insert(name.to_owned(), shape.clone());
        Ok(shape)
    }

    fn parse(&self, name: &str, depth: u32) -> Result<Arc<JsonShape>, String> {
        let unknown = || format!("this program knows no JSON for the type {name}");
        if depth > DEEPEST {
            return Err("the server describes a type that is nested too deeply".to_owned());
        }
        if let Some(structure) = self.structures.get(name) {
            return Ok(Arc::new(match structure {
                StructureView::Interface(_) => JsonShape::Interface(name.into()),
                _ => JsonShape::Named(name.into()),
            }));
        }
        let inner = |name: &str| self.parse(name, depth + 1);
        if let Some(parts) = name.strip_prefix('(').and_then(|name| name.strip_suffix(')')) {
            let parts: Result<Vec<_>, _> = split(parts).map(inner).collect();
            return Ok(Arc::new(match parts? {
                parts if parts.is_empty() => JsonShape::Unit,
                parts => JsonShape::Tuple(parts),
            }));
        }
        if let Some(array) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            let (element, length) = array.rsplit_once("; ").ok_or_else(unknown)?;
            let length = length.parse().map_err(|_| unknown())?;
            return Ok(Arc::new(JsonShape::Array(inner(element)?, length)));
        }
        let Some((generic, arguments)) = name.split_once('<') else {
            return plain(name).map(Arc::new).ok_or_else(unknown);
        };
        let arguments: Vec<&str> = split(arguments.strip_suffix('>').ok_or_else(unknown)?).collect();
        Ok(Arc::new(match (generic, &arguments[..]) {
            ("Vec", ["u8"]) => JsonShape::Buffer,
            ("Vec" | "Set", [element]) => JsonShape::List(inner(element)?),
            ("Option", [value]) => JsonShape::Optional(inner(value)?),
            ("Result", [value, error]) => JsonShape::Either(inner(value)?, inner(error)?),
            ("Map", [key, value]) => JsonShape::Map(inner(key)?, inner(value)?),
            ("Range" | "RangeInclusive", [bound]) => JsonShape::Range(inner(bound)?),
            ("Stream", [item, error]) => JsonShape::Stream(inner(item)?, inner(error)?),
            ("NonZero", [number]) => match *inner(number)? {
                JsonShape::Integer { signed, bytes, .. } => JsonShape::Integer { signed, bytes, zero: false },
                _ => return Err(unknown()),
            },
            _ => return Err(unknown()),
        }))
    }
}

/// Types without parameters.
fn plain(name: &str) -> Option<JsonShape> {
    let unsigned = |bytes| JsonShape::Integer { signed: false, bytes, zero: true };
    let signed = |bytes| JsonShape::Integer { signed: true, bytes, zero: true };
    Some(match name {
        "bool" => JsonShape::Bool,
        "char" => JsonShape::Char,
        "u8" => unsigned(1),
        "u16" => unsigned(2),
        "u32" => unsigned(4),
        "u64" | "usize" => unsigned(8),
        "u128" => unsigned(16),
        "i8" => signed(1),
        "i16" => signed(2),
        "i32" => signed(4),
        "i64" | "isize" => signed(8),
        "i128" => signed(16),
        "f32" => JsonShape::F32,
        "f64" => JsonShape::F64,
        "String" => JsonShape::Text,
        "OsString" | "PathBuf" => JsonShape::OsText,
        "Duration" => JsonShape::Duration,
        "SystemTime" => JsonShape::SystemTime,
        "Ipv4Addr" => JsonShape::Address(Address::V4),
        "Ipv6Addr" => JsonShape::Address(Address::V6),
        "IpAddr" => JsonShape::Address(Address::Ip),
        "SocketAddrV4" => JsonShape::Address(Address::SocketV4),
        "SocketAddrV6" => JsonShape::Address(Address::SocketV6),
        "SocketAddr" => JsonShape::Address(Address::Socket),
        "io::ErrorKind" => JsonShape::ErrorKind,
        "io::Error" => JsonShape::IoError,
        "CallError" => JsonShape::CallError,
        "OwnedFd" | "File" => JsonShape::OpenFile,
        "Sealed" => JsonShape::Sealed,
        _ => return None,
    })
}

/// The parts of a list that are separated by commas, outside of all brackets. A tuple of one has a
/// comma at its end.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = list.split(move |letter| {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

impl JsonShape {
    /// Whether it is written as text, so that a word of the command line is such a value.
    pub fn is_text(&self) -> bool {
        matches!(
            self,
            Self::Text
                | Self::OsText
                | Self::Char
                | Self::Buffer
                | Self::Sealed
                | Self::OpenFile
                | Self::Address(_)
                | Self::ErrorKind
                | Self::Stream(..)
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A catalog with these types.
    pub(in crate::json) fn catalog(types: &[(&str, StructureView)]) -> Catalog {
        let structures = types.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect();
        Catalog { structures, known: Mutex::default() }
    }

    #[test]
    fn names_are_parsed() {
        let types = catalog(&[
            ("Pair<u8, String>", StructureView::Enum(Vec::new())),
            ("interface Cursor", StructureView::Interface(Vec::new())),
        ]);
        let byte = || Arc::new(JsonShape::Integer { signed: false, bytes: 1, zero: true });
        for (name, shape) in [
            ("()", JsonShape::Unit),
            ("(u8,)", JsonShape::Tuple(vec![byte()])),
            ("(u8, Option<u8>)", JsonShape::Tuple(vec![byte(), Arc::new(JsonShape::Optional(byte()))])),
            ("[u8; 3]", JsonShape::Array(byte(), 3)),
            ("[[u8; 3]; 2]", JsonShape::Array(Arc::new(JsonShape::Array(byte(), 3)), 2)),
            ("Vec<u8>", JsonShape::Buffer),
            ("Set<(u8, u8)>", JsonShape::List(Arc::new(JsonShape::Tuple(vec![byte(), byte()])))),
            ("Map<u8, Vec<u8>>", JsonShape::Map(byte(), Arc::new(JsonShape::Buffer))),
            ("NonZero<u8>", JsonShape::Integer { signed: false, bytes: 1, zero: false }),
            ("Pair<u8, String>", JsonShape::Named("Pair<u8, String>".into())),
            (
                "Vec<interface Cursor>",
                JsonShape::List(Arc::new(JsonShape::Interface("interface Cursor".into()))),
            ),
            (
                "Result<(), CallError>",
                JsonShape::Either(Arc::new(JsonShape::Unit), Arc::new(JsonShape::CallError)),
            ),
        ] {
            assert_eq!(*types.shape(name).unwrap(), shape, "{name}");
        }
    }

    #[test]
    fn names_that_make_no_sense_are_refused() {
        let types = catalog(&[]);
        let deep = format!("{}u8{}", "Vec<".repeat(1000), ">".repeat(1000));
        for name in
            ["", "Pair", "Vec<", "Vec<u8", "Option<u8, u8>", "[u8]", "[u8; x]", "NonZero<bool>", &deep]
        {
            assert!(types.shape(name).is_err(), "{name}");
        }
    }
}
