//! A table on the terminal.

use super::terminal_text::printable_name;
use anstyle::Style;
use std::borrow::Cow;
use std::io::{self, Write};

/// Rows of texts, each column as wide as its widest text.
#[derive(Debug)]
pub(super) struct TextTable {
    rows: Vec<Vec<String>>,
    /// Whether the column has numbers, which end at its right edge.
    numbers: Vec<bool>,
}

impl TextTable {
    /// A table with these heads. A head that begins with `>` is that of numbers.
    pub(super) fn new(heads: &[&str]) -> Self {
        let numbers = heads.iter().map(|head| head.starts_with('>')).collect();
        let heads = heads.iter().map(|head| head.trim_start_matches('>').to_owned());
        Self { rows: vec![heads.collect()], numbers }
    }

    /// Adds a row. Texts of other processes forge no further ones.
    pub(super) fn row(&mut self, texts: impl IntoIterator<Item = String>) {
        self.rows.push(texts.into_iter().map(|text| printable_name(&text)).collect());
    }

    /// Writes it, with the heads in bold.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.write_within(out, usize::MAX)
    }

    /// Writes it with lines of `room` characters at most. A table that is wider has one space
    /// between its columns instead of two, and `…` where its lines are cut.
    pub(super) fn write_within(&self, out: &mut impl Write, room: usize) -> io::Result<()> {
        let width = |column: usize| {
            let texts = self.rows.iter().filter_map(|row| row.get(column));
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.numbers.len()).map(width).collect();
        let gaps = widths.len().saturating_sub(1);
        let is_wide = widths.iter().sum::<usize>() + 2 * gaps > room;
        let between = if is_wide { " " } else { "  " };
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, text) in row.iter().enumerate() {
                let width = widths[column];
                let gap = if column == 0 { "" } else { between };
                line += &match self.numbers[column] {
                    true => format!("{gap}{text:>width$}"),
                    false => format!("{gap}{text:width$}"),
                };
            }
            let style = if index == 0 { Style::new().bold() } else { Style::new() };
            writeln!(out, "{style}{}{style:#}", cut(line.trim_end(), room))?;
        }
        Ok(())
    }
}

/// The line, or as much of it as there is room for.
fn cut(line: &str, room: usize) -> Cow<'_, str> {
    if line.chars().count() <= room {
        return line.into();
    }
    line.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_texts() {
        let mut table = TextTable::new(&["name", ">calls", "who"]);
        table.row(["a".to_owned(), "12345678".to_owned(), "x".to_owned()]);
        table.row(["longer\x1b[2J".to_owned(), "1".to_owned(), String::new()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let said = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(said, "name           calls  who\na           12345678  x\nlonger\u{fffd}[2J         1\n");
    }

    #[test]
    fn a_table_that_is_too_wide_is_narrowed_and_then_cut() {
        let mut table = TextTable::new(&[">calls", "names"]);
        table.row(["12345678".to_owned(), "one two".to_owned()]);
        let within = |room: usize| {
            let mut out = Vec::new();
            table.write_within(&mut out, room).unwrap();
            anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
        };
        assert_eq!(within(17), "   calls  names\n12345678  one two\n");
        assert_eq!(within(16), "   calls names\n12345678 one two\n");
        assert_eq!(within(12), "   calls na…\n12345678 on…\n");
        assert_eq!(within(0), "…\n…\n");
    }

    #[test]
    fn a_name_forges_no_row() {
        let mut table = TextTable::new(&["name", "who"]);
        table.row(["a\nfs.cache  root\r\u{85}".to_owned(), String::new()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let said = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(said.lines().count(), 2, "{said}");
        assert!(!said.contains(['\r', '\u{85}']), "{said:?}");
    }
}
