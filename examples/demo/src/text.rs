//! The text that the editor works on, and the expected result.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The word that the editor replaces, and its replacement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The word to find. It does not overlap itself, so its places do not depend on where a search
    /// begins.
    pub find: String,
    /// The replacement. Its length differs, so that everything behind it moves.
    pub replace: String,
}

impl Change {
    /// Replaces the commonest word of `text` by itself in capitals and brackets.
    pub fn of(text: &[u8]) -> Self {
        let find = commonest_word(text).unwrap_or_else(|| "underpass".to_owned());
        Self { replace: format!("[{}]", find.to_uppercase()), find }
    }

    /// The expected text and the number of changed places, computed in the plain way to check the
    /// editor.
    pub fn applied(&self, text: &[u8]) -> (Vec<u8>, u64) {
        let (mut out, mut places, mut at) = (Vec::with_capacity(text.len()), 0, 0);
        while at < text.len() {
            if text[at..].starts_with(self.find.as_bytes()) {
                out.extend_from_slice(self.replace.as_bytes());
                places += 1;
                at += self.find.len();
            } else {
                out.push(text[at]);
                at += 1;
            }
        }
        (out, places)
    }
}

/// Makes `bytes` bytes of text, the same for each `seed`.
pub fn make(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut out = Vec::with_capacity(bytes + 16);
    let (mut column, mut sentence) = (0, 0);
    while out.len() < bytes {
        // The product of two random numbers makes the first words of the list the common ones.
        let rank = random.below(WORDS.len() as u64) * random.below(WORDS.len() as u64) / WORDS.len() as u64;
        let word = WORDS[rank as usize];
        let first = sentence == 0;
        sentence += 1;
        if first {
            out.push(word.as_bytes()[0].to_ascii_uppercase());
            out.extend_from_slice(&word.as_bytes()[1..]);
        } else {
            out.extend_from_slice(word.as_bytes());
        }
        if sentence > 6 && random.below(9) == 0 {
            out.push(b'.');
            sentence = 0;
        }
        column += word.len() + 1;
        out.push(if column > 72 { b'\n' } else { b' ' });
        column = if column > 72 { 0 } else { column };
    }
    out.truncate(bytes);
    out
}

/// The commonest word of 5 to 24 small letters in the first MiB that does not overlap itself. Among
/// equals, the alphabetically first.
fn commonest_word(text: &[u8]) -> Option<String> {
    let mut counts: HashMap<&[u8], u32> = HashMap::new();
    for word in text[..text.len().min(1 << 20)].split(|byte| !byte.is_ascii_lowercase()) {
        if (5..=24).contains(&word.len()) && !overlaps_itself(word) {
            *counts.entry(word).or_default() += 1;
        }
    }
    let best = counts.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(a.0)))?;
    String::from_utf8(best.0.to_vec()).ok()
}

/// Whether `word` begins with one of its own ends, as "onion" does.
fn overlaps_itself(word: &[u8]) -> bool {
    (1..word.len()).any(|len| word[..len] == word[word.len() - len..])
}

/// SplitMix64: good enough to mix words.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

const WORDS: [&str; 48] = [
    "the",
    "a",
    "of",
    "kernel",
    "and",
    "call",
    "to",
    "thread",
    "in",
    "processor",
    "is",
    "message",
    "by",
    "address",
    "for",
    "space",
    "with",
    "memory",
    "on",
    "server",
    "client",
    "channel",
    "when",
    "window",
    "reply",
    "queue",
    "waits",
    "user",
    "level",
    "editor",
    "cache",
    "block",
    "file",
    "shared",
    "idle",
    "switches",
    "donates",
    "lock",
    "upcall",
    "stub",
    "binding",
    "export",
    "import",
    "latency",
    "trap",
    "scheduler",
    "stack",
    "procedure",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_long_as_asked_for_and_repeatable() {
        let text = make(100_000, 7);
        assert_eq!(text.len(), 100_000);
        assert_eq!(text, make(100_000, 7));
        assert_ne!(text, make(100_000, 8));
        assert!(text.is_ascii());
        assert!(text.split(|&byte| byte == b'\n').all(|line| line.len() < 90));
    }

    #[test]
    fn the_commonest_word_is_changed() {
        let change = Change::of(&make(100_000, 1));
        assert_eq!((change.find.as_str(), change.replace.as_str()), ("kernel", "[KERNEL]"));
        assert_eq!(Change::of(b"").find, "underpass");
        assert_eq!(Change::of(b"onion onion onion carrot").find, "carrot");
    }

    #[test]
    fn a_word_that_overlaps_itself_is_told() {
        assert!(overlaps_itself(b"onion"));
        assert!(overlaps_itself(b"aa"));
        assert!(!overlaps_itself(b"kernel"));
    }

    #[test]
    fn applied_changes_each_place() {
        let change = Change { find: "ab".to_owned(), replace: "[AB]".to_owned() };
        assert_eq!(change.applied(b"abxaabab"), (b"[AB]xa[AB][AB]".to_vec(), 3));
        assert_eq!(change.applied(b""), (vec![], 0));
    }
}
