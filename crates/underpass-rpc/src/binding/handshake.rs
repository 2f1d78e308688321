//! The messages that make a binding: the client's hello and the server's answer. Each side checks
//! what the other has sent.

use crate::binding::clock_offset::{self, Clock};
use std::io;
use std::ops::RangeInclusive;
use underpass_channel::layout::{REGION, VERSION};
use underpass_channel::{Fence, Tag};
use underpass_os::{barrier, cpu};
use underpass_processor::Pool;
use underpass_wire::{Decode, Descriptor, Encode};

const MAGIC: u32 = 0x5552_5043;

/// Bytes of the longest message. The text of a descriptor is cut to fit.
pub(crate) const LONGEST: usize = 64 * 1024;
/// Bytes of the longest hello that a server accepts. Leaves space for fields of later versions.
pub(crate) const LONGEST_HELLO: usize = 1024;
/// How many versions of an interface a hello may name.
const VERSIONS: RangeInclusive<usize> = 1..=Descriptor::MOST_VERSIONS as usize;
const MOST_TEXT: usize = LONGEST - 256;

/// The facts about a domain that its peers need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// The domain has registered for memory barriers that other processes request (membarrier).
    barriers: bool,
    /// The only CPU that the domain may use, if there is only one.
    only_cpu: Option<u32>,
    /// The domain serves calls on donated processors alone.
    donated_only: bool,
    /// The domain knows what requests can carry in front of their arguments. A server's tells it.
    prefixes: bool,
}

/// Capabilities in the form in which they are encoded.
type EncodedCapabilities = (bool, Option<u32>, bool);

impl Capabilities {
    /// The capabilities of this domain.
    pub(crate) fn own() -> Self {
        let only_cpu = match cpu::allowed().as_deref() {
            Ok(&[only]) => Some(only as u32),
            _ => None,
        };
        Self { barriers: barrier::register(), only_cpu, donated_only: Pool::donated_only(), prefixes: true }
    }

    fn parts(self) -> EncodedCapabilities {
        (self.barriers, self.only_cpu, self.donated_only)
    }

    fn of((barriers, only_cpu, donated_only): EncodedCapabilities) -> Self {
        Self { barriers, only_cpu, donated_only, prefixes: false }
    }

    /// Whether requests may have prefixes.
    pub(crate) fn takes_prefixes(self) -> bool {
        self.prefixes
    }

    /// The cheapest fence that is correct for both sides.
    pub(crate) fn fence(self, theirs: Self) -> Fence {
        if self.barriers && theirs.barriers { Fence::Light } else { Fence::Full }
    }

    /// On which CPUs the two domains may run.
    pub(crate) fn placement(self, theirs: Self) -> CpuPlacement {
        let both = self.only_cpu.zip(theirs.only_cpu);
        // A server that runs on donated processors alone runs where its client has stopped.
        let by_turns = self.donated_only || theirs.donated_only;
        let may_overlap = !by_turns && both.is_none_or(|(a, b)| a != b);
        CpuPlacement {
            may_overlap,
            may_share_cpu: both.is_none_or(|(a, b)| a == b),
            same_cpu_only: !may_overlap && both.is_none_or(|(a, b)| a == b),
        }
    }
}

/// On which CPUs two domains may run. The value is the same seen from either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuPlacement {
    /// The two may run at the same time, on different CPUs.
    pub(crate) may_overlap: bool,
    /// The two may run on the same CPU, one after the other.
    pub(crate) may_share_cpu: bool,
    /// Both have the same only CPU, so a processor of the peer's own would be this one.
    pub(crate) same_cpu_only: bool,
}

/// Client to server: the interface that the client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The hashes of the versions that the client knows of it, the newest first.
    pub(crate) hashes: Vec<u64>,
    pub(crate) capabilities: Capabilities,
    pub(crate) clock: Clock,
    /// The secrets of connections that may lead to this server.
    pub(crate) secrets: Vec<u128>,
}

/// The most secrets in a hello.
pub(crate) const SECRETS: usize = 4;

/// Server to client: the binding, or why there is none. The file of the connection's region comes
/// with `Welcome`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HelloReply {
    Welcome {
        capabilities: Capabilities,
        /// The hash of the version that both sides know.
        hash: u64,
        /// Names the state that the export serves, if the server named it.
        state: Option<u128>,
        /// What the client shows to get further rows of this connection.
        secret: u128,
        /// The binding's row.
        tag: Tag,
    },
    /// A row of the connection of which the hello has shown the secret at this place.
    Joined {
        place: u8,
        /// The hash of the version that both sides know.
        hash: u64,
        state: Option<u128>,
        tag: Tag,
    },
    OtherVersion {
        version: u32,
    },
    OtherInterface {
        hash: u64,
        text: String,
    },
    Failed {
        why: String,
    },
    Denied {
        why: String,
    },
    Limit {
        why: String,
    },
}

type Head = (u32, u32, u64);

/// A welcome in the form in which it is encoded.
type EncodedWelcome = (Head, u8, EncodedCapabilities, u64, Option<u128>, u128, u64);
/// The same with what was appended to it: whether requests may have prefixes.
type AppendedWelcome = (EncodedWelcome, bool);
/// The same of an answer that names a row of a connection that there is.
type EncodedJoined = (Head, u8, u8, u64, Option<u128>, u64);

fn head() -> Head {
    (MAGIC, VERSION, REGION as u64)
}

fn written(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.size());
    value.encode(&mut bytes);
    bytes
}

fn read<T: Decode>(mut bytes: &[u8]) -> Option<T> {
    // A later version may append fields: ignore bytes that are left over.
    T::decode(&mut bytes).ok()
}

impl Hello {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let secrets = &self.secrets[..];
        written(&(head(), &self.hashes[..], self.capabilities.parts(), self.clock.parts(), secrets))
    }

    /// Decodes a hello. The error is the answer that the server sends instead.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, HelloReply> {
        let spoken: Head = read(bytes)
            .filter(|head: &Head| head.0 == MAGIC)
            .ok_or_else(|| HelloReply::Failed { why: "the first message is no hello".to_owned() })?;
        if spoken != head() {
            return Err(HelloReply::OtherVersion { version: VERSION });
        }
        type Encoded = (Head, Vec<u64>, EncodedCapabilities, clock_offset::EncodedClock, Vec<u128>);
        let (_, hashes, capabilities, clock, secrets) = read(bytes)
            .filter(|hello: &Encoded| VERSIONS.contains(&hello.1.len()) && hello.4.len() <= SECRETS)
            .ok_or_else(|| HelloReply::Failed { why: "the hello is malformed".to_owned() })?;
        let (capabilities, clock) = (Capabilities::of(capabilities), Clock::of(clock));
        Ok(Self { hashes, capabilities, clock, secrets })
    }
}

impl HelloReply {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Welcome { capabilities, hash, state, secret, tag } => {
                let first: EncodedWelcome =
                    (head(), 0u8, capabilities.parts(), *hash, *state, *secret, tag.word());
                written(&(first, capabilities.prefixes))
            }
            Self::Joined { place, hash, state, tag } => {
                written(&(head(), 6u8, *place, *hash, *state, tag.word()))
            }
            Self::OtherVersion { version } => written(&(head(), 1u8, *version)),
            Self::OtherInterface { hash, text } => written(&(head(), 2u8, *hash, cut(text))),
            Self::Failed { why } => written(&(head(), 3u8, cut(why))),
            Self::Denied { why } => written(&(head(), 4u8, cut(why))),
            Self::Limit { why } => written(&(head(), 5u8, cut(why))),
        }
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        let nonsense = || io::Error::new(io::ErrorKind::InvalidData, "the server's answer is malformed");
        let (found, kind): (Head, u8) =
            read(bytes).filter(|(head, _): &(Head, u8)| head.0 == MAGIC).ok_or_else(nonsense)?;
        match kind {
            _ if found.1 != VERSION => Some(Self::OtherVersion { version: found.1 }),
            0 => read(bytes).map(|(_, _, capabilities, hash, state, secret, tag): EncodedWelcome| {
                // A server that is older says nothing of it.
                let prefixes = read(bytes).is_some_and(|(_, prefixes): AppendedWelcome| prefixes);
                let capabilities = Capabilities { prefixes, ..Capabilities::of(capabilities) };
                Self::Welcome { capabilities, hash, state, secret, tag: Tag::of_word(tag) }
            }),
            1 => read(bytes).map(|(_, _, version): (Head, u8, u32)| Self::OtherVersion { version }),
            2 => read(bytes)
                .map(|(_, _, hash, text): (Head, u8, u64, String)| Self::OtherInterface { hash, text }),
            3 => read(bytes).map(|(_, _, why): (Head, u8, String)| Self::Failed { why }),
            4 => read(bytes).map(|(_, _, why): (Head, u8, String)| Self::Denied { why }),
            5 => read(bytes).map(|(_, _, why): (Head, u8, String)| Self::Limit { why }),
            6 => read(bytes).map(|(_, _, place, hash, state, tag): EncodedJoined| Self::Joined {
                place,
                hash,
                state,
                tag: Tag::of_word(tag),
            }),
            _ => None,
        }
        .ok_or_else(nonsense)
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MOST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_welcome_of_an_older_server_says_nothing_of_prefixes() {
        let capabilities = Capabilities { prefixes: true, ..Capabilities::of((true, None, false)) };
        let welcome =
            HelloReply::Welcome { capabilities, hash: 1, state: None, secret: 2, tag: Tag::new(0, 1) };
        let bytes = welcome.to_bytes();
        assert_eq!(HelloReply::from_bytes(&bytes).unwrap(), welcome);
        let older = HelloReply::from_bytes(&bytes[..bytes.len() - 1]).unwrap();
        let HelloReply::Welcome { capabilities, .. } = older else { panic!("{older:?}") };
        assert!(!capabilities.takes_prefixes());
    }

    #[test]
    fn messages_survive_the_socket() {
        let capabilities =
            Capabilities { barriers: true, only_cpu: Some(1), donated_only: true, prefixes: false };
        for count in [1, 2, *VERSIONS.end()] {
            let (hashes, secrets) = ((0..count as u64).collect(), vec![u128::MAX; SECRETS]);
            let hello = Hello { hashes, capabilities, clock: Clock::of((-5, 6)), secrets };
            assert!(hello.to_bytes().len() <= LONGEST_HELLO);
            assert_eq!(Hello::from_bytes(&hello.to_bytes()), Ok(hello));
        }
        let welcome =
            |hash, state, secret, tag| HelloReply::Welcome { capabilities, hash, state, secret, tag };
        for answer in [
            welcome(7, None, 1, Tag::new(0, 1)),
            welcome(8, Some(u128::MAX - 1), 0, Tag::new(7, 9)),
            HelloReply::Joined { place: 3, hash: 9, state: None, tag: Tag::new(99_999, 1) },
            HelloReply::OtherVersion { version: 9 },
            HelloReply::OtherInterface { hash: 3, text: "text".to_owned() },
            HelloReply::Failed { why: "no".to_owned() },
            HelloReply::Denied { why: "no".to_owned() },
            HelloReply::Limit { why: "no".to_owned() },
        ] {
            assert_eq!(HelloReply::from_bytes(&answer.to_bytes()).unwrap(), answer);
        }
    }

    #[test]
    fn malformed_messages_are_refused() {
        let capabilities = Capabilities::of((true, None, false));
        let hello = |hashes, secrets| Hello { hashes, capabilities, clock: Clock::own(), secrets }.to_bytes();
        assert!(Hello::from_bytes(&hello(vec![7], vec![0; SECRETS])).is_ok());
        assert!(Hello::from_bytes(&hello(vec![7], vec![0; SECRETS + 1])).is_err());
        let bytes = hello(vec![7, 8], vec![1; SECRETS]);
        for end in 0..bytes.len() {
            assert!(Hello::from_bytes(&bytes[..end]).is_err());
        }
        let mut other = bytes.clone();
        other[4] += 1;
        assert_eq!(Hello::from_bytes(&other), Err(HelloReply::OtherVersion { version: VERSION }));
        assert!(HelloReply::from_bytes(&bytes[..3]).is_err());
        for count in [0, VERSIONS.end() + 1] {
            assert!(Hello::from_bytes(&hello(vec![7; count], Vec::new())).is_err(), "{count} versions");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let answer = HelloReply::Failed { why: "ä".repeat(LONGEST) };
        assert!(answer.to_bytes().len() <= LONGEST);
        assert!(HelloReply::from_bytes(&answer.to_bytes()).is_ok());
    }

    #[test]
    fn polling_pays_unless_both_have_the_same_only_cpu() {
        let on = |only_cpu| Capabilities::of((false, only_cpu, false));
        let at = |may_overlap, may_share_cpu| CpuPlacement {
            may_overlap,
            may_share_cpu,
            same_cpu_only: !may_overlap,
        };
        assert_eq!(on(Some(1)).placement(on(Some(1))), at(false, true));
        assert_eq!(on(Some(1)).placement(on(Some(0))), at(true, false));
        assert_eq!(on(None).placement(on(None)), at(true, true));
        assert_eq!(on(Some(1)).placement(on(None)), at(true, true));
        let donated = Capabilities { donated_only: true, ..on(None) };
        assert_eq!(on(Some(1)).placement(donated), at(false, true));
        assert_eq!(donated.placement(on(None)), at(false, true));
    }
}
