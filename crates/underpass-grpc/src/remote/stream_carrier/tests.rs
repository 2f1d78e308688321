use super::*;
use crate::remote::codec::BytesCodec;
use crate::whole_body::WholeBody;
use tonic::codec::Codec;

/// What a peer sends that has sent these messages all at once.
fn came(messages: impl IntoIterator<Item = Bytes>) -> Streaming<Bytes> {
    let mut frames = Vec::new();
    for message in messages {
        frames.push(0);
        frames.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        frames.extend_from_slice(&message);
    }
    Streaming::new_request(BytesCodec.decoder(), WholeBody::new(frames.into(), None), None, None)
}

fn items(length: usize) -> Bytes {
    let mut batch = ItemsBatch::default();
    batch.push(&vec![7; length]);
    batch.take()
}

/// How many messages were queued, and whether the peer has kept the rules.
async fn received(news: &CallNews, messages: Vec<Bytes>) -> (usize, bool) {
    let (queue, queued) = unbounded_channel();
    let received = receive(&mut came(messages), queue, news).await;
    (queued.len(), received.is_ok())
}

#[tokio::test]
async fn credit_bounds_the_queue() {
    let end = || CallMessage::End(RemoteRecord::End(RemoteStreamEnd::Finished)).to_bytes();
    let gone = || CallMessage::ReaderGone.to_bytes();
    for (messages, expected) in [
        (vec![], (0, true)),
        (vec![items(1); 8], (8, true)),
        (vec![items(1); 9], (8, false)),
        (vec![items(40_000); 4], (4, true)),
        (vec![items(40_000); 5], (4, false)),
        (vec![items(1 << 20), items(1)], (1, false)),
        // News takes no credit, and nothing stays of it.
        (vec![gone(); 1000], (0, true)),
        ([vec![items(1); 8], vec![gone(), end()]].concat(), (9, true)),
        (vec![end(), items(1)], (1, false)),
        (vec![end(), end()], (1, false)),
    ] {
        let lengths: Vec<_> = messages.iter().map(Bytes::len).collect();
        assert_eq!(received(&CallNews::default(), messages).await, expected, "{lengths:?}");
    }
}

#[tokio::test]
async fn what_was_taken_has_credit_again() {
    let news = CallNews::default();
    assert_eq!(received(&news, vec![items(600); 8]).await, (8, true));
    (0..4).for_each(|_| news.took());
    assert_eq!(received(&news, vec![items(600)]).await, (0, false), "the peer was not told yet");
    assert!(matches!(news.next().await, CallMessage::Taken(4)));
    assert_eq!(received(&news, vec![items(600); 5]).await, (4, false));
}

#[tokio::test]
async fn a_peer_takes_what_was_sent_alone() {
    let news = CallNews::default();
    let taken = |count| CallMessage::Taken(count).to_bytes();
    assert_eq!(received(&news, vec![taken(0)]).await, (0, true));
    assert_eq!(received(&news, vec![taken(1)]).await, (0, false));
    (0..3).for_each(|_| news.counts().sent.sent(600));
    assert_eq!(received(&news, vec![taken(2), taken(1)]).await, (0, true));
    assert_eq!(received(&news, vec![taken(1)]).await, (0, false));
}
