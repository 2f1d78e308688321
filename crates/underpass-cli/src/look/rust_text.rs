//! An interface as the trait that one would write.

use super::terminal_text::{printable, printable_name as shown};
use std::fmt::Write as _;
use underpass::inspect::{FieldsView, InterfaceView, MethodView, StructureView, TypeView};

/// The Rust text of an interface and of its types.
pub(super) fn of(interface: &InterfaceView) -> String {
    let mut text = String::new();
    let options = if interface.stateless { "(stateless)" } else { "" };
    doc(&mut text, "", &interface.doc);
    let _ = writeln!(text, "#[underpass::interface{options}]\npub trait {} {{", shown(&interface.name));
    for (index, method) in interface.methods.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        doc(&mut text, "    ", &method.doc);
        let _ = writeln!(text, "    {};", signature(method));
    }
    text.push_str("}\n");
    for of in &interface.types {
        text.push('\n');
        Documented(of).definition(&mut text);
    }
    printable(&text)
}

fn doc(text: &mut String, indent: &str, doc: &str) {
    for line in doc.lines() {
        let space = if line.is_empty() { "" } else { " " };
        let _ = writeln!(text, "{indent}///{space}{line}");
    }
}

/// The method as it is declared, without its end.
fn signature(method: &MethodView) -> String {
    let mut text = format!("fn {}(&self", shown(&method.name));
    for (name, of) in &method.arguments {
        let _ = write!(text, ", {}: {}", shown(name), argument(of));
    }
    let _ = write!(text, ") -> {}", in_rust(&method.result));
    text
}

/// The type of an argument: the one that one would write for it.
fn argument(of: &str) -> String {
    match of {
        "String" => "&str".to_owned(),
        "Vec<u8>" => "&[u8]".to_owned(),
        "PathBuf" => "&Path".to_owned(),
        "OsString" => "&OsStr".to_owned(),
        of => in_rust(of),
    }
}

/// A type's name as Rust has it: the description tells apart what Rust names alike.
fn in_rust(of: &str) -> String {
    let of = shown(of);
    let mut text = String::new();
    let mut left = of.as_str();
    while !left.is_empty() {
        let end = left.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(left.len());
        let (word, rest) = left.split_at(end);
        match word {
            "Map" => text.push_str("BTreeMap"),
            "Set" => text.push_str("BTreeSet"),
            "interface" => {
                // "interface Cursor" is the client stub `CursorClient`.
                let name = rest.trim_start();
                let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
                let _ = write!(text, "{}Client", &name[..end]);
                left = &name[end..];
                continue;
            }
            word => text.push_str(word),
        }
        let mut rest = rest.chars();
        text.extend(rest.next());
        left = rest.as_str();
    }
    text
}

/// A type, and how to name what is documented of it.
struct Documented<'a>(&'a TypeView);

impl Documented<'_> {
    /// Writes the documentation of a part.
    fn doc(&self, text: &mut String, indent: &str, part: &str) {
        if let Some((_, found)) = self.0.docs.iter().find(|(known, _)| known == part) {
            doc(text, indent, found);
        }
    }

    fn definition(&self, text: &mut String) {
        let name = shown(&self.0.name);
        let derive = "#[derive(underpass::Wire)]";
        self.doc(text, "", "");
        match &self.0.structure {
            StructureView::Struct(fields) => {
                let end = if matches!(fields, FieldsView::Named(_)) { "" } else { ";" };
                let fields = self.fields(fields, "", "", "pub ");
                let _ = writeln!(text, "{derive}\npub struct {name}{fields}{end}");
            }
            StructureView::Extensible { first, added } => {
                let _ = writeln!(text, "{derive}\n#[underpass(extensible)]\npub struct {name} {{");
                for (index, (field, of)) in first.iter().chain(added).enumerate() {
                    self.doc(text, "    ", field);
                    if index >= first.len() {
                        text.push_str("    // Added later.\n");
                    }
                    let _ = writeln!(text, "    pub {}: {},", shown(field), in_rust(of));
                }
                text.push_str("}\n");
            }
            StructureView::Enum(variants) => {
                let _ = writeln!(text, "{derive}\npub enum {name} {{");
                for variant in variants {
                    self.doc(text, "    ", &variant.name);
                    let within = format!("{}.", variant.name);
                    let fields = self.fields(&variant.fields, &within, "    ", "");
                    let _ = writeln!(text, "    {}{fields},", shown(&variant.name));
                }
                text.push_str("}\n");
            }
            StructureView::Interface(methods) => {
                let name = name.trim_start_matches("interface ");
                let _ = writeln!(text, "#[underpass::interface]\npub trait {name} {{");
                for method in methods {
                    let _ = writeln!(text, "    {};", signature(method));
                }
                text.push_str("}\n");
            }
        }
    }

    /// The fields of a struct or a variant. What is documented of them begins with `within`.
    fn fields(&self, fields: &FieldsView, within: &str, indent: &str, before: &str) -> String {
        match fields {
            FieldsView::Unit => String::new(),
            FieldsView::Tuple(types) => {
                let types: Vec<_> = types.iter().map(|of| format!("{before}{}", in_rust(of))).collect();
                format!("({})", types.join(", "))
            }
            FieldsView::Named(fields) => {
                let mut text = " {\n".to_owned();
                for (name, of) in fields {
                    self.doc(&mut text, &format!("{indent}    "), &format!("{within}{name}"));
                    let _ = writeln!(text, "{indent}    {before}{}: {},", shown(name), in_rust(of));
                }
                text + indent + "}"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_in_rust() {
        assert_eq!(in_rust("Map<String, Vec<u8>>"), "BTreeMap<String, Vec<u8>>");
        assert_eq!(in_rust("Vec<interface Cursor>"), "Vec<CursorClient>");
        assert_eq!(in_rust("Result<(), io::Error>"), "Result<(), io::Error>");
        assert_eq!(in_rust("[u8; 3]"), "[u8; 3]");
        assert_eq!(argument("Vec<u8>"), "&[u8]");
    }

    /// An interface with a method of these names.
    fn interface(name: &str, doc: &str, argument: &str) -> InterfaceView {
        let method = MethodView {
            name: name.to_owned(),
            doc: doc.to_owned(),
            arguments: vec![(argument.to_owned(), "String".to_owned())],
            result: "Result<u8, CallError>".to_owned(),
        };
        InterfaceView {
            name: "Map".to_owned(),
            doc: String::new(),
            stateless: true,
            hash: 1,
            versions: Vec::new(),
            methods: vec![method],
            types: Vec::new(),
        }
    }

    #[test]
    fn a_name_forges_no_line() {
        let lines = |name: &str| of(&interface(name, "", name)).lines().count();
        assert_eq!(lines("get\n    fn forged"), lines("get"));
    }

    #[test]
    fn documentation_can_do_nothing_to_a_terminal() {
        assert_eq!(
            of(&interface("get", "Red: \x1b[31m", "key")),
            "#[underpass::interface(stateless)]\npub trait Map {\n    /// Red: \u{fffd}[31m\n    \
             fn get(&self, key: &str) -> Result<u8, CallError>;\n}\n"
        );
    }
}
