//! `underpass describe`: an interface as the trait that one would write, with its documentation.

use super::{interfaces, json_line, rust_text};
use anyhow::Result;
use serde_json::{Value, json};
use std::io::Write;
use underpass::inspect::{FieldsView, InterfaceView, MethodView, StructureView, TypeView};

/// What `underpass describe` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub struct DescribeOptions {
    /// The name under which the interface is exported
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Describes the interfaces of a name.
///
/// # Errors
/// The name does not tell, or the standard output can't be written.
pub fn run(options: &DescribeOptions) -> Result<()> {
    let interfaces = interfaces(&options.name)?;
    let mut out = anstream::stdout().lock();
    if options.json {
        let interfaces: Vec<_> = interfaces.iter().map(as_json).collect();
        writeln!(out, "{}", json_line(&json!({ "name": options.name, "interfaces": interfaces })))?;
        return Ok(());
    }
    for (index, interface) in interfaces.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        write!(out, "{}", rust_text::of(interface))?;
    }
    Ok(())
}

fn as_json(of: &InterfaceView) -> Value {
    let versions = of
        .versions
        .iter()
        .map(|version| json!({ "hash": format!("{:016x}", version.hash), "astack": version.astack }));
    json!({
        "name": of.name,
        "doc": of.doc,
        "stateless": of.stateless,
        "hash": format!("{:016x}", of.hash),
        "versions": versions.collect::<Vec<_>>(),
        "methods": of.methods.iter().map(method_as_json).collect::<Vec<_>>(),
        "types": of.types.iter().map(type_as_json).collect::<Vec<_>>(),
    })
}

fn method_as_json(of: &MethodView) -> Value {
    json!({ "name": of.name, "doc": of.doc, "arguments": named(&of.arguments), "result": of.result })
}

fn type_as_json(of: &TypeView) -> Value {
    let structure = match &of.structure {
        StructureView::Struct(fields) => json!({ "struct": fields_as_json(fields) }),
        StructureView::Extensible { first, added } => {
            json!({ "struct": named(first), "added": named(added) })
        }
        StructureView::Enum(variants) => {
            let variants = variants
                .iter()
                .map(|variant| json!({ "name": variant.name, "fields": fields_as_json(&variant.fields) }));
            json!({ "enum": variants.collect::<Vec<_>>() })
        }
        StructureView::Interface(methods) => {
            json!({ "interface": methods.iter().map(method_as_json).collect::<Vec<_>>() })
        }
    };
    let docs: serde_json::Map<_, _> =
        of.docs.iter().map(|(part, doc)| (part.clone(), Value::String(doc.clone()))).collect();
    json!({ "name": of.name, "is": structure, "docs": docs })
}

/// Nothing, types, or names with types.
fn fields_as_json(of: &FieldsView) -> Value {
    match of {
        FieldsView::Unit => Value::Null,
        FieldsView::Tuple(types) => json!(types),
        FieldsView::Named(fields) => named(fields),
    }
}

fn named(fields: &[(String, String)]) -> Value {
    fields.iter().map(|(name, of)| json!({ "name": name, "type": of })).collect()
}
