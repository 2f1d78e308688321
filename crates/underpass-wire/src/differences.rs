//! Compares the texts of two descriptors line by line, for people.

use std::collections::{BTreeMap, BTreeSet};

/// The most differences that are reported. A foreign text may have any number.
const MOST: usize = 12;

/// The most characters of anything in the text that are shown.
const WIDEST: usize = 200;

pub(crate) fn differences(here: &str, there: &str) -> String {
    let (ours, theirs) = (by_subject(here), by_subject(there));
    let subjects: BTreeSet<&Subject<'_>> = ours.keys().chain(theirs.keys()).collect();
    // Differences of A-stacks follow from other differences, if there are any.
    let (stacks, others): (Vec<_>, Vec<_>) =
        subjects.into_iter().partition(|subject| **subject == Subject::Stacks);
    let tell = |subjects: Vec<&Subject<'_>>| -> Vec<String> {
        let told = subjects.into_iter().filter_map(|subject| {
            let name = subject.shown();
            match (ours.get(subject), theirs.get(subject)) {
                (Some(here), Some(there)) if here == there => None,
                (Some(here), Some(there)) => {
                    Some(format!("{name}: here `{}`, there `{}`", shown(here), shown(there)))
                }
                (Some(_), None) => Some(format!("{name}: not there")),
                (None, _) => Some(format!("{name}: only there")),
            }
        });
        told.collect()
    };
    let mut told = tell(others);
    if told.is_empty() {
        told = tell(stacks);
    }
    if told.len() > MOST {
        let more = told.len() - MOST;
        told.truncate(MOST);
        told.push(format!("and {more} more"));
    }
    told.join("\n")
}

/// The subject of a line. Differences are reported in this order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Subject<'a> {
    Format,
    Interface,
    Procedure(&'a str),
    Type(&'a str),
    Stacks,
    Other(&'a str),
}

impl Subject<'_> {
    fn shown(&self) -> String {
        match self {
            Self::Format => "format".to_owned(),
            Self::Interface => "interface".to_owned(),
            Self::Procedure(name) => format!("procedure {}", shown(name)),
            Self::Type(name) => format!("type {}", shown(name)),
            Self::Stacks => "A-stacks".to_owned(),
            Self::Other(line) => shown(line),
        }
    }
}

/// The lines of a text by subject, each with its content.
fn by_subject(text: &str) -> BTreeMap<Subject<'_>, &str> {
    text.lines().map(subject).collect()
}

fn subject(line: &str) -> (Subject<'_>, &str) {
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    match kind {
        "underpass" => (Subject::Format, rest),
        "interface" => (Subject::Interface, rest),
        "procedure" => {
            let signature = rest.split_once(' ').map_or(rest, |(_index, signature)| signature);
            (Subject::Procedure(signature.split('(').next().unwrap_or(signature)), rest)
        }
        // `Pair<u8, u16> { .. }`, `Id(u64)`, `Unit`: the name ends before its fields.
        "struct" | "enum" => (Subject::Type(type_name(rest)), line),
        "A-stacks" => (Subject::Stacks, rest),
        _ => (Subject::Other(line), ""),
    }
}

fn type_name(rest: &str) -> &str {
    let mut inside = 0usize;
    for (at, c) in rest.char_indices() {
        match c {
            '<' => inside += 1,
            '>' => inside = inside.saturating_sub(1),
            ' ' | '(' if inside == 0 => return &rest[..at],
            _ => {}
        }
    }
    rest
}

/// The part of a foreign text that belongs in an error message.
fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(WIDEST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(WIDEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "underpass wire 1\n\
                        interface FileCache\n\
                        procedure 0 open(name: String) -> Result<FileId, FsError>\n\
                        procedure 1 stat(file: FileId) -> Result<u64, FsError>\n\
                        struct FileId(u64)\n\
                        enum FsError { Stale }\n\
                        struct Pair<(u8, u8), u16> { a: u8 }\n\
                        A-stacks of 64 bytes\n";

    #[test]
    fn the_same_is_no_difference() {
        assert_eq!(differences(OURS, OURS), "");
    }

    #[test]
    fn every_kind_of_line_is_told() {
        let theirs = "underpass wire 2\n\
                      interface FileCash\n\
                      procedure 0 stat(file: FileId) -> Result<u64, FsError>\n\
                      procedure 1 read() -> Result<(), FsError>\n\
                      struct FileId(u32)\n\
                      enum FsError { Stale }\n\
                      struct Pair<(u8, u8), u16> { b: u8 }\n\
                      A-stacks of 512 bytes\n\
                      gibberish";
        let expected = "format: here `wire 1`, there `wire 2`\n\
            interface: here `FileCache`, there `FileCash`\n\
            procedure open: not there\n\
            procedure read: only there\n\
            procedure stat: here `1 stat(file: FileId) -> Result<u64, FsError>`, \
            there `0 stat(file: FileId) -> Result<u64, FsError>`\n\
            type FileId: here `struct FileId(u64)`, there `struct FileId(u32)`\n\
            type Pair<(u8, u8), u16>: here `struct Pair<(u8, u8), u16> { a: u8 }`, \
            there `struct Pair<(u8, u8), u16> { b: u8 }`\n\
            gibberish: only there";
        assert_eq!(differences(OURS, theirs), expected);
    }

    #[test]
    fn a_stacks_are_told_where_nothing_else_is() {
        let theirs = OURS.replace("of 64 bytes", "of 512 bytes");
        assert_eq!(differences(OURS, &theirs), "A-stacks: here `of 64 bytes`, there `of 512 bytes`");
    }

    #[test]
    fn a_strangers_text_stays_short_and_printable() {
        let mut theirs = format!("interface \u{1b}[31m{}\n", "x".repeat(1 << 20));
        for i in 0..10_000 {
            theirs.push_str(&format!("procedure {i} p{i}() -> {}\n", "é".repeat(300)));
        }
        let told = differences(OURS, &theirs);
        assert!(told.len() < 10_000, "{}", told.len());
        assert!(!told.contains('\u{1b}'));
        assert!(told.ends_with("more"), "{told}");
    }
}
