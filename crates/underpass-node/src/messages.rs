//! What a domain and the server tell each other over the socket. What changes often lies in their
//! pages instead.

use crate::page::layout::{LAYOUT_VERSION, PLACES, SERVER};
use crate::policy::Terms;

/// The name of the server's socket in the user's directory.
pub const NAME: &str = ".node";

/// The most bytes of a message.
pub(crate) const LONGEST: usize = 4096;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeMessage {
    /// A domain wants a page. It runs so many activations now.
    Register { terms: Terms, running: u32 },
    /// The domain has its page and the server's, which come along. It is at this place, of this
    /// generation, on a machine of so many processors.
    Welcome { place: usize, generation: u32, processors: u32 },
    /// The domain has mapped its page for writing.
    Mapped,
    /// A domain's page, which comes along, is to be shown at this place.
    Show { place: usize },
    /// The domain at this place has ended.
    Hide { place: usize },
    /// The server has no place, or speaks another version.
    Refused { version: u32 },
    /// Somebody asks for the status.
    Status,
    /// The processes below the sender, which is no domain itself, are to take part with this
    /// weight.
    Pin { weight: u16 },
    /// The answer, in JSON.
    StatusIs(String),
}

const REGISTER: u32 = 1;
const WELCOME: u32 = 2;
const MAPPED: u32 = 3;
const SHOW: u32 = 4;
const HIDE: u32 = 5;
const REFUSED: u32 = 6;
const STATUS: u32 = 7;
const STATUS_IS: u32 = 8;
const PIN: u32 = 9;

impl NodeMessage {
    /// The bytes of the message: words of 4 bytes, then perhaps a text.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (words, text): (Vec<u32>, &str) = match self {
            Self::Register { terms, running } => {
                let Terms { weight, minimum, maximum } = *terms;
                (vec![REGISTER, LAYOUT_VERSION, weight.into(), minimum, maximum, *running], "")
            }
            Self::Welcome { place, generation, processors } => {
                (vec![WELCOME, *place as u32, *generation, *processors], "")
            }
            Self::Mapped => (vec![MAPPED], ""),
            Self::Show { place } => (vec![SHOW, *place as u32], ""),
            Self::Hide { place } => (vec![HIDE, *place as u32], ""),
            Self::Refused { version } => (vec![REFUSED, *version], ""),
            Self::Status => (vec![STATUS], ""),
            Self::Pin { weight } => (vec![PIN, LAYOUT_VERSION, (*weight).into()], ""),
            Self::StatusIs(text) => (vec![STATUS_IS], text),
        };
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    /// The message of these bytes. `None` if they are none, or of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |n: usize| words.get(n).map(|bytes| u32::from_ne_bytes(*bytes));
        let place =
            |n| word(n).map(|place| place as usize).filter(|&place| place != SERVER && place < PLACES);
        Some(match word(0)? {
            REGISTER if word(1)? == LAYOUT_VERSION => {
                let weight = u16::try_from(word(2)?).ok()?;
                let terms = Terms { weight, minimum: word(3)?, maximum: word(4)? };
                Self::Register { terms, running: word(5)? }
            }
            WELCOME => Self::Welcome { place: place(1)?, generation: word(2)?, processors: word(3)? },
            MAPPED => Self::Mapped,
            SHOW => Self::Show { place: place(1)? },
            HIDE => Self::Hide { place: place(1)? },
            REFUSED => Self::Refused { version: word(1)? },
            STATUS => Self::Status,
            PIN if word(1)? == LAYOUT_VERSION => Self::Pin { weight: u16::try_from(word(2)?).ok()? },
            STATUS_IS => Self::StatusIs(String::from_utf8(bytes.get(4..)?.to_vec()).ok()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_comes_as_it_was_sent() {
        let terms = Terms { weight: 3, minimum: 1, maximum: 8 };
        for message in [
            NodeMessage::Register { terms, running: 2 },
            NodeMessage::Welcome { place: 125, generation: u32::MAX >> 1, processors: 2 },
            NodeMessage::Mapped,
            NodeMessage::Show { place: 1 },
            NodeMessage::Hide { place: 1 },
            NodeMessage::Refused { version: 2 },
            NodeMessage::Status,
            NodeMessage::Pin { weight: 7 },
            NodeMessage::StatusIs("{}".to_owned()),
        ] {
            assert_eq!(NodeMessage::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn other_bytes_are_no_message() {
        for words in [
            &[][..],
            &[0],
            &[99],
            &[SHOW],
            &[SHOW, 0],
            &[SHOW, 126],
            &[REGISTER, 99, 1, 0, 1, 0],
            &[PIN, 99, 1],
        ] {
            let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
            assert_eq!(NodeMessage::decode(&bytes), None, "{words:?}");
        }
        assert_eq!(NodeMessage::decode(&[1, 0]), None);
    }
}
