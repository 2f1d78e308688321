//! The versions of an interface, and which of them two sides have in common.

use crate::{Descriptor, DescriptorBuilder, InterfaceVersion};

impl Descriptor {
    /// The most versions of an interface.
    pub const MOST_VERSIONS: u32 = 64;

    /// The descriptor of an interface with all its versions. `describe` adds everything to a
    /// builder. It is called once for each version, and the builder leaves out what was added
    /// later. So the text of a version is that of the source before anything was added to it.
    ///
    /// # Panics
    /// If something was added after version [`MOST_VERSIONS`](Self::MOST_VERSIONS). `#[interface]`
    /// and `#[derive(Wire)]` refuse that.
    pub fn of_versions(
        name: &'static str,
        doc: &'static str,
        describe: impl Fn(&mut DescriptorBuilder),
    ) -> Self {
        let of = |version| {
            let mut builder = DescriptorBuilder::of_version(version, name, doc);
            describe(&mut builder);
            builder
        };
        let whole = of(u32::MAX);
        let newest = whole.newest();
        assert!(newest <= Self::MOST_VERSIONS, "an interface has too many versions");
        let mut whole = whole.finish();
        let mut versions: Vec<InterfaceVersion> =
            (1..newest).flat_map(|version| of(version).finish().versions).collect();
        versions.append(&mut whole.versions);
        // In a version in which nothing was added to this interface, something was added to
        // another one that shares a type.
        versions.dedup();
        Self { versions, ..whole }
    }

    /// The descriptor of an interface as another process has described it, for a client that does
    /// not have its trait. It has one version, and no procedures: the client has them from that
    /// process.
    ///
    /// It lasts as long as this process, as all descriptors do.
    ///
    /// # Examples
    /// ```
    /// let cache = underpass::Descriptor::of_peer("Cache", 0x1234, 4096);
    /// assert_eq!((cache.hashes(), cache.astack()), (vec![0x1234], 0));
    /// assert_eq!(cache.versions[0].astack, 4096);
    /// ```
    pub fn of_peer(name: &str, hash: u64, astack: usize) -> &'static Self {
        Box::leak(Box::new(Self {
            name: Box::leak(name.to_owned().into_boxed_str()),
            doc: "",
            procedures: Vec::new(),
            types: Vec::new(),
            docs: Vec::new(),
            stateless: false,
            hash,
            versions: vec![InterfaceVersion { hash, astack }],
        }))
    }

    /// The hashes of all versions, the newest first.
    ///
    /// # Examples
    /// ```
    /// use underpass::CallError;
    ///
    /// #[underpass::interface]
    /// trait Cache {
    ///     fn read(&self, offset: u64) -> Result<u64, CallError>;
    ///     #[underpass(since = 2)]
    ///     fn flush(&self) -> Result<(), CallError>;
    /// }
    ///
    /// let cache = CacheClient::descriptor();
    /// assert_eq!(cache.hashes(), [cache.hash, cache.versions[0].hash]);
    /// ```
    pub fn hashes(&self) -> Vec<u64> {
        self.versions.iter().rev().map(|version| version.hash).collect()
    }

    /// The version with this hash.
    pub fn version(&self, hash: u64) -> Option<InterfaceVersion> {
        self.versions.iter().rev().find(|version| version.hash == hash).copied()
    }

    /// The version in which this side and one with these [`hashes`](Self::hashes) understand each
    /// other: the last one of either side, if the other side has it too.
    ///
    /// If each side has added something that the other does not have, there is none. An index or
    /// a place in a message would mean one thing here and another thing there.
    ///
    /// # Examples
    /// ```
    /// use underpass::CallError;
    ///
    /// mod old {
    ///     # use super::CallError;
    ///     #[underpass::interface]
    ///     pub trait Cache {
    ///         fn read(&self, offset: u64) -> Result<u64, CallError>;
    ///     }
    /// }
    /// mod new {
    ///     # use super::CallError;
    ///     #[underpass::interface]
    ///     pub trait Cache {
    ///         fn read(&self, offset: u64) -> Result<u64, CallError>;
    ///         #[underpass(since = 2)]
    ///         fn flush(&self) -> Result<(), CallError>;
    ///     }
    /// }
    ///
    /// # fn main() {
    /// let (old, new) = (old::CacheClient::descriptor(), new::CacheClient::descriptor());
    /// assert_eq!(new.common(&old.hashes()), Some(old.versions[0]));
    /// assert_eq!(old.common(&new.hashes()), Some(old.versions[0]));
    /// assert_eq!(new.common(&new.hashes()).unwrap().hash, new.hash);
    /// # }
    /// ```
    pub fn common(&self, hashes: &[u64]) -> Option<InterfaceVersion> {
        let theirs = self.version(*hashes.first()?);
        theirs.or_else(|| hashes.contains(&self.hash).then(|| self.version(self.hash)).flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decode, DecodeError, Definition, Encode, Schema, Sink, Sizes, Source, TypeName, Types};

    /// A struct with a field that was added in version `SINCE`. Its type has the name of another.
    struct Stat<const SINCE: u32>;

    impl<const SINCE: u32> Encode for Stat<SINCE> {
        const FIXED: Option<usize> = None;
        fn size(&self) -> usize {
            1
        }
        fn encode<S: Sink + ?Sized>(&self, _: &mut S) {}
    }

    impl<const SINCE: u32> Decode for Stat<SINCE> {
        const LEAST: usize = 1;
        fn decode<S: Source + ?Sized>(_: &mut S) -> Result<Self, DecodeError> {
            Ok(Self)
        }
    }

    impl<const SINCE: u32> Schema for Stat<SINCE> {
        type Itself = Self;
        fn schema(types: &mut Types) -> TypeName {
            let path = std::any::type_name::<Self>();
            types.define(path, TypeName::plain("Stat"), |types| {
                let mut added = Vec::new();
                if types.has(SINCE) {
                    added.push(("at", id(types, "a::Id")));
                }
                Definition::Extensible { first: Vec::new(), added }
            })
        }
    }

    fn id(types: &mut Types, path: &'static str) -> TypeName {
        types.define(path, TypeName::plain("Id"), |_| Definition::Enum(Vec::new()))
    }

    const SIZES: Sizes = Sizes::of::<Result<(), ()>>(&[], None);
    const LARGE: Sizes = Sizes::of::<Result<(), ()>>(&[], Some(4096));

    /// `stat`, in which something was added in version `SINCE`; then `names`, each added in the
    /// version beside it.
    fn cache<const SINCE: u32>(names: &[(&'static str, u32)]) -> Descriptor {
        Descriptor::of_versions("Cache", "", |cache| {
            cache.procedure("stat", "", SIZES).argument::<Stat<SINCE>>("stat").result::<Result<(), ()>>();
            for &(name, since) in names {
                cache.procedure(name, "", LARGE).since(since).result::<Result<(), ()>>();
            }
        })
    }

    #[test]
    fn a_version_is_as_before_anything_was_added() {
        let [one, two, three] = [&[][..], &[("flush", 2)], &[("flush", 2), ("drop", 3)]].map(cache::<1>);
        assert_eq!(one.versions.len(), 1);
        assert_eq!(two.versions, [one.versions[0], two.versions[1]]);
        assert_eq!(three.versions, [one.versions[0], two.versions[1], three.versions[2]]);
        let astacks: Vec<_> = three.versions.iter().map(|version| version.astack).collect();
        assert_eq!(astacks, [SIZES.astack, 4096, 4096]);
        assert_eq!(three.hash, three.versions[2].hash);
        assert_eq!(three.procedures.len(), 3);
    }

    #[test]
    fn an_interface_has_no_version_in_which_nothing_was_added() {
        assert_eq!(cache::<1>(&[("flush", 9)]).versions.len(), 2);
        assert_eq!(cache::<5>(&[("flush", 5), ("drop", 9)]).versions.len(), 3);
    }

    #[test]
    fn a_type_that_was_added_takes_no_name_from_an_earlier_one() {
        let text = |version| {
            let mut cache = DescriptorBuilder::of_version(version, "Cache", "");
            cache.procedure("stat", "", SIZES).argument::<Stat<2>>("stat").result::<Result<(), ()>>();
            cache.procedure("own", "", SIZES).argument::<Own>("id").result::<Result<(), ()>>();
            cache.finish().text()
        };
        // The field of version 2 is described before the method that version 1 has already.
        assert!(text(2).contains("own(id: Id#2)"), "{}", text(2));
        assert!(text(1).contains("own(id: Id)"), "{}", text(1));
    }

    /// Another type of the name `Id`.
    struct Own;

    impl Encode for Own {
        const FIXED: Option<usize> = Some(0);
        fn size(&self) -> usize {
            0
        }
        fn encode<S: Sink + ?Sized>(&self, _: &mut S) {}
    }

    impl Decode for Own {
        const LEAST: usize = 0;
        fn decode<S: Source + ?Sized>(_: &mut S) -> Result<Self, DecodeError> {
            Ok(Self)
        }
    }

    impl Schema for Own {
        type Itself = Self;
        fn schema(types: &mut Types) -> TypeName {
            id(types, "b::Id")
        }
    }

    #[test]
    fn one_side_must_have_the_last_version_of_the_other() {
        let [one, two, other, three] =
            [&[][..], &[("flush", 2)], &[("sync", 2)], &[("flush", 2), ("drop", 3)]].map(cache::<1>);
        let hash = |a: &Descriptor, b: &Descriptor| {
            let both = [a.common(&b.hashes()), b.common(&a.hashes())];
            assert_eq!(both[0], both[1], "both sides find the same");
            both[0].map(|version| version.hash)
        };
        assert_eq!(hash(&one, &one), Some(one.hash));
        assert_eq!(hash(&one, &three), Some(one.hash));
        assert_eq!(hash(&two, &three), Some(two.hash));
        assert_eq!(hash(&two, &other), None, "each has a procedure 1 of its own");
        assert_eq!(hash(&three, &other), None);
        assert_eq!(one.common(&[]), None);
        assert_eq!(one.common(&[1, 2, one.hash]), Some(one.versions[0]), "a newer side knows it");
    }

    #[test]
    #[should_panic(expected = "too many versions")]
    fn versions_are_bounded() {
        cache::<1>(&[("flush", Descriptor::MOST_VERSIONS + 1)]);
    }
}
