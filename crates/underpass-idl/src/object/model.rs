//! Which operations an object has, and the errors of those that can't be.

use crate::attribute::{self, Options};
use crate::doc;
use crate::errors::Errors;
use crate::model::Parameter;
use crate::travel;
use proc_macro2::{Ident, TokenStream};
use quote::format_ident;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, ImplItem, ImplItemFn, ItemImpl, Meta, PatType, Path, Receiver, ReceiverKind,
    Result, ReturnType, Safety, Signature, Type, Visibility, parse_quote,
};

/// The attributes that say how an operation runs.
const MARKS: [&str; 3] = ["access", "either", "invoke"];

/// How an operation runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    /// In the caller, on a copy.
    Access,
    /// As the cost says, or as its attribute does.
    Either(Option<Fixed>),
    /// At home, by a call.
    Invoke,
    /// At home, at interrupt level.
    Interrupt,
}

/// What `#[either(fixed = ..)]` says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fixed {
    Access,
    Invoke,
}

impl Runs {
    /// Whether calls execute it.
    pub(super) fn by_calls(self) -> bool {
        matches!(self, Self::Either(_) | Self::Invoke)
    }
}

/// An object with operations.
pub(super) struct Object {
    /// The representation, and its name.
    pub(super) of: Type,
    pub(super) ident: Ident,
    /// That of the most visible operation.
    pub(super) vis: Visibility,
    pub(super) operations: Vec<ObjectOperation>,
    /// The path of the runtime.
    pub(super) krate: Option<Path>,
    /// The path of the runtime items for generated code.
    pub(super) private: Path,
}

/// One operation.
pub(super) struct ObjectOperation {
    pub(super) ident: Ident,
    pub(super) vis: Visibility,
    pub(super) docs: Vec<Attribute>,
    pub(super) runs: Runs,
    /// Whether it takes `&mut self`.
    pub(super) changes: bool,
    /// Its arguments, without the receiver.
    pub(super) inputs: Vec<PatType>,
    /// Their names, of which all are plain.
    pub(super) names: Vec<Ident>,
    /// What it returns.
    pub(super) output: Type,
    pub(super) returns_nothing: bool,
}

impl Object {
    /// Checks `block` and describes it.
    ///
    /// # Errors
    /// All errors in it, each at its token.
    pub(super) fn parse(attributes: TokenStream, block: &ItemImpl) -> Result<Self> {
        let mut errors = Errors::default();
        let krate = errors.take(krate_of(attributes)).flatten();
        let ident = errors.take(name_of(block));
        if !block.generics.params.is_empty() {
            errors.at(
                &block.generics.params,
                "every domain must see the same object: write the `impl` of a type without parameters",
            );
        }
        let mut operations = Vec::new();
        for item in &block.items {
            match item {
                ImplItem::Fn(method) => operations.extend(errors.take(ObjectOperation::parse(method))),
                other => errors
                    .at(other, "this `impl` has operations only: put what is none into an `impl` of its own"),
            }
        }
        if block.items.is_empty() {
            errors.at(
                &block.self_ty,
                "an object without operations is a `homed::ObjectHome`: take `#[object]` out, or write an operation",
            );
        }
        let private = match &krate {
            Some(path) => parse_quote!(#path::__private),
            None => parse_quote!(::underpass::__private),
        };
        let most = operations.iter().map(|operation: &ObjectOperation| &operation.vis);
        let vis = most.max_by_key(|vis| visible(vis)).cloned().unwrap_or(Visibility::Inherited);
        let of = (*block.self_ty).clone();
        match ident {
            Some(ident) => errors.finish(Self { of, ident, vis, operations, krate, private }),
            None => errors.finish(()).map(|()| unreachable!("without a name there is an error")),
        }
    }

    /// The interface of operations at process level.
    pub(super) fn calls(&self) -> Ident {
        format_ident!("__{}Calls", self.ident)
    }

    /// Its client stub.
    pub(super) fn stub(&self) -> Ident {
        format_ident!("__{}CallsClient", self.ident)
    }

    /// Its implementation at home.
    pub(super) fn at_home(&self) -> Ident {
        format_ident!("__{}AtHome", self.ident)
    }

    /// Where the numbers of operations at interrupt level are.
    pub(super) fn numbers(&self) -> Ident {
        format_ident!("__{}Interrupts", self.ident)
    }

    /// Those that are marked in that way.
    pub(super) fn that_run(&self, wanted: impl Fn(Runs) -> bool) -> impl Iterator<Item = &ObjectOperation> {
        self.operations.iter().filter(move |operation| wanted(operation.runs))
    }
}

/// How far a visibility reaches.
fn visible(vis: &Visibility) -> u8 {
    match vis {
        Visibility::Inherited => 0,
        Visibility::Restricted(_) => 1,
        Visibility::Public(_) => 2,
    }
}

/// The path in `#[object(crate = path)]`.
fn krate_of(attributes: TokenStream) -> Result<Option<Path>> {
    let mut krate = None;
    let read = |meta: ParseNestedMeta<'_>| {
        if meta.path.is_ident("crate") {
            krate = Some(meta.value()?.call(Path::parse_mod_style)?);
            return Ok(());
        }
        Err(meta.error("unknown option; there is `crate = path`, which says where to find underpass"))
    };
    syn::meta::parser(read).parse2(attributes)?;
    Ok(krate)
}

fn name_of(block: &ItemImpl) -> Result<Ident> {
    if let Some(of) = &block.trait_ {
        return Err(Error::new_spanned(
            of.1,
            "an object's operations are its own: write `impl Book { .. }` without a trait",
        ));
    }
    match &*block.self_ty {
        Type::Path(path) if path.qself.is_none() => {
            let last = path.path.segments.last().filter(|last| last.arguments.is_none());
            last.map(|last| last.ident.clone())
        }
        _ => None,
    }
    .ok_or_else(|| {
        Error::new_spanned(
            &block.self_ty,
            "every domain must see the same object: write the `impl` of a type without parameters",
        )
    })
}

impl ObjectOperation {
    fn parse(method: &ImplItemFn) -> Result<Self> {
        let mut errors = Errors::default();
        let signature = &method.sig;
        errors.take(attribute::refuse_cfg(&method.attrs));
        errors.take(Options::of(&method.attrs, attribute::Place::Item));
        let runs = errors.take(runs_of(method)).unwrap_or(Runs::Access);
        errors.take(is_taken(&signature.ident));
        check_signature(signature, &mut errors);
        let mut inputs = Vec::new();
        let mut changes = false;
        match signature.inputs.first() {
            Some(FnArg::Receiver(receiver)) => changes = check_receiver(receiver, signature, runs, &mut errors),
            _ => errors.at(
                &signature.ident,
                format!(
                    "`{}` needs `&self` as its first argument: an operation works on the object. Put a function without it \
                     into an `impl` of its own",
                    signature.ident
                ),
            ),
        }
        for argument in &signature.inputs {
            if let FnArg::Typed(argument) = argument {
                check_argument(argument, runs, &mut errors);
                inputs.push(argument.clone());
            }
        }
        let (output, returns_nothing) = match &signature.output {
            ReturnType::Default => (parse_quote!(()), true),
            ReturnType::Type(_, of) => {
                ((**of).clone(), matches!(&**of, Type::Tuple(of) if of.elems.is_empty()))
            }
        };
        // Of the others the interface says what is wrong.
        if !runs.by_calls() {
            travel::check(&output, &mut errors);
        }
        let names = inputs.iter().filter_map(|input| match &*input.pat {
            syn::Pat::Ident(name) => Some(name.ident.clone()),
            _ => None,
        });
        let names = names.collect();
        errors.finish(Self {
            ident: signature.ident.clone(),
            vis: method.vis.clone(),
            docs: doc::comments(&method.attrs),
            runs,
            changes,
            inputs,
            names,
            output,
            returns_nothing,
        })
    }
}

/// The attribute that says how the operation runs.
fn runs_of(method: &ImplItemFn) -> Result<Runs> {
    let mut marks = method.attrs.iter().filter(|attribute| is_mark(attribute));
    let ident = &method.sig.ident;
    let Some(mark) = marks.next() else {
        return Err(Error::new_spanned(
            ident,
            format!(
                "say how `{ident}` runs: `#[access]` (in the caller, on a copy), `#[invoke]` (at home), `#[invoke(interrupt)]` \
                 (at home, between two threads), or `#[either]` (where it is cheaper). Put what is no operation into an \
                 `impl` of its own"
            ),
        ));
    };
    if let Some(second) = marks.next() {
        return Err(Error::new_spanned(
            second,
            format!("`{ident}` runs in one way: leave one of these out, or write `#[either]` alone"),
        ));
    }
    if mark.path().is_ident("access") {
        mark.meta
            .require_path_only()
            .map_err(|e| Error::new(e.span(), "`#[access]` says all by itself: take the rest out"))?;
        return Ok(Runs::Access);
    }
    let mut runs = if mark.path().is_ident("invoke") { Runs::Invoke } else { Runs::Either(None) };
    if let Meta::Path(_) = mark.meta {
        return Ok(runs);
    }
    mark.parse_nested_meta(|meta| {
        runs = match runs {
            Runs::Invoke | Runs::Interrupt => interrupt(&meta)?,
            _ => Runs::Either(Some(fixed(&meta)?)),
        };
        Ok(())
    })?;
    Ok(runs)
}

fn interrupt(meta: &ParseNestedMeta<'_>) -> Result<Runs> {
    match meta.path.is_ident("interrupt") {
        true => Ok(Runs::Interrupt),
        false => Err(meta.error(
            "unknown option; there is `interrupt`, by which the operation runs between two threads of its home",
        )),
    }
}

fn fixed(meta: &ParseNestedMeta<'_>) -> Result<Fixed> {
    const THERE: &str = "there are `fixed = access` and `fixed = invoke`, by which the operation runs in that way whatever it costs";
    if !meta.path.is_ident("fixed") {
        return Err(meta.error(format!("unknown option; {THERE}")));
    }
    let way: Ident = meta.value()?.parse()?;
    match way.to_string().as_str() {
        "access" => Ok(Fixed::Access),
        "invoke" => Ok(Fixed::Invoke),
        _ => Err(Error::new(way.span(), THERE)),
    }
}

fn check_signature(signature: &Signature, errors: &mut Errors) {
    if let Some(token) = &signature.asyncness {
        errors.at(token, format!("an operation is not `async`: write a plain `fn {}`", signature.ident));
    }
    if let Safety::Unsafe(_) | Safety::Safe(_) = &signature.safety {
        errors.at(
            &signature.safety,
            "an operation can't be `unsafe`, as its home trusts no caller: take this out",
        );
    }
    if let Some(abi) = &signature.abi {
        errors.at(abi, "an operation has no ABI of its own: write a plain `fn`");
    }
    if !signature.generics.params.is_empty() {
        errors.at(
            &signature.generics.params,
            "an operation can't be generic, as both sides have to know every type: write one for each, or pass an enum",
        );
    }
    if let Some(clause) = &signature.generics.where_clause {
        errors.at(
            clause,
            "an operation has no `where` clause, as both sides have to know every type: take this out",
        );
    }
}

/// Returns whether the operation changes the object.
fn check_receiver(receiver: &Receiver, signature: &Signature, runs: Runs, errors: &mut Errors) -> bool {
    let ident = &signature.ident;
    match &receiver.kind {
        ReceiverKind::Reference(_, None, None) => false,
        ReceiverKind::Reference(_, None, Some(token)) => {
            if matches!(runs, Runs::Access | Runs::Either(_)) {
                errors.at(
                    token,
                    format!(
                        "`{ident}` may run on a copy, and only the home changes the object: write `&self`, or `#[invoke]` \
                         in place of the attribute"
                    ),
                );
            }
            true
        }
        ReceiverKind::Reference(_, Some(lifetime), _) => {
            errors.at(lifetime, "a lifetime can't reach into another process: leave it out");
            false
        }
        _ => {
            errors.at(
                receiver,
                "an operation takes `&self`, or `&mut self` if it changes the object: write that",
            );
            false
        }
    }
}

fn check_argument(argument: &PatType, runs: Runs, errors: &mut Errors) {
    match (runs, &*argument.ty) {
        (Runs::Interrupt, Type::Reference(of)) => errors.at(
            of,
            "arguments at interrupt level travel in six words: pass a value that derives `Shareable`, or write `#[invoke]`",
        ),
        // Of these the interface says what is wrong.
        (Runs::Either(_) | Runs::Invoke, _) => {}
        _ => drop(errors.take(Parameter::parse(argument))),
    }
}

/// Whether the client has a method of that name.
fn is_taken(name: &Ident) -> Result<()> {
    let taken = [
        "access",
        "explain",
        "fixed",
        "import",
        "import_within",
        "is_over",
        "object",
        "renew_within",
        "with_deadline",
    ];
    match taken.iter().any(|taken| name == taken) {
        true => Err(Error::new(
            name.span(),
            format!(
                "`{name}` is taken (the client has a method of that name itself): give the operation another name"
            ),
        )),
        false => Ok(()),
    }
}

fn is_mark(attribute: &Attribute) -> bool {
    MARKS.iter().any(|mark| attribute.path().is_ident(mark))
}

/// Removes the marks, because the compiler does not know them.
pub(super) fn remove_marks(block: &mut ItemImpl) {
    for item in &mut block.items {
        if let ImplItem::Fn(method) = item {
            method.attrs.retain(|attribute| !is_mark(attribute));
        }
    }
}

/// Where errors about what an operation returns belong.
pub(super) fn span_of(operation: &ObjectOperation) -> proc_macro2::Span {
    operation.output.span()
}
