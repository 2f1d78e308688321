//! Doc comments.

use crate::attribute;
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The doc comments among `attributes`, unchanged.
pub(crate) fn comments(attributes: &[Attribute]) -> Vec<Attribute> {
    attribute::named(attributes, "doc").filter(|attribute| line(attribute).is_some()).cloned().collect()
}

/// The doc comments among `attributes`, as markdown.
pub(crate) fn text(attributes: &[Attribute]) -> String {
    let lines: Vec<String> = attribute::named(attributes, "doc").filter_map(line).collect();
    // In `/// text` the first space is not part of the text.
    let margin = lines.iter().all(|line| line.is_empty() || line.starts_with(' '));
    let trimmed: Vec<&str> =
        lines.iter().map(|line| if margin { line.get(1..).unwrap_or("") } else { line }).collect();
    trimmed.join("\n").trim_end().to_owned()
}

/// A line of documentation. `None` for `#[doc(hidden)]` and similar attributes, and for `#[doc =
/// include_str!(..)]`.
fn line(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value()),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn a_comment_becomes_markdown() {
        let attributes: Vec<Attribute> = vec![
            parse_quote!(#[doc = " Reads."]),
            parse_quote!(#[must_use]),
            parse_quote!(#[doc = ""]),
            parse_quote!(#[doc = "   * a list"]),
            parse_quote!(#[doc(hidden)]),
        ];
        assert_eq!(text(&attributes), "Reads.\n\n  * a list");
        assert_eq!(comments(&attributes).len(), 3);
    }

    #[test]
    fn an_attribute_without_margin_keeps_its_text() {
        assert_eq!(text(&[parse_quote!(#[doc = "Reads.\n twice"])]), "Reads.\n twice");
    }
}
