//! Both ends of a stream: a reader whose writer follows no rule, and a writer whose reader does
//! not. Neither may crash, hang, or read more than there is credit for.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use underpass::stream::{StreamError, StreamSendError};
use underpass_fuzz::LaneLie;
use underpass_port::fuzz::FuzzEnd;

#[derive(Debug, Arbitrary)]
enum Step {
    /// The writer lies, or the reader.
    Writer(LaneLie),
    Reader(LaneLie),
    /// The honest reader reads, with or without a wait.
    Read {
        waits: bool,
    },
    /// The honest writer sends, with or without a wait.
    Send {
        waits: bool,
    },
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
            Step::Writer(lie) => lie.tell(&writer),
            Step::Reader(lie) => lie.tell(&reader),
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
