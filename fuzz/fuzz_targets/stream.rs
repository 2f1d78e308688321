//! Both ends of a stream: a reader whose writer follows no rule, and a writer whose reader does
//! not. Neither may crash, hang, or read more than there is credit for.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use underpass::stream::{StreamError, StreamSendError};
use underpass_port::fuzz::FuzzEnd;

#[derive(Debug, Arbitrary)]
enum Lie {
    Word {
        which: u8,
        value: u64,
    },
    Advance {
        which: u8,
        by: u8,
    },
    Attention {
        of_sender: bool,
        value: u32,
    },
    Put {
        at: u16,
        value: u64,
    },
    /// The head of a record, its kind and its first bytes.
    Record {
        number: u8,
        len: u8,
        kind: u8,
    },
    Ring {
        which: u8,
        file: bool,
    },
    Hear {
        which: u8,
    },
    HangUp {
        which: u8,
    },
}

#[derive(Debug, Arbitrary)]
enum Step {
    /// The writer lies, or the reader.
    Writer(Lie),
    Reader(Lie),
    /// The honest reader reads, with or without a wait.
    Read {
        waits: bool,
    },
    /// The honest writer sends, with or without a wait.
    Send {
        waits: bool,
    },
}

fn lies(end: &FuzzEnd, lie: &Lie) {
    match *lie {
        Lie::Word { which, value } => end.word(which, value),
        Lie::Advance { which, by } => end.advance(which, by % 3),
        Lie::Attention { of_sender, value } => end.attention(of_sender, value),
        Lie::Put { at, value } => end.put(at, value),
        Lie::Record { number, len, kind } => {
            let at = u16::from(number % 4) * 4;
            end.put(at, (len % 12).into());
            end.put(at + 1, number.into());
            end.put(at + 2, (kind % 3).into());
            end.word(0, u64::from(number) + 1);
        }
        Lie::Ring { which, file } => end.ring(which, file),
        Lie::Hear { which } => end.hear(which),
        Lie::HangUp { which } => end.hang_up(which),
    }
}

fn span(waits: bool) -> Duration {
    if waits { Duration::from_micros(1) } else { Duration::ZERO }
}

fuzz_target!(|steps: Vec<Step>| {
    let (writer, mut stream) = FuzzEnd::writer();
    let (reader, sender) = FuzzEnd::reader();
    let mut over = false;
    for step in &steps {
        match step {
            Step::Writer(lie) => lies(&writer, lie),
            Step::Reader(lie) => lies(&reader, lie),
            Step::Read { waits } => {
                let read = stream.recv_timeout(span(*waits));
                assert!(!over || read == Ok(None), "there is nothing after the end: {read:?}");
                over |= !matches!(read, Ok(Some(_)) | Err(StreamError::Timeout));
            }
            Step::Send { waits } => {
                let sent = sender.send_timeout(&7, span(*waits));
                assert!(!matches!(sent, Err(StreamSendError::Full | StreamSendError::TooLong)), "{sent:?}");
            }
        }
        assert!(stream.queued() <= 4 && sender.queued() <= 4);
    }
    drop((writer, reader));
    // The reader ends: its writer is gone.
    let mut items = 0;
    while let Ok(Some(_)) = stream.recv() {
        items += 1;
        assert!(items <= 5, "no more than there is credit for");
    }
    while sender.ended().is_none() {
        std::thread::yield_now();
    }
});
