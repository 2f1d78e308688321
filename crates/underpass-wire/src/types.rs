//! Names and structure of types.

use crate::{DescriptorBuilder, Procedure};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// The name of a type in descriptors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeName(String);

impl TypeName {
    /// A name without arguments.
    pub fn plain(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// A name with arguments: `Pair<u8, String>`.
    pub fn generic(name: &str, arguments: &[Self]) -> Self {
        if arguments.is_empty() { Self::plain(name) } else { Self(format!("{name}<{}>", Listed(arguments))) }
    }

    /// A tuple of `parts`.
    pub fn tuple(parts: &[Self]) -> Self {
        match parts {
            [one] => Self(format!("({one},)")),
            _ => Self(format!("({})", Listed(parts))),
        }
    }

    /// An array of `len` elements.
    pub fn array(element: &Self, len: usize) -> Self {
        Self(format!("[{element}; {len}]"))
    }

    /// Whether values of the type consist only of numbers, and tuples and arrays of numbers.
    pub(crate) fn is_of_numbers(&self) -> bool {
        const NUMBERS: [&str; 16] = [
            "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
            "f64", "bool", "char",
        ];
        let words = self.0.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        words
            .filter(|word| !word.is_empty())
            .all(|word| NUMBERS.contains(&word) || word.bytes().all(|digit| digit.is_ascii_digit()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parts with commas in between.
struct Listed<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Listed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.0.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            part.fmt(f)?;
        }
        Ok(())
    }
}

/// The structure of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// A struct of these fields.
    Struct(Fields),
    /// A struct of named fields to which later versions may add others.
    Extensible {
        /// The fields that all versions have.
        first: Vec<(&'static str, TypeName)>,
        /// The fields that were added, in order.
        added: Vec<(&'static str, TypeName)>,
    },
    /// An enum of these variants.
    Enum(Vec<Variant>),
    /// An interface, as a value, with these methods.
    Interface(Vec<MethodSchema>),
}

/// A method of an interface that travels as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MethodSchema {
    /// Its name.
    pub name: &'static str,
    /// The names and types of its arguments.
    pub arguments: Vec<(&'static str, TypeName)>,
    /// Its return type.
    pub result: TypeName,
}

/// The fields of a struct or of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fields {
    /// None.
    Unit,
    /// Fields with positions.
    Tuple(Vec<TypeName>),
    /// Fields with names.
    Named(Vec<(&'static str, TypeName)>),
}

/// One variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// Its fields.
    pub fields: Fields,
}

/// A type and its structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDefinition {
    /// Its name.
    pub name: TypeName,
    /// Its structure.
    pub definition: Definition,
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit => Ok(()),
            Self::Tuple(types) => write!(f, "({})", Listed(types)),
            Self::Named(fields) if fields.is_empty() => f.write_str(" {}"),
            Self::Named(fields) => {
                for (i, (name, of)) in fields.iter().enumerate() {
                    write!(f, "{}{name}: {of}", if i == 0 { " { " } else { ", " })?;
                }
                f.write_str(" }")
            }
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, self.fields)
    }
}

impl MethodSchema {
    fn of(procedure: Procedure) -> Self {
        let arguments = procedure.arguments.into_iter().map(|argument| (argument.name, argument.of));
        Self { name: procedure.name, arguments: arguments.collect(), result: procedure.result }
    }
}

impl fmt::Display for MethodSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for (i, (name, of)) in self.arguments.iter().enumerate() {
            write!(f, "{}{name}: {of}", if i == 0 { "" } else { ", " })?;
        }
        write!(f, ") -> {}", self.result)
    }
}

impl fmt::Display for TypeDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.definition {
            Definition::Struct(fields) => write!(f, "struct {}{fields}", self.name),
            Definition::Extensible { first, added } => {
                write!(f, "struct {} {{ ", self.name)?;
                first.iter().try_for_each(|(name, of)| write!(f, "{name}: {of}, "))?;
                f.write_str("..")?;
                added.iter().try_for_each(|(name, of)| write!(f, ", {name}: {of}"))?;
                f.write_str(" }")
            }
            Definition::Interface(methods) if methods.is_empty() => write!(f, "{} {{}}", self.name),
            Definition::Interface(methods) => {
                write!(f, "{} {{ ", self.name)?;
                methods.iter().try_for_each(|method| write!(f, "{method}; "))?;
                f.write_str("}")
            }
            Definition::Enum(variants) if variants.is_empty() => write!(f, "enum {} {{}}", self.name),
            Definition::Enum(variants) => write!(f, "enum {} {{ {} }}", self.name, Listed(variants)),
        }
    }
}

/// Collects the definitions of types, each once, also recursive ones.
///
/// # Examples
/// ```
/// use underpass_wire::{Definition, Fields, TypeName, Types};
///
/// struct Tree(Vec<Tree>);
///
/// // What a derived `Schema` does.
/// fn tree(types: &mut Types) -> TypeName {
///     types.define(std::any::type_name::<Tree>(), TypeName::plain("Tree"), |types| {
///         Definition::Struct(Fields::Tuple(vec![TypeName::generic("Vec", &[tree(types)])]))
///     })
/// }
///
/// let mut types = Types::new();
/// tree(&mut types);
/// assert_eq!(types.finish()[0].to_string(), "struct Tree(Vec<Tree>)");
/// ```
#[derive(Debug)]
pub struct Types {
    /// The version that is described: what was added later is left out.
    version: u32,
    /// The version in which the last of all parts was added, also of those that are left out.
    newest: u32,
    /// By path.
    names: HashMap<&'static str, TypeName>,
    /// By name. A type whose fields are being examined has no definition yet.
    definitions: BTreeMap<TypeName, Option<Definition>>,
    /// By name.
    docs: BTreeMap<TypeName, TypeDocs>,
}

/// The documentation of a type and of its parts, as markdown: what is documented, and how. The type
/// itself is `""`, a field its name or position, a variant its name, and a variant's field
/// `Variant.field`.
pub type TypeDocs = &'static [(&'static str, &'static str)];

impl Default for Types {
    fn default() -> Self {
        Self::of_version(u32::MAX)
    }
}

impl Types {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// None yet, and later only those of one version.
    pub(crate) fn of_version(version: u32) -> Self {
        let (names, definitions, docs) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { version, newest: 1, names, definitions, docs }
    }

    /// Whether the version that is described has a part that was added in version `since`.
    pub fn has(&mut self, since: u32) -> bool {
        self.newest = self.newest.max(since);
        since <= self.version
    }

    /// The version in which the last part was added.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// Names the type of that `path` (from [`std::any::type_name`]). The first time, it also has
    /// the type defined.
    ///
    /// If another type has the `name` already, this one gets a number after it.
    pub fn define(
        &mut self,
        path: &'static str,
        name: TypeName,
        definition: impl FnOnce(&mut Self) -> Definition,
    ) -> TypeName {
        if let Some(name) = self.names.get(path) {
            return name.clone();
        }
        let mut free = name.clone();
        for n in 2.. {
            if !self.definitions.contains_key(&free) {
                break;
            }
            free = TypeName(format!("{name}#{n}"));
        }
        self.names.insert(path, free.clone());
        self.definitions.insert(free.clone(), None);
        let definition = definition(self);
        self.definitions.insert(free.clone(), Some(definition));
        free
    }

    /// Keeps the documentation of a type that was defined. It is for display, and part of no hash.
    pub fn document(&mut self, name: &TypeName, docs: TypeDocs) {
        self.docs.insert(name.clone(), docs);
    }

    /// The documentation of all types that have some, in the order of their names.
    pub(crate) fn docs(&self) -> Vec<(TypeName, TypeDocs)> {
        self.docs.iter().map(|(name, docs)| (name.clone(), *docs)).collect()
    }

    /// Names the interface whose client stub has that `path`. The first time, `describe` adds its
    /// methods. A value of it has all methods of all versions, whichever version of the interface
    /// around it is described.
    pub fn interface(
        &mut self,
        path: &'static str,
        name: &'static str,
        describe: impl FnOnce(&mut DescriptorBuilder),
    ) -> TypeName {
        self.define(path, TypeName(format!("interface {name}")), |types| {
            let (version, newest) = (types.version, types.newest);
            types.version = u32::MAX;
            let mut inner = DescriptorBuilder::with_types(name, std::mem::take(types));
            describe(&mut inner);
            let (procedures, inner) = inner.into_parts();
            *types = Self { version, newest, ..inner };
            Definition::Interface(procedures.into_iter().map(MethodSchema::of).collect())
        })
    }

    /// All definitions, in the order of their names.
    pub fn finish(self) -> Vec<TypeDefinition> {
        let defined = self.definitions.into_iter();
        defined
            .filter_map(|(name, definition)| Some(TypeDefinition { name, definition: definition? }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decode, DecodeError, Encode, Schema, Sink, Sizes, SliceSink, Source, from_bytes, to_bytes};

    #[test]
    fn types_of_one_name_are_told_apart() {
        let mut types = Types::new();
        let unit = |_: &mut Types| Definition::Struct(Fields::Unit);
        assert_eq!(types.define("a::Id", TypeName::plain("Id"), unit).as_str(), "Id");
        assert_eq!(types.define("b::Id", TypeName::plain("Id"), unit).as_str(), "Id#2");
        assert_eq!(types.define("a::Id", TypeName::plain("Id"), unit).as_str(), "Id");
        assert_eq!(types.finish().len(), 2);
    }

    #[test]
    fn definitions_read_like_rust() {
        let name =
            TypeName::generic("Pair", &[TypeName::plain("u8"), TypeName::tuple(&[TypeName::plain("u16")])]);
        let variants = vec![
            Variant { name: "Unit", fields: Fields::Unit },
            Variant {
                name: "Tuple",
                fields: Fields::Tuple(vec![TypeName::plain("u8"), TypeName::plain("()")]),
            },
            Variant {
                name: "Named",
                fields: Fields::Named(vec![("a", TypeName::array(&TypeName::plain("u8"), 3))]),
            },
            Variant { name: "Empty", fields: Fields::Named(vec![]) },
        ];
        let definition = TypeDefinition { name, definition: Definition::Enum(variants) };
        assert_eq!(
            definition.to_string(),
            "enum Pair<u8, (u16,)> { Unit, Tuple(u8, ()), Named { a: [u8; 3] }, Empty {} }"
        );
        let field = |name| (name, TypeName::plain("u8"));
        for (first, added, text) in [
            (vec![], vec![], "struct S { .. }"),
            (vec![field("a")], vec![], "struct S { a: u8, .. }"),
            (vec![field("a"), field("b")], vec![field("c")], "struct S { a: u8, b: u8, .., c: u8 }"),
        ] {
            let definition = Definition::Extensible { first, added };
            assert_eq!(TypeDefinition { name: TypeName::plain("S"), definition }.to_string(), text);
        }
    }

    /// A client stub.
    struct Cursor;

    impl Encode for Cursor {
        const FIXED: Option<usize> = Some(0);

        fn size(&self) -> usize {
            0
        }

        fn encode<S: Sink + ?Sized>(&self, to: &mut S) {
            to.put_interface(&7u8);
        }
    }

    impl Decode for Cursor {
        fn decode<S: Source + ?Sized>(from: &mut S) -> Result<Self, DecodeError> {
            from.take_interface().map(|_| Self)
        }
    }

    impl Schema for Cursor {
        type Itself = Self;

        fn schema(types: &mut Types) -> TypeName {
            types.interface("a::Cursor", "Cursor", |cursor| {
                const SIZES: Sizes = Sizes::of::<Result<Option<u64>, ()>>(&[], None);
                cursor.procedure("next", "", SIZES).result::<Result<Option<u64>, ()>>();
                cursor.procedure("skip", "", SIZES).argument::<u32>("n").result::<Result<Cursor, ()>>();
                cursor.procedure("added", "", SIZES).since(3).result::<Result<(), ()>>();
            })
        }
    }

    #[test]
    fn an_interface_is_defined_once_and_may_pass_itself() {
        let mut types = Types::of_version(2);
        let names = [Cursor::schema(&mut types), <Vec<Cursor>>::schema(&mut types)];
        assert_eq!(names.map(|name| name.to_string()), ["interface Cursor", "Vec<interface Cursor>"]);
        assert_eq!(types.newest(), 1, "its versions are its own");
        let defined: Vec<_> = types.finish().iter().map(ToString::to_string).collect();
        assert_eq!(
            defined,
            ["interface Cursor { next() -> Result<Option<u64>, ()>; \
              skip(n: u32) -> Result<interface Cursor, ()>; added() -> Result<(), ()>; }"]
        );
        assert!(!Cursor::schema(&mut Types::new()).is_of_numbers(), "it may bring files");
    }

    #[test]
    fn bytes_alone_carry_no_interface() {
        assert_eq!(to_bytes(&Cursor), []);
        assert_eq!(from_bytes::<Cursor>(&[]).err(), Some(DecodeError::NoInterface));
        let mut cell = [0; 8];
        let mut sink = SliceSink::new(&mut cell);
        (1u8, Cursor).encode(&mut sink);
        assert!(sink.overflowed());
    }
}
