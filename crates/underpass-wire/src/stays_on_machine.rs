//! Which interfaces can't be called from another machine.

use crate::{Definition, Descriptor, Fields, Procedure, TypeName};
use std::collections::HashSet;

/// What can't leave its machine, by the first words of the types' names.
const BOUND: [(&str, &str); 2] = [("OwnedFd", "an open file"), ("File", "an open file")];

/// What travels by messages of its own. One can go each way.
const STREAM: &str = "Stream";

/// What can't leave its machine, and the type that has it.
type BoundPart = (&'static str, String);

impl Descriptor {
    /// Why the interface can't be called from another machine, if it can't: a method has an open
    /// file or an interface among its arguments or results, or several streams in one direction.
    /// The text names it.
    ///
    /// # Examples
    /// ```
    /// use std::fs::File;
    /// use underpass::CallError;
    ///
    /// #[underpass::interface]
    /// trait Cache {
    ///     fn read(&self, offset: u64) -> Result<Vec<u8>, CallError>;
    ///     fn open(&self, path: &str) -> Result<File, CallError>;
    /// }
    ///
    /// let why = CacheClient::descriptor().stays_on_machine().unwrap();
    /// assert_eq!(why, "`open` passes an open file (Result<File, CallError>), which can't leave its machine");
    /// ```
    pub fn stays_on_machine(&self) -> Option<String> {
        self.procedures.iter().find_map(|procedure| {
            let (what, of) = match self.streams(procedure) {
                Ok([..=1, ..=1]) => return None,
                Ok(_) => ("several streams in one direction", procedure.result.to_string()),
                Err(bound) => bound,
            };
            Some(format!("`{}` passes {what} ({of}), which can't leave its machine", procedure.name))
        })
    }

    /// Whether the procedure has a stream among its arguments or results.
    ///
    /// # Examples
    /// ```
    /// use underpass::CallError;
    /// use underpass::stream::Stream;
    ///
    /// #[underpass::interface]
    /// trait Table {
    ///     fn rows(&self) -> Result<Stream<u64>, CallError>;
    ///     fn clear(&self) -> Result<(), CallError>;
    /// }
    ///
    /// let table = TableClient::descriptor();
    /// assert_eq!([0, 1].map(|n| table.passes_streams(&table.procedures[n])), [true, false]);
    /// ```
    pub fn passes_streams(&self, procedure: &Procedure) -> bool {
        self.streams(procedure).is_ok_and(|streams| streams != [0, 0])
    }

    /// How many streams are seen among the arguments and in the result.
    ///
    /// # Errors
    /// The first part of the procedure's types that can't leave its machine.
    fn streams(&self, procedure: &Procedure) -> Result<[usize; 2], BoundPart> {
        let arguments = procedure.arguments.iter().rev().map(|argument| argument.of.clone());
        Ok([self.streams_of(arguments.collect())?, self.streams_of(vec![procedure.result.clone()])?])
    }

    /// How many streams are seen in these types. Those in a type that occurs twice count once.
    ///
    /// # Errors
    /// As [`streams`](Self::streams).
    fn streams_of(&self, mut left: Vec<TypeName>) -> Result<usize, BoundPart> {
        let (mut seen, mut streams) = (HashSet::new(), 0);
        while let Some(name) = left.pop() {
            let mut before = "";
            for word in words(&name) {
                // What serde knows consists of bytes, whatever its name.
                let by_serde = std::mem::replace(&mut before, word) == "Serde";
                let defined = self.types.iter().any(|defined| first_word(&defined.name) == word);
                if by_serde || defined {
                    continue;
                }
                if let Some(bound) = BOUND.iter().find(|bound| bound.0 == word) {
                    return Err((bound.1, name.to_string()));
                }
                streams += usize::from(word == STREAM);
            }
            // All definitions whose name is a part of this one.
            let parts = self.types.iter().filter(|defined| name.as_str().contains(defined.name.as_str()));
            for defined in parts {
                if let Definition::Interface(_) = defined.definition {
                    return Err(("an interface", defined.name.to_string()));
                }
                if seen.insert(&defined.name) {
                    left.extend(names(&defined.definition));
                }
            }
        }
        Ok(streams)
    }
}

/// The words of a type's name.
fn words(name: &TypeName) -> impl Iterator<Item = &str> {
    let words = name.as_str().split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    words.filter(|word| !word.is_empty())
}

fn first_word(name: &TypeName) -> &str {
    words(name).next().unwrap_or_default()
}

/// The names of the types in a definition.
fn names(definition: &Definition) -> Vec<TypeName> {
    let named = |fields: &[(&str, TypeName)]| fields.iter().map(|field| field.1.clone()).collect::<Vec<_>>();
    let of_fields = |fields: &Fields| match fields {
        Fields::Unit => Vec::new(),
        Fields::Tuple(types) => types.clone(),
        Fields::Named(fields) => named(fields),
    };
    match definition {
        Definition::Struct(fields) => of_fields(fields),
        Definition::Extensible { first, added } => [named(first), named(added)].concat(),
        Definition::Enum(variants) => {
            variants.iter().flat_map(|variant| of_fields(&variant.fields)).collect()
        }
        Definition::Interface(_) => Vec::new(),
    }
}
