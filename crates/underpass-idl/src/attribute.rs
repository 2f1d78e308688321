//! `#[underpass(..)]`, `#[interface(..)]`, and the attributes that are not allowed in an interface.

use proc_macro2::TokenStream;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Attribute, Error, Expr, FnArg, ItemTrait, LitInt, Path, Result, TraitItem, parse_quote};

/// The options of `#[underpass(..)]` and `#[interface(..)]`.
#[derive(Default)]
pub(crate) struct Options {
    /// `crate = path`: the path of the runtime.
    krate: Option<Path>,
    /// `asynchronous`: handlers may be `async fn`s.
    pub(crate) asynchronous: bool,
    /// `stateless`: no call depends on what a server has given a client before.
    pub(crate) stateless: bool,
    /// `serde`: travels by serde's traits.
    pub(crate) serde: bool,
    /// `shared`: the server reads it where the client wrote it.
    pub(crate) shared: bool,
    /// `astack = N`: bytes of the procedure's A-stack.
    pub(crate) astack: Option<u32>,
    /// `calls = N`: how many concurrent calls of the procedure, or of each, are expected.
    pub(crate) calls: Option<u32>,
    /// `since = N`: the version of the interface in which it was added.
    pub(crate) since: Option<u32>,
    /// `default = value`: of a field that an older side does not send.
    pub(crate) default: Option<Expr>,
    /// `extensible`: later versions may add fields.
    pub(crate) extensible: bool,
}

/// The largest A-stack in bytes, the most concurrent calls, and the most versions of an interface,
/// as in the wire crate.
const LARGEST_ASTACK: u32 = 4 << 20;
const MOST_CALLS: u32 = 64;
const MOST_VERSIONS: u32 = 64;

/// Which options are allowed here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In `#[interface(..)]`.
    Interface,
    /// On a trait.
    Item,
    /// On a type.
    Type,
    /// On a variant of an enum.
    Variant,
    /// On a method.
    Method,
    /// On an argument.
    Argument,
    /// On a field.
    Field,
}

impl Options {
    /// The options in the tokens of `#[interface(..)]`.
    pub(crate) fn of_interface(attributes: TokenStream) -> Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| options.read(&meta, Place::Interface)).parse2(attributes)?;
        Ok(options)
    }

    /// The options in those `attributes` that are `#[underpass(..)]`.
    pub(crate) fn of(attributes: &[Attribute], place: Place) -> Result<Self> {
        let mut options = Self::default();
        for attribute in attributes.iter().filter(|attribute| is_ours(attribute)) {
            attribute.parse_nested_meta(|meta| options.read(&meta, place))?;
        }
        Ok(options)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> Result<()> {
        if place == Place::Interface && meta.path.is_ident("asynchronous") {
            self.asynchronous = true;
            return Ok(());
        }
        if place == Place::Interface && meta.path.is_ident("stateless") {
            self.stateless = true;
            return Ok(());
        }
        if matches!(place, Place::Interface | Place::Item | Place::Type) && meta.path.is_ident("crate") {
            self.krate = Some(meta.value()?.call(Path::parse_mod_style)?);
            return Ok(());
        }
        if place == Place::Method && meta.path.is_ident("astack") {
            self.astack = Some(number(meta, 0, LARGEST_ASTACK, "bytes of an A-stack")?);
            return Ok(());
        }
        if matches!(place, Place::Interface | Place::Method) && meta.path.is_ident("calls") {
            self.calls = Some(number(meta, 1, MOST_CALLS, "calls at once")?);
            return Ok(());
        }
        if self.read_version(meta, place)? {
            return Ok(());
        }
        if place == Place::Argument && meta.path.is_ident("shared") {
            self.shared = true;
            return Ok(());
        }
        if matches!(place, Place::Method | Place::Argument | Place::Field) && meta.path.is_ident("serde") {
            if !cfg!(feature = "serde") {
                return Err(meta.error(
                    "serde types travel only with the feature `serde`: enable it in Cargo.toml, \
                     `underpass = { version = \"..\", features = [\"serde\"] }`",
                ));
            }
            self.serde = true;
            return Ok(());
        }
        Err(meta.error(unknown(place)))
    }

    /// Reads an option about versions. Returns `false` if it is another option.
    fn read_version(&mut self, meta: &ParseNestedMeta<'_>, place: Place) -> Result<bool> {
        if place == Place::Type && meta.path.is_ident("extensible") {
            self.extensible = true;
        } else if matches!(place, Place::Method | Place::Field) && meta.path.is_ident("since") {
            self.since = Some(number(meta, 1, MOST_VERSIONS, "a version of the interface")?);
        } else if place == Place::Field && meta.path.is_ident("default") {
            self.default = Some(meta.value()?.parse()?);
        } else if place == Place::Variant && meta.path.is_ident("since") {
            return Err(meta.error(
                "no variant can be added to an enum that others use, as an older side has no value for it: add a method \
                 that has another type, or a field to an extensible struct",
            ));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// The path of everything that generated code uses.
    pub(crate) fn private(&self) -> Path {
        match &self.krate {
            Some(path) => parse_quote!(#path::__private),
            None => parse_quote!(::underpass::__private),
        }
    }

    /// The path of the wire crate in that.
    pub(crate) fn wire(&self) -> Path {
        let private = self.private();
        parse_quote!(#private::wire)
    }
}

/// What to say of an option that is not known at `place`.
fn unknown(place: Place) -> &'static str {
    match place {
        Place::Item => "unknown option; there is `crate = path`, which says where to find underpass",
        Place::Type => {
            "unknown option; there are `crate = path`, which says where to find underpass, and `extensible`, by which \
             later versions of a struct may have further fields"
        }
        Place::Variant => "unknown option; a variant of an enum has none",
        Place::Interface => {
            "unknown option; there are `crate = path`, which says where to find underpass, `calls = N`, how many calls of \
             each procedure are expected at once, `asynchronous`, by which handlers may be `async fn`s, and `stateless`, \
             by which no call depends on what a server has given its client before"
        }
        Place::Method => {
            "unknown option; there are `serde`, by which the `T` of a `Result<T, E>` travels that has serde's traits, \
             `astack = N`, the bytes of its A-stack, `calls = N`, how many calls are expected at once, and `since = N`, the \
             version of the interface in which the method was added"
        }
        Place::Argument => {
            "unknown option; there are `serde`, by which a type travels that has serde's traits, and `shared`, for a `Shared<'_>` that \
             the server reads where the client wrote it"
        }
        Place::Field => {
            "unknown option; there are `serde`, by which a type travels that has serde's traits, `since = N`, the version of \
             the interface in which the field was added, and `default = value`, which it has where an older side does not \
             send it"
        }
    }
}

/// `#[idempotent]`, on a method.
const IDEMPOTENT: &str = "idempotent";

/// Whether a method is marked to be executed twice safely.
pub(crate) fn is_idempotent(attributes: &[Attribute]) -> Result<bool> {
    let mut said = false;
    for attribute in named(attributes, IDEMPOTENT) {
        if let Err(error) = attribute.meta.require_path_only() {
            return Err(Error::new(error.span(), "`#[idempotent]` says all by itself: take the rest out"));
        }
        said = true;
    }
    Ok(said)
}

/// The number after `name = `, within its bounds.
fn number(meta: &ParseNestedMeta<'_>, least: u32, most: u32, of: &str) -> Result<u32> {
    let literal: LitInt = meta.value()?.parse()?;
    match literal.base10_parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(Error::new_spanned(literal, format!("{of}: write a number from {least} to {most}"))),
    }
}

fn is_ours(attribute: &Attribute) -> bool {
    attribute.path().is_ident("underpass")
}

/// Refuses `#[cfg]`: both sides must have the same procedures and arguments.
pub(crate) fn refuse_cfg(attributes: &[Attribute]) -> Result<()> {
    match attributes.iter().find(|a| a.path().is_ident("cfg") || a.path().is_ident("cfg_attr")) {
        Some(attribute) => Err(Error::new_spanned(
            attribute,
            "an interface is the same in every build, or two domains could not talk: take this out, or put the \
             condition on the whole trait",
        )),
        None => Ok(()),
    }
}

/// Removes `#[underpass(..)]` from a trait, because the compiler does not know it.
pub(crate) fn remove_from_trait(item: &mut ItemTrait) {
    remove(&mut item.attrs);
    for item in &mut item.items {
        if let TraitItem::Fn(method) = item {
            remove(&mut method.attrs);
            method.attrs.retain(|attribute| !attribute.path().is_ident(IDEMPOTENT));
            for argument in &mut method.sig.inputs {
                match argument {
                    FnArg::Receiver(receiver) => remove(&mut receiver.attrs),
                    FnArg::Typed(argument) => remove(&mut argument.attrs),
                }
            }
        }
    }
}

fn remove(attributes: &mut Vec<Attribute>) {
    attributes.retain(|attribute| !is_ours(attribute));
}

/// The tokens of `attributes` that are `name`.
pub(crate) fn named<'a>(
    attributes: &'a [Attribute],
    name: &'a str,
) -> impl Iterator<Item = &'a Attribute> + use<'a> {
    attributes.iter().filter(move |attribute| attribute.path().is_ident(name))
}
