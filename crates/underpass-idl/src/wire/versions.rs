//! In which versions the fields of a struct were added.

use crate::attribute::{Options, Place};
use crate::errors::Errors;
use syn::{DeriveInput, Expr, Fields, Result};

/// The most fields that can be added to one struct.
const MOST_ADDED: usize = 255;

/// What an extensible struct says of one of its fields.
pub(super) struct FieldVersion {
    /// The version in which it was added; 1 for the first ones.
    pub(super) since: u32,
    /// The value that it has where an older side does not send it. `None`: the default of its type.
    pub(super) default: Option<Expr>,
}

/// The versions of all fields of an extensible struct, in order.
///
/// # Errors
/// The fields have no names, or an older side could not know where they lie.
pub(super) fn of_fields(item: &DeriveInput, fields: &Fields) -> Result<Vec<FieldVersion>> {
    let mut errors = Errors::default();
    if !matches!(fields, Fields::Named(_)) {
        errors.at(
            &item.ident,
            "the fields of an extensible struct have names: write `{ name: Type }`, also if there is none yet",
        );
    }
    let (mut newest, mut versions) = (1, Vec::new());
    for field in fields {
        // The parser of the fields has reported wrong options.
        let Options { since, default, .. } = Options::of(&field.attrs, Place::Field).unwrap_or_default();
        let since = since.unwrap_or(1);
        if since < newest {
            errors.at(
                &field.ident,
                format!(
                    "a field of version {since} behind one of version {newest}: fields keep their places, so one that is \
                     added comes last, with `#[underpass(since = N)]`"
                ),
            );
        }
        newest = newest.max(since);
        if let (1, Some(default)) = (since, &default) {
            errors.at(
                default,
                "every side sends this field: only one that was added (`since = N`) has a default",
            );
        }
        versions.push(FieldVersion { since, default });
    }
    if versions.iter().filter(|version| version.since > 1).count() > MOST_ADDED {
        errors.at(
            &item.ident,
            format!("at most {MOST_ADDED} fields can be added: put some into another struct"),
        );
    }
    errors.finish(versions)
}

/// Refuses what only the fields of an extensible struct may have.
pub(super) fn refuse(fields: &Fields, errors: &mut Errors) {
    for field in fields {
        let options = Options::of(&field.attrs, Place::Field).unwrap_or_default();
        if options.since.is_some() || options.default.is_some() {
            errors.at(
                field,
                "only fields of an extensible struct can be added: write `#[underpass(extensible)]` on the struct, from \
                 its first version on",
            );
        }
    }
}
