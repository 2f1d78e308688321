//! How generated code makes a descriptor.

use crate::{Argument, Carried, Descriptor, Procedure, Sizes, TypeName, Types, astack, carried};

/// A [`Descriptor`] in the making. Generated code fills it.
#[derive(Debug)]
pub struct DescriptorBuilder {
    name: &'static str,
    doc: &'static str,
    procedures: Vec<Procedure>,
    types: Types,
    stateless: bool,
}

impl DescriptorBuilder {
    /// Of one version: what was added later is left out.
    pub(crate) fn of_version(version: u32, name: &'static str, doc: &'static str) -> Self {
        let types = Types::of_version(version);
        Self { name, doc, procedures: Vec::new(), types, stateless: false }
    }

    /// Of an interface that travels as a value. Its types are added to `types`.
    pub(crate) fn with_types(name: &'static str, types: Types) -> Self {
        Self { name, doc: "", procedures: Vec::new(), types, stateless: false }
    }

    /// The procedures and the types that were added.
    pub(crate) fn into_parts(self) -> (Vec<Procedure>, Types) {
        (self.procedures, self.types)
    }

    /// Adds the next procedure, with messages of these sizes. Its
    /// [`result`](ProcedureBuilder::result) completes it.
    pub fn procedure(&mut self, name: &'static str, doc: &'static str, sizes: Sizes) -> ProcedureBuilder<'_> {
        ProcedureBuilder { interface: self, name, doc, arguments: Vec::new(), sizes, calls: None, since: 1 }
    }

    /// Declares that no call depends on what a server has given a client before.
    pub fn stateless(&mut self) {
        self.stateless = true;
    }

    /// The newest version of the interface, whichever is described.
    pub(crate) fn newest(&self) -> u32 {
        self.types.newest()
    }

    /// The descriptor of all that was added. It has one version:
    /// [`of_versions`](Descriptor::of_versions) makes it for several.
    pub fn finish(self) -> Descriptor {
        let docs = self.types.docs();
        let types = self.types.finish();
        let finished = Descriptor::new(self.name, self.doc, self.procedures, types, self.stateless);
        Descriptor { docs, ..finished }
    }
}

/// A [`Procedure`] in the making.
#[derive(Debug)]
#[must_use = "a procedure is added by its `result`"]
pub struct ProcedureBuilder<'a> {
    interface: &'a mut DescriptorBuilder,
    name: &'static str,
    doc: &'static str,
    arguments: Vec<Argument>,
    sizes: Sizes,
    calls: Option<u32>,
    since: u32,
}

impl ProcedureBuilder<'_> {
    /// Sets the version of the interface in which the procedure was added. The default is 1. Call
    /// it before the others: no type of a procedure that is left out belongs to the interface.
    pub fn since(mut self, version: u32) -> Self {
        self.since = version;
        self
    }

    /// Adds the next argument, of the type that travels.
    pub fn argument<C: Carried>(mut self, name: &'static str) -> Self {
        let of = self.of::<C>();
        self.arguments.extend(of.map(|of| Argument { name, of }));
        self
    }

    /// The name of a type, unless the procedure is left out.
    fn of<C: Carried>(&mut self) -> Option<TypeName> {
        let types = &mut self.interface.types;
        types.has(self.since).then(|| carried::schema::<C, ()>(types))
    }

    /// Sets how many concurrent calls are expected. The default is [`astack::CALLS`].
    pub fn calls(mut self, calls: u32) -> Self {
        self.calls = Some(calls);
        self
    }

    /// Sets the return type, and adds the procedure to the interface.
    ///
    /// # Panics
    /// If the interface has 65,536 procedures, or if the number of concurrent calls is 0 or more
    /// than [`astack::MOST_CALLS`]. `#[interface]` refuses such interfaces.
    pub fn result<R: Carried>(mut self) {
        assert!(self.calls.is_none_or(|calls| (1..=astack::MOST_CALLS).contains(&calls)), "calls at once");
        let index = u16::try_from(self.interface.procedures.len()).expect("at most 65,536 procedures");
        let Some(result) = self.of::<R>() else { return };
        self.interface.procedures.push(Procedure {
            index,
            name: self.name,
            doc: self.doc,
            arguments: self.arguments,
            result,
            fixed_arguments: self.sizes.arguments,
            fixed_result: self.sizes.result,
            fixed_value: self.sizes.value,
            astack: self.sizes.astack,
            calls: self.calls.unwrap_or(astack::CALLS),
            stated: (self.sizes.stated, self.calls),
        });
    }
}
