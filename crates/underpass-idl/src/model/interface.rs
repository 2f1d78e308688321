//! The trait as a whole.

use super::{MarkedTypes, Method};
use crate::attribute::{self, Options, Place};
use crate::doc;
use crate::errors::Errors;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident};
use std::collections::HashSet;
use syn::ext::IdentExt;
use syn::{Attribute, Error, Item, ItemTrait, Path, Result, TraitItem, TypeParamBound, Visibility};

/// Supertraits that the client stub has as well.
const SUPERTRAITS: [&str; 3] = ["Send", "Sync", "Debug"];

/// A trait that can be exported and imported.
pub(crate) struct Interface {
    pub(crate) vis: Visibility,
    pub(crate) ident: Ident,
    /// Its doc comments.
    pub(crate) docs: Vec<Attribute>,
    /// The same as markdown.
    pub(crate) doc: String,
    /// Whether handlers may be `async fn`s.
    pub(crate) asynchronous: bool,
    /// Whether no call depends on what a server has given its client before.
    pub(crate) stateless: bool,
    /// The procedures, by index.
    pub(crate) methods: Vec<Method>,
    /// The types that generated code names by markers.
    pub(crate) types: MarkedTypes,
    /// The path of the runtime items for generated code.
    pub(crate) private: Path,
    /// The path of the wire crate in that.
    pub(crate) wire: Path,
}

impl Interface {
    /// Checks `item` and describes it.
    ///
    /// # Errors
    /// All errors in it, each at its token.
    pub(crate) fn parse(attributes: TokenStream, item: &ItemTrait) -> Result<Self> {
        let mut errors = Errors::default();
        let options = errors.take(Options::of_interface(attributes)).unwrap_or_default();
        errors.take(Options::of(&item.attrs, Place::Item));
        check_trait(item, &mut errors);

        let mut methods = Vec::new();
        let mut names = HashSet::new();
        for item in &item.items {
            let Some(method) = method_of(item, &mut errors) else { continue };
            let Some(index) = errors.take(index(methods.len(), method)) else { break };
            if !names.insert(method.sig.ident.unraw()) {
                errors.at(
                    &method.sig.ident,
                    format!(
                        "there is a method `{}` already: give this one a name of its own",
                        method.sig.ident
                    ),
                );
            }
            let parsed = errors.take(Method::parse(index, method));
            methods.extend(parsed.map(|parsed| Method { calls: parsed.calls.or(options.calls), ..parsed }));
        }
        for method in methods.iter().filter(|method: &&Method| names.contains(&method.for_tasks())) {
            let (name, taken) = (&method.ident, method.for_tasks());
            let why = format!(
                "`{taken}` is a method too, and the client stub has a `{taken}` by which async tasks call `{name}`: give one of them another name"
            );
            errors.at(name, why);
        }
        check_order(&methods, &mut errors);
        let wire = options.wire();
        let types = MarkedTypes::of(&item.ident, &methods, &wire);
        errors.finish(Self {
            vis: item.vis.clone(),
            ident: item.ident.clone(),
            docs: doc::comments(&item.attrs),
            doc: doc::text(&item.attrs),
            asynchronous: options.asynchronous,
            stateless: options.stateless,
            methods,
            types,
            private: options.private(),
            wire,
        })
    }

    /// The trait's name as it is in the descriptor.
    pub(crate) fn name(&self) -> String {
        self.ident.unraw().to_string()
    }

    /// The client stub's name.
    pub(crate) fn client(&self) -> Ident {
        format_ident!("{}Client", self.ident)
    }

    /// The name of the trait for `async fn` handlers.
    pub(crate) fn of_futures(&self) -> Ident {
        format_ident!("{}Async", self.ident)
    }

    /// The name of its server stub.
    pub(crate) fn dispatch_of_futures(&self) -> Ident {
        format_ident!("__{}AsyncDispatch", self.ident)
    }

    /// The name of an implementation that one thread at a time uses.
    pub(crate) fn exclusive(&self) -> Ident {
        format_ident!("__{}Exclusive", self.ident)
    }

    /// The server stub's name.
    pub(crate) fn dispatch(&self) -> Ident {
        format_ident!("__{}Dispatch", self.ident)
    }
}

/// The error for an item that is not a trait.
pub(crate) fn not_a_trait(item: TokenStream, error: Error) -> TokenStream {
    let error = match syn::parse2::<Item>(item.clone()) {
        Ok(_) => Error::new_spanned(
            item.clone(),
            "`#[interface]` stands on a trait; a type travels by `#[derive(underpass::Wire)]`",
        ),
        Err(_) => error,
    };
    let mut tokens = error.into_compile_error();
    item.to_tokens(&mut tokens);
    tokens
}

fn check_trait(item: &ItemTrait, errors: &mut Errors) {
    if let Some(token) = &item.unsafety {
        errors.at(
            token,
            "an interface can't be `unsafe`, as no promise reaches across to another process: take this out",
        );
    }
    if let Some(token) = &item.modifiers.auto_token {
        errors.at(token, "an interface can't be an auto trait: take `auto` out");
    }
    if !item.generics.params.is_empty() {
        errors.at(
            &item.generics.params,
            "an interface can't be generic, as both sides have to know every type: write one trait for each",
        );
    }
    if let Some(clause) = &item.generics.where_clause {
        errors.at(
            clause,
            "an interface has no `where` clause, as both sides have to know every type: take this out",
        );
    }
    for bound in &item.supertraits {
        if !is_had_by_clients(bound) {
            errors.at(
                bound,
                "the client stub has only `Send`, `Sync`, `Debug` and `'static`: take this out, or ask for it where the \
                 interface is used (`fn f(x: impl Interface + Other)`)",
            );
        }
    }
}

/// Methods keep their indexes, so those that were added stand behind those that were there.
fn check_order(methods: &[Method], errors: &mut Errors) {
    let mut newest = 1;
    for Method { ident, since, .. } in methods {
        if *since < newest {
            errors.at(
                ident,
                format!(
                    "`{ident}` of version {since} stands behind a method of version {newest}: methods keep their places, so \
                     one that is added comes last, with `#[underpass(since = N)]`"
                ),
            );
        }
        newest = newest.max(*since);
    }
}

fn is_had_by_clients(bound: &TypeParamBound) -> bool {
    match bound {
        TypeParamBound::Lifetime(lifetime) => lifetime.ident == "static",
        TypeParamBound::Trait(bound) if bound.lifetimes.is_none() && bound.maybe.is_none() => {
            bound.path.segments.last().is_some_and(|last| SUPERTRAITS.iter().any(|known| last.ident == known))
        }
        _ => false,
    }
}

fn method_of<'a>(item: &'a TraitItem, errors: &mut Errors) -> Option<&'a syn::TraitItemFn> {
    const ONLY: &str = "an interface has methods only, as nothing else can be asked of another process";
    match item {
        TraitItem::Fn(method) => return Some(method),
        TraitItem::Type(item) => {
            errors.at(item, format!("{ONLY}: name the type in the methods themselves"));
        }
        TraitItem::Const(item) => {
            errors.at(
                item,
                format!("{ONLY}: put the constant beside the trait, or write a method that returns it"),
            );
        }
        other => errors.at(other, format!("{ONLY}: write them out")),
    }
    None
}

/// The most methods. The two highest bits of a procedure's number say that interfaces or a prefix
/// come along, and the number of all ones is the call that collects late answers.
const MOST: u16 = (1 << 14) - 1;

fn index(taken: usize, method: &syn::TraitItemFn) -> Result<u16> {
    match u16::try_from(taken) {
        Ok(index) if index < MOST => Ok(index),
        _ => Err(Error::new_spanned(
            &method.sig.ident,
            "an interface has at most 16,383 methods: put this and those behind it into another",
        )),
    }
}

/// Whether the stubs have a method of that name.
pub(super) fn is_taken(name: &Ident) -> Result<()> {
    let by = match name.unraw().to_string().as_str() {
        "serve" | "serve_exclusive" | "serve_sequential" => {
            "the trait has it, to make a service of an implementation"
        }
        "import"
        | "import_apart"
        | "import_by"
        | "import_from"
        | "import_within"
        | "import_resilient"
        | "import_resilient_with" => "the client stub has it, to import the interface",
        "SIZES" | "ASTACK" => "the client stub has a constant of that name itself",
        "descriptor"
        | "share_with"
        | "counters"
        | "measured"
        | "with_deadline"
        | "urgent"
        | "when_all_leased"
        | "abandonable"
        | "quarantine"
        | "acknowledge_restart" => "the client stub has a method of that name itself",
        _ => return Ok(()),
    };
    Err(Error::new_spanned(name, format!("`{name}` is taken ({by}): give the method another name")))
}

/// The checked attributes of a method.
pub(super) fn options_of_method(attributes: &[Attribute]) -> Result<Options> {
    attribute::refuse_cfg(attributes)?;
    Options::of(attributes, Place::Method)
}
