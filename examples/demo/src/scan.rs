//! Finds a word in a text that arrives in pieces.

use memchr::memmem::Finder;

/// A part of the text, in the order of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Bytes without the word.
    Text(&'a [u8]),
    /// The word, at this offset in [`Scan::seen`].
    Word(usize),
}

/// A search that continues over the pieces of a text.
#[derive(Debug)]
pub struct Scan {
    word: Finder<'static>,
    seen: Vec<u8>,
    told: usize,
}

impl Scan {
    /// A search for `word`, which must not be empty and must not overlap itself.
    pub fn new(word: &str) -> Self {
        Self { word: Finder::new(word.as_bytes()).into_owned(), seen: Vec::new(), told: 0 }
    }

    /// Takes the next piece. Reports the parts that are certain now.
    pub fn push(&mut self, piece: &[u8], mut tell: impl FnMut(Part<'_>)) {
        self.seen.drain(..self.told);
        self.seen.extend_from_slice(piece);
        let (len, mut at) = (self.word.needle().len(), 0);
        while let Some(text) = self.word.find(&self.seen[at..]) {
            if text > 0 {
                tell(Part::Text(&self.seen[at..at + text]));
            }
            tell(Part::Word(at + text));
            at += text + len;
        }
        // A word may begin in the last bytes and end in the next piece.
        let certain = at.max(self.seen.len().saturating_sub(len - 1));
        if certain > at {
            tell(Part::Text(&self.seen[at..certain]));
        }
        self.told = certain;
    }

    /// Reports the rest, when there is no more text.
    pub fn finish(&mut self, mut tell: impl FnMut(Part<'_>)) {
        if self.told < self.seen.len() {
            tell(Part::Text(&self.seen[self.told..]));
            self.told = self.seen.len();
        }
    }

    /// The number of bytes that were taken and not reported yet.
    pub fn held(&self) -> usize {
        self.seen.len() - self.told
    }

    /// The bytes that were held back, and then those of the last piece.
    pub fn seen(&self) -> &[u8] {
        &self.seen
    }
}

/// The offset near the middle of `around` at which a text can be cut without dividing a `word`.
///
/// `around` holds `word.len() - 1` bytes on each side of the middle, and fewer at the ends of the
/// text. `before` is the number of bytes before the middle.
pub fn cut(around: &[u8], before: usize, word: &str) -> usize {
    match memchr::memmem::find(around, word.as_bytes()) {
        Some(at) if at < before => at + word.len(),
        _ => before,
    }
}

/// The line around byte `at` of `text`, at most `width` bytes of it.
pub fn line_around(text: &[u8], at: usize, width: usize) -> &[u8] {
    let at = at.min(text.len());
    let from = text[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let from = from.max(at.saturating_sub(width / 2));
    let to = text[at..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |newline| at + newline);
    &text[from..to.min(from + width)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Change, make};

    fn changed(change: &Change, pieces: &[&[u8]]) -> Vec<u8> {
        let (mut scan, mut out) = (Scan::new(&change.find), Vec::new());
        let mut tell = |part: Part<'_>| match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Word(_) => out.extend_from_slice(change.replace.as_bytes()),
        };
        for piece in pieces {
            scan.push(piece, &mut tell);
        }
        scan.finish(&mut tell);
        out
    }

    #[test]
    fn pieces_of_any_size_give_the_same() {
        let text = make(5_000, 3);
        let change = Change::of(&text);
        for size in [1, 2, 5, 6, 7, 64, 4_096, 10_000] {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(changed(&change, &pieces), change.applied(&text).0, "pieces of {size}");
        }
    }

    #[test]
    fn no_text_gives_none() {
        let change = Change { find: "ab".to_owned(), replace: "x".to_owned() };
        assert_eq!(changed(&change, &[]), b"");
        assert_eq!(changed(&change, &[b"", b"a", b""]), b"a");
    }

    #[test]
    fn the_place_of_a_word_is_in_what_was_seen() {
        let mut scan = Scan::new("word");
        scan.push(b"a wo", |_| {});
        assert_eq!(scan.held(), 3);
        let mut at = None;
        scan.push(b"rd b", |part| {
            if let Part::Word(place) = part {
                at = Some(place)
            }
        });
        assert_eq!(&scan.seen()[at.unwrap()..][..4], b"word");
    }

    #[test]
    fn a_cut_never_splits_a_word() {
        let text = b"xxkernelxx";
        for middle in 0..=text.len() {
            let from = middle.saturating_sub(5);
            let around = &text[from..(middle + 5).min(text.len())];
            let cut = from + cut(around, middle - from, "kernel");
            assert_eq!(cut, if (3..8).contains(&middle) { 8 } else { middle }, "middle {middle}");
        }
    }

    #[test]
    fn a_line_is_cut_to_its_width() {
        let text = b"one\ntwo three four\nfive";
        assert_eq!(line_around(text, 8, 80), b"two three four");
        assert_eq!(line_around(text, 8, 6), b"wo thr");
        assert_eq!(line_around(text, 99, 80), b"five");
        assert_eq!(line_around(b"", 0, 80), b"");
    }
}
