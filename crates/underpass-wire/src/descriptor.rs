//! What an interface looks like to the other side.

use crate::{DescriptorBuilder, TypeDefinition, TypeName, astack};
use std::fmt::Write as _;

/// The first line of every descriptor's text; it changes with the format of bytes.
const FORMAT: &str = "underpass wire 1";

/// An interface: its procedures, the types they speak of, and a hash over what both sides must
/// agree on.
///
/// # Examples
/// ```
/// use underpass_wire::{Descriptor, Encode, Sizes};
///
/// const READ: Sizes = Sizes::of::<Result<Vec<u8>, String>>(&[u64::FIXED, u32::FIXED], None);
/// let mut cache = Descriptor::builder("Cache", "Blocks of files.");
/// cache.procedure("read", "Reads.", READ).argument::<u64>("offset").argument::<u32>("len").result::<Result<Vec<u8>, String>>();
/// let cache = cache.finish();
///
/// assert_eq!(cache.procedures[0].fixed_arguments, Some(12));
/// assert_eq!(cache.procedures[0].fixed_result, None);
/// assert_eq!((cache.procedures[0].astack, cache.procedures[0].calls), (32 * 1024, 5));
/// assert_eq!(
///     cache.text(),
///     "underpass wire 1\n\
///      interface Cache\n\
///      procedure 0 read(offset: u64, len: u32) -> Result<Vec<u8>, String>\n\
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
    /// Structs and enums that the procedures speak of, by name.
    pub types: Vec<TypeDefinition>,
    /// Whether no call depends on what a server has given a client before, as its author says.
    pub stateless: bool,
    /// FNV-1a, 64 bits, of [`text`](Self::text): two sides with the same hash understand each
    /// other.
    pub hash: u64,
}

/// One method of the trait: what LRPC calls a procedure descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Procedure {
    /// Its number in calls: its position in the trait.
    pub index: u16,
    /// The method's name.
    pub name: &'static str,
    /// The method's documentation, as markdown.
    pub doc: &'static str,
    /// The arguments, in order, without `self`.
    pub arguments: Vec<Argument>,
    /// What it returns: always a `Result`.
    pub result: TypeName,
    /// How many bytes all arguments take together, if that is always the same.
    pub fixed_arguments: Option<usize>,
    /// How many bytes the result takes, if that is always the same.
    pub fixed_result: Option<usize>,
    /// Bytes of its A-stack: what arguments and result take at the most, if that is always the same
    /// (see [`astack::wanted`]), or what its author says. More goes out of band.
    pub astack: usize,
    /// How many of its calls are expected at once.
    pub calls: u32,
    /// What its author has said of the two.
    pub(crate) stated: (Option<usize>, Option<u32>),
    /// Bytes of a result that went well, if that is always the same.
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
        DescriptorBuilder::new(name, doc)
    }

    pub(crate) fn new(
        name: &'static str,
        doc: &'static str,
        procedures: Vec<Procedure>,
        types: Vec<TypeDefinition>,
        stateless: bool,
    ) -> Self {
        let mut descriptor = Self { name, doc, procedures, types, stateless, hash: 0 };
        descriptor.hash = fnv1a(descriptor.text().as_bytes());
        descriptor
    }

    /// Bytes of the A-stacks: an interface's procedures share them, so it is the most that one of
    /// them wants.
    pub fn astack(&self) -> usize {
        self.procedures.iter().map(|procedure| procedure.astack).max().unwrap_or(0)
    }

    /// How many calls are expected at once: the most that one of the procedures expects.
    pub fn calls(&self) -> u32 {
        self.procedures.iter().map(|procedure| procedure.calls).max().unwrap_or(astack::CALLS)
    }

    /// Whether a client may pass files: open ones, or memory for arguments and results that an
    /// A-stack has no room for. It can't if all arguments of all procedures are numbers of known
    /// size, or made of such, and all results that went well are of known size. An error that has
    /// no room goes without.
    pub fn client_may_pass_files(&self) -> bool {
        let astack = self.astack();
        self.procedures.iter().any(|procedure| {
            procedure.fixed_arguments.is_none_or(|size| size > astack)
                || procedure.fixed_value.is_none_or(|size| size > astack)
                || procedure.arguments.iter().any(|argument| !argument.of.is_of_numbers())
        })
    }

    /// Everything on which both sides must agree, a line for each thing; documentation is not part
    /// of it.
    ///
    /// Names are, those of arguments and fields too: a name that has changed is a meaning that may
    /// have.
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

    /// What differs between this interface (`here`) and that of another side (`there`), whose
    /// [`text`](Self::text) it is: a line for each procedure and type, for error messages; empty if
    /// nothing does.
    ///
    /// The text may be a stranger's: what is shown of it is bounded and printable.
    ///
    /// # Examples
    /// ```
    /// # use underpass_wire::{Descriptor, Encode, Sizes};
    /// # let mut old = Descriptor::builder("Cache", "");
    /// # old.procedure("read", "", Sizes::of::<Result<(), ()>>(&[u32::FIXED], None)).argument::<u32>("len").result::<Result<(), ()>>();
    /// # let old = old.finish();
    /// # let mut new = Descriptor::builder("Cache", "");
    /// # new.procedure("read", "", Sizes::of::<Result<(), ()>>(&[u64::FIXED], None)).argument::<u64>("len").result::<Result<(), ()>>();
    /// # let new = new.finish();
    /// assert_eq!(
    ///     old.differences(&new.text()),
    ///     "procedure read: here `0 read(len: u32) -> Result<(), ()>`, there `0 read(len: u64) -> Result<(), ()>`"
    /// );
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
