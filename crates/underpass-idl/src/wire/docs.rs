//! The documentation of a type and of its parts.

use crate::doc;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Fields};

/// What is documented, and how: the type itself is `""`, a field its name or position, a variant
/// its name, and a variant's field `Variant.field`.
pub(super) fn of(item: &DeriveInput) -> Vec<(String, String)> {
    let mut docs = vec![(String::new(), doc::text(&item.attrs))];
    match &item.data {
        Data::Struct(data) => of_fields("", &data.fields, &mut docs),
        Data::Enum(data) => {
            for variant in &data.variants {
                let name = variant.ident.unraw().to_string();
                docs.push((name.clone(), doc::text(&variant.attrs)));
                of_fields(&format!("{name}."), &variant.fields, &mut docs);
            }
        }
        Data::Union(_) => {}
    }
    docs.retain(|(_, doc)| !doc.is_empty());
    docs
}

fn of_fields(before: &str, fields: &Fields, docs: &mut Vec<(String, String)>) {
    for (position, field) in fields.iter().enumerate() {
        let name =
            field.ident.as_ref().map_or_else(|| position.to_string(), |ident| ident.unraw().to_string());
        docs.push((format!("{before}{name}"), doc::text(&field.attrs)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn what_has_documentation_is_named() {
        let item: DeriveInput = parse_quote! {
            /// What is kept.
            enum Content {
                Nothing,
                /// Some fruit.
                Fruit {
                    /// Its name.
                    r#type: String,
                    pieces: u8,
                },
                Mixed(
                    /// In order.
                    Vec<Content>,
                ),
            }
        };
        let docs = of(&item);
        let docs: Vec<_> = docs.iter().map(|(part, doc)| (part.as_str(), doc.as_str())).collect();
        assert_eq!(
            docs,
            [
                ("", "What is kept."),
                ("Fruit", "Some fruit."),
                ("Fruit.type", "Its name."),
                ("Mixed.0", "In order."),
            ]
        );
        assert_eq!(
            of(&parse_quote!(
                struct Plain(u8);
            )),
            []
        );
    }
}
