//! The descriptor of an interface, which the other side compares with its own.

use crate::{DescriptorBuilder, TypeDefinition, TypeDocs, TypeName, astack};
use std::fmt::Write as _;

/// The first line of every descriptor's text. It changes with the format of bytes.
const FORMAT: &str = "underpass wire 1";

/// An interface: its procedures, their types, and a hash over everything on which both sides must
/// agree.
///
/// # Examples
/// ```
/// use underpass::CallError;
///
/// /// Blocks of files.
/// #[underpass::interface]
/// trait Cache {
///     /// Reads.
///     fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>, CallError>;
/// }
///
/// let cache = CacheClient::descriptor();
/// assert_eq!(cache.procedures[0].fixed_arguments, Some(12));
/// assert_eq!(cache.procedures[0].fixed_result, None);
/// assert_eq!((cache.procedures[0].astack, cache.procedures[0].calls), (32 * 1024, 5));
/// assert_eq!(
///     cache.text(),
///     "underpass wire 1\n\
///      interface Cache\n\
///      procedure 0 read(offset: u64, len: u32) -> Result<Vec<u8>, CallError>\n\
///      A-stacks of 32768 bytes\n"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Descriptor {
    /// The trait's name.
    pub name: &'static str,
    /// The trait's documentation, as markdown.
    pub doc: &'static str,
    /// The procedures, by index.
    pub procedures: Vec<Procedure>,
    /// The structs and enums that the procedures use, by name.
    pub types: Vec<TypeDefinition>,
    /// The documentation of those types that have some. It is not part of the hash.
    pub docs: Vec<(TypeName, TypeDocs)>,
    /// Whether its author declares that no call depends on what a server has given a client before.
    pub stateless: bool,
    /// FNV-1a, 64 bits, of [`text`](Self::text). Two sides with the same hash understand each
    /// other.
    pub hash: u64,
    /// Its versions, the oldest first. The last is the whole interface, with the same hash. Two
    /// sides also understand each other if one of them has the other's last version.
    pub versions: Vec<InterfaceVersion>,
}

/// A version of an interface: without all methods and fields that were added later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceVersion {
    /// The hash of its text.
    pub hash: u64,
    /// The bytes of its A-stacks.
    pub astack: usize,
}

/// One method of the trait: what LRPC calls a procedure descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Procedure {
    /// Its index in calls: its position in the trait.
    pub index: u16,
    /// The method's name.
    pub name: &'static str,
    /// The method's documentation, as markdown.
    pub doc: &'static str,
    /// The arguments, in order, without `self`.
    pub arguments: Vec<Argument>,
    /// Its return type, which is always a `Result`.
    pub result: TypeName,
    /// The bytes of all arguments together, if that number is fixed.
    pub fixed_arguments: Option<usize>,
    /// The bytes of the result, if that number is fixed.
    pub fixed_result: Option<usize>,
    /// The bytes of its A-stack: the most that arguments and result take, if that is fixed (see
    /// [`astack::wanted`]), or the size that its author gives. Larger messages go out of band.
    pub astack: usize,
    /// How many concurrent calls are expected.
    pub calls: u32,
    /// The values of these two that its author gives.
    pub(crate) stated: (Option<usize>, Option<u32>),
    /// The bytes of a successful result, if that number is fixed.
    pub(crate) fixed_value: Option<usize>,
}

/// One argument of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// Its type, as it travels: `String` for a `&str`.
    pub of: TypeName,
}

impl Descriptor {
    /// Begins the descriptor of an interface.
    pub fn builder(name: &'static str, doc: &'static str) -> DescriptorBuilder {
        DescriptorBuilder::of_version(u32::MAX, name, doc)
    }

    pub(crate) fn new(
        name: &'static str,
        doc: &'static str,
        procedures: Vec<Procedure>,
        types: Vec<TypeDefinition>,
        stateless: bool,
    ) -> Self {
        let mut descriptor =
            Self { name, doc, procedures, types, docs: Vec::new(), stateless, hash: 0, versions: Vec::new() };
        descriptor.hash = fnv1a(descriptor.text().as_bytes());
        let (hash, astack) = (descriptor.hash, descriptor.astack());
        descriptor.versions.push(InterfaceVersion { hash, astack });
        descriptor
    }

    /// The bytes of the A-stacks. An interface's procedures share them, so this is the largest that
    /// any of them needs.
    pub fn astack(&self) -> usize {
        self.procedures.iter().map(|procedure| procedure.astack).max().unwrap_or(0)
    }

    /// How many concurrent calls are expected: the largest number of any procedure.
    pub fn calls(&self) -> u32 {
        self.procedures.iter().map(|procedure| procedure.calls).max().unwrap_or(astack::CALLS)
    }

    /// Whether a client may pass files: open ones, or memory for arguments and results that do not
    /// fit an A-stack. It may not if all arguments and all successful results have a fixed size and
    /// consist of numbers. An error that does not fit gets no file.
    pub fn client_may_pass_files(&self) -> bool {
        let astack = self.astack();
        self.procedures.iter().any(|procedure| {
            procedure.fixed_arguments.is_none_or(|size| size > astack)
                || procedure.fixed_value.is_none_or(|size| size > astack)
                || procedure.arguments.iter().any(|argument| !argument.of.is_of_numbers())
        })
    }

    /// Everything on which both sides must agree, one line for each thing. The documentation is not
    /// part of it.
    ///
    /// Names are part of it, also those of arguments and fields: if a name has changed, its meaning
    /// may have changed.
    pub fn text(&self) -> String {
        let stateless = if self.stateless { ", stateless" } else { "" };
        let mut text = format!("{FORMAT}\ninterface {}{stateless}\n", self.name);
        for procedure in &self.procedures {
            let _ = write!(text, "procedure {} {}(", procedure.index, procedure.name);
            for (i, argument) in procedure.arguments.iter().enumerate() {
                let _ = write!(text, "{}{}: {}", if i == 0 { "" } else { ", " }, argument.name, argument.of);
            }
            let _ = write!(text, ") -> {}", procedure.result);
            let (astack, calls) = procedure.stated;
            if let Some(bytes) = astack {
                let _ = write!(text, ", A-stack {bytes}");
            }
            if let Some(calls) = calls {
                let _ = write!(text, ", calls {calls}");
            }
            text.push('\n');
        }
        for definition in &self.types {
            let _ = writeln!(text, "{definition}");
        }
        let _ = writeln!(text, "A-stacks of {} bytes", self.astack());
        text
    }

    /// The differences between this interface (`here`) and the one of another side (`there`), given
    /// by its [`text`](Self::text). There is one line for each procedure and type, for error
    /// messages. Empty if there is no difference.
    ///
    /// The text may come from an untrusted peer, so what is shown of it is bounded and printable.
    ///
    /// # Examples
    /// ```
    /// use underpass::CallError;
    ///
    /// mod old {
    ///     # use super::CallError;
    ///     #[underpass::interface]
    ///     pub trait Cache {
    ///         fn read(&self, len: u32) -> Result<(), CallError>;
    ///     }
    /// }
    /// mod new {
    ///     # use super::CallError;
    ///     #[underpass::interface]
    ///     pub trait Cache {
    ///         fn read(&self, len: u64) -> Result<(), CallError>;
    ///     }
    /// }
    ///
    /// # fn main() {
    /// let (old, new) = (old::CacheClient::descriptor(), new::CacheClient::descriptor());
    /// assert_eq!(
    ///     old.differences(&new.text()),
    ///     "procedure read: here `0 read(len: u32) -> Result<(), CallError>`, \
    ///      there `0 read(len: u64) -> Result<(), CallError>`"
    /// );
    /// # }
    /// ```
    pub fn differences(&self, other_text: &str) -> String {
        crate::differences::differences(&self.text(), other_text)
    }
}

/// FNV-1a with 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encode, Sizes};

    #[test]
    fn the_hash_is_fnv1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn numbers_bring_no_files() {
        const TWO: Sizes = Sizes::of::<Result<u8, u8>>(&[u64::FIXED, <[u8; 4]>::FIXED], None);
        let mut numbers = Descriptor::builder("Numbers", "");
        numbers
            .procedure("two", "", TWO)
            .argument::<u64>("a")
            .argument::<[u8; 4]>("b")
            .result::<Result<u8, u8>>();
        assert!(!numbers.finish().client_may_pass_files());
        const FILE: Sizes = Sizes::of::<Result<u8, u8>>(&[std::fs::File::FIXED], None);
        let mut file = Descriptor::builder("Files", "");
        file.procedure("file", "", FILE).argument::<std::fs::File>("file").result::<Result<u8, u8>>();
        assert!(file.finish().client_may_pass_files());
        assert!(cache("", "offset").client_may_pass_files(), "no size is known of bytes");
        const LIST: Sizes = Sizes::of::<Result<Vec<u8>, u8>>(&[u64::FIXED], None);
        let mut list = Descriptor::builder("List", "");
        list.procedure("list", "", LIST).argument::<u64>("count").result::<Result<Vec<u8>, u8>>();
        assert!(list.finish().client_may_pass_files(), "memory for results is the client's");
        const TEXT: Sizes = Sizes::of::<Result<u8, String>>(&[u64::FIXED], None);
        let mut text = Descriptor::builder("Text", "");
        text.procedure("text", "", TEXT).argument::<u64>("number").result::<Result<u8, String>>();
        assert!(!text.finish().client_may_pass_files(), "an error is no reason");
    }

    #[test]
    fn that_an_interface_is_stateless_is_a_promise_to_both_sides() {
        let [stateful, stateless] = [false, true].map(|stateless| {
            let mut cache = Descriptor::builder("Cache", "");
            if stateless {
                cache.stateless();
            }
            cache.finish()
        });
        assert_ne!(stateful.hash, stateless.hash);
        let differences = stateful.differences(&stateless.text());
        assert_eq!(differences, "interface: here `Cache`, there `Cache, stateless`");
    }

    fn cache(doc: &'static str, argument: &'static str) -> Descriptor {
        let mut cache = Descriptor::builder("Cache", doc);
        let sizes = Sizes::of::<Result<u64, ()>>(&[None], None);
        cache.procedure("stat", doc, sizes).argument::<String>(argument).result::<Result<u64, ()>>();
        cache.finish()
    }

    #[test]
    fn documentation_does_not_count_and_names_do() {
        assert_eq!(cache("one", "path").hash, cache("another", "path").hash);
        assert_ne!(cache("one", "path").hash, cache("one", "file").hash);
    }
}
