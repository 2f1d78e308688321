//! A descriptor, in types that travel.

use super::{FieldsView, InterfaceView, MethodView, StructureView, TypeView, VariantView, VersionView};
use underpass_wire::{
    Definition, Descriptor, Fields, MethodSchema, Procedure, TypeDefinition, TypeName, Variant,
};

impl From<&Descriptor> for InterfaceView {
    fn from(of: &Descriptor) -> Self {
        let versions = of.versions.iter();
        Self {
            name: of.name.to_owned(),
            doc: of.doc.to_owned(),
            stateless: of.stateless,
            hash: of.hash,
            versions: versions
                .map(|version| VersionView { hash: version.hash, astack: version.astack as u64 })
                .collect(),
            methods: of.procedures.iter().map(MethodView::from).collect(),
            types: of.types.iter().map(|definition| TypeView::of(definition, of)).collect(),
        }
    }
}

impl From<&Procedure> for MethodView {
    fn from(of: &Procedure) -> Self {
        let arguments = of.arguments.iter();
        Self {
            name: of.name.to_owned(),
            doc: of.doc.to_owned(),
            arguments: arguments
                .map(|argument| (argument.name.to_owned(), argument.of.as_str().to_owned()))
                .collect(),
            result: of.result.as_str().to_owned(),
        }
    }
}

impl From<&MethodSchema> for MethodView {
    fn from(of: &MethodSchema) -> Self {
        Self {
            name: of.name.to_owned(),
            doc: String::new(),
            arguments: named(&of.arguments),
            result: of.result.as_str().to_owned(),
        }
    }
}

impl TypeView {
    /// A type of `descriptor`.
    fn of(of: &TypeDefinition, descriptor: &Descriptor) -> Self {
        let documented = descriptor.docs.iter().find(|(name, _)| *name == of.name);
        let docs = documented.into_iter().flat_map(|(_, docs)| *docs);
        let structure = match &of.definition {
            Definition::Struct(fields) => StructureView::Struct(fields.into()),
            Definition::Extensible { first, added } => {
                StructureView::Extensible { first: named(first), added: named(added) }
            }
            Definition::Enum(variants) => {
                StructureView::Enum(variants.iter().map(VariantView::from).collect())
            }
            Definition::Interface(methods) => {
                StructureView::Interface(methods.iter().map(MethodView::from).collect())
            }
        };
        Self {
            name: of.name.as_str().to_owned(),
            structure,
            docs: docs.map(|(part, doc)| ((*part).to_owned(), (*doc).to_owned())).collect(),
        }
    }
}

impl From<&Variant> for VariantView {
    fn from(of: &Variant) -> Self {
        Self { name: of.name.to_owned(), fields: (&of.fields).into() }
    }
}

impl From<&Fields> for FieldsView {
    fn from(of: &Fields) -> Self {
        match of {
            Fields::Unit => Self::Unit,
            Fields::Tuple(types) => Self::Tuple(types.iter().map(|of| of.as_str().to_owned()).collect()),
            Fields::Named(fields) => Self::Named(named(fields)),
        }
    }
}

fn named(fields: &[(&'static str, TypeName)]) -> Vec<(String, String)> {
    fields.iter().map(|(name, of)| ((*name).to_owned(), of.as_str().to_owned())).collect()
}
