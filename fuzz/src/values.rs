//! Encoded values of an interface, made from its descriptor alone. Most are right, and a few are
//! almost right.

use arbitrary::{Result, Unstructured};
use underpass_wire::{Definition, Descriptor, Fields, TypeName};

/// Values that are deeper than this are cut off.
const DEEPEST: u32 = 12;

/// Makes values of the types that a descriptor names.
pub struct Values<'d>(pub &'d Descriptor);

impl Values<'_> {
    /// The encoded arguments of the procedure at `index`, if there is one.
    pub fn arguments(&self, index: u16, u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let Some(procedure) = self.0.procedures.get(usize::from(index)) else { return self.raw(u) };
        for argument in &procedure.arguments {
            self.value(argument.of.as_str(), u, 0, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// The encoded result of the procedure at `index`, if there is one.
    pub fn result(&self, index: u16, u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let Some(procedure) = self.0.procedures.get(usize::from(index)) else { return self.raw(u) };
        self.value(procedure.result.as_str(), u, 0, &mut bytes)?;
        Ok(bytes)
    }

    fn raw(&self, u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
        let len = u.int_in_range(0..=60)?;
        Ok(u.bytes(usize::min(len, u.len()))?.to_vec())
    }

    fn value(&self, name: &str, u: &mut Unstructured<'_>, depth: u32, to: &mut Vec<u8>) -> Result<()> {
        if depth > DEEPEST || u.ratio(1, 50)? {
            to.extend(self.raw(u)?);
            return Ok(());
        }
        let inside = depth + 1;
        if let Some(parts) = name.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            return split(parts).into_iter().try_for_each(|part| self.value(part, u, inside, to));
        }
        if let Some((element, len)) =
            name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')?.rsplit_once("; "))
        {
            return (0..len.parse().unwrap_or(0)).try_for_each(|_: u32| self.value(element, u, inside, to));
        }
        if let Some(definition) = self.0.types.iter().find(|of| of.name.as_str() == name) {
            return self.defined(&definition.definition, u, inside, to);
        }
        let (outer, arguments) = match name.split_once('<') {
            Some((outer, rest)) => (outer, split(rest.strip_suffix('>').unwrap_or(rest))),
            None => (name, Vec::new()),
        };
        self.known(outer, &arguments, u, inside, to)
    }

    /// A value of a type that needs no definition.
    fn known(
        &self,
        outer: &str,
        arguments: &[&str],
        u: &mut Unstructured<'_>,
        inside: u32,
        to: &mut Vec<u8>,
    ) -> Result<()> {
        match (outer, arguments) {
            ("bool", []) => to.push(u.arbitrary::<bool>()?.into()),
            ("char", []) => to.extend(u32::from(u.arbitrary::<char>()?).to_le_bytes()),
            ("Duration", []) => {
                to.extend(u.arbitrary::<u64>()?.to_le_bytes());
                to.extend(u.int_in_range(0..=1_000_000_000u32)?.to_le_bytes());
            }
            ("String", []) => {
                let text: String = u.arbitrary()?;
                length(text.len(), to);
                to.extend(text.as_bytes());
            }
            ("Option", [content]) => {
                let some = u.arbitrary::<bool>()?;
                to.push(some.into());
                if some {
                    self.value(content, u, inside, to)?;
                }
            }
            ("Result", [ok, err]) => {
                let failed = u.ratio(1, 4)?;
                to.push(failed.into());
                self.value(if failed { err } else { ok }, u, inside, to)?;
            }
            ("Vec" | "Map" | "Set", parts) => {
                let len = if parts == ["u8"] { u.int_in_range(0..=400)? } else { u.int_in_range(0..=5)? };
                length(len, to);
                for _ in 0..len {
                    parts.iter().try_for_each(|part| self.value(part, u, inside, to))?;
                }
            }
            // The target `serde` covers values that describe themselves.
            ("Serde", _) => {
                to.push(1);
                to.extend(self.raw(u)?);
            }
            (number, _) => {
                let bits = number.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(64);
                let bytes = u.arbitrary::<u128>()?.to_le_bytes();
                to.extend(&bytes[..usize::min(bits / 8, 16)]);
            }
        }
        Ok(())
    }

    fn defined(&self, of: &Definition, u: &mut Unstructured<'_>, depth: u32, to: &mut Vec<u8>) -> Result<()> {
        let fields = match of {
            Definition::Extensible { first, added } => {
                for (_, of) in first {
                    self.value(of.as_str(), u, depth, to)?;
                }
                return self.added(added, u, depth, to);
            }
            // No bytes stand for it: words at the beginning of the message do.
            Definition::Interface(_) => return Ok(()),
            Definition::Struct(fields) => fields,
            Definition::Enum(variants) => {
                let variant = u.choose_index(variants.len())?;
                to.push(variant as u8);
                &variants[variant].fields
            }
        };
        let mut each = |of: &TypeName| self.value(of.as_str(), u, depth, to);
        match fields {
            Fields::Unit => Ok(()),
            Fields::Tuple(fields) => fields.iter().try_for_each(&mut each),
            Fields::Named(fields) => fields.iter().try_for_each(|(_, of)| each(of)),
        }
    }
}

impl Values<'_> {
    /// The added fields of an extensible struct. A peer of another version knows fewer or more.
    fn added(
        &self,
        fields: &[(&'static str, TypeName)],
        u: &mut Unstructured<'_>,
        depth: u32,
        to: &mut Vec<u8>,
    ) -> Result<()> {
        let count = u.int_in_range(0..=fields.len() + 1)?;
        let mut bytes = vec![count as u8];
        for at in 0..count {
            match fields.get(at) {
                Some((_, of)) => self.value(of.as_str(), u, depth, &mut bytes)?,
                None => bytes.extend(self.raw(u)?),
            }
        }
        bytes.extend((u.ratio(1, 20)? as u16).to_le_bytes());
        if count == 0 {
            bytes.clear();
        }
        length(bytes.len(), to);
        to.extend(bytes);
        Ok(())
    }
}

/// The number of elements that follow.
fn length(len: usize, to: &mut Vec<u8>) {
    match u8::try_from(len) {
        Ok(short) if short < 255 => to.push(short),
        _ => {
            to.push(255);
            to.extend((len as u64).to_le_bytes());
        }
    }
}

/// The parts of a list of types, split at the commas that are not inside a part.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut inside) = (Vec::new(), 0, 0i32);
    for (at, c) in list.char_indices() {
        match c {
            '<' | '(' | '[' => inside += 1,
            '>' | ')' | ']' => inside -= 1,
            ',' if inside == 0 => {
                parts.push(list[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[begin..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}
