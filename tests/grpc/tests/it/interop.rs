//! The cases of gRPC's interop tests, over shared memory, and over HTTP/2 to show that the cases
//! are right.

use bytes::Bytes;
use tokio_stream::StreamExt;
use tonic::metadata::{BinaryMetadataValue, MetadataValue};
use tonic::{Code, Request};
use underpass_grpc::Channel;
use underpass_test_grpc::generated::interop_client::InteropClient;
use underpass_test_grpc::generated::missing_client::MissingClient;
use underpass_test_grpc::generated::{Empty, OutputRequest, Status, UnaryRequest};
use underpass_test_grpc::{INITIAL, Served, TRAILING, WAYS, Way};
use underpass_tests::Watchdog;

/// The sizes that gRPC's interop tests use.
const REQUEST_SIZES: [usize; 4] = [27_182, 8, 1_828, 45_904];
const RESPONSE_SIZES: [u32; 4] = [31_415, 9, 2_653, 58_979];
const LARGE_REQUEST: usize = 271_828;
const LARGE_RESPONSE: u32 = 314_159;

fn served(of: &str) -> Served {
    Served::start(env!("CARGO_BIN_EXE_underpass-test-grpc"), of)
}

fn sized(response_size: u32, payload: usize) -> UnaryRequest {
    UnaryRequest { response_size, payload: vec![0; payload].into(), status: None }
}

fn failing(code: Code, message: &str) -> Option<Status> {
    Some(Status { code: code as i32, message: message.to_owned() })
}

/// Runs a case over each way.
macro_rules! over_each_way {
    ($name:ident, $case:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let _watchdog = Watchdog::new(stringify!($name));
            let served = served(stringify!($name));
            for way in WAYS {
                let case: fn(Channel) -> _ = $case;
                case(served.channel(way).await).await;
            }
        }
    };
}

over_each_way!(empty_unary, |channel| async {
    let answer = InteropClient::new(channel).empty_call(Empty {}).await.unwrap();
    assert_eq!(answer.into_inner(), Empty {});
});

over_each_way!(large_unary, |channel| async {
    let mut client = InteropClient::new(channel);
    for (request, response) in [(LARGE_REQUEST, LARGE_RESPONSE), (3 << 20, 3 << 20), (0, 0), (10, 40_000)] {
        let answer = client.unary_call(sized(response, request)).await.unwrap().into_inner();
        assert_eq!(answer.payload.len(), response as usize);
    }
});

over_each_way!(client_streaming, |channel| async {
    let mut client = InteropClient::new(channel);
    let requests = REQUEST_SIZES.map(|size| sized(0, size));
    let sum = client.streaming_input_call(tokio_stream::iter(requests.clone())).await.unwrap().into_inner();
    assert_eq!((sum.bytes, sum.messages), (74_922, 4));
    // Requests that are not ready at once.
    let slow = tokio_stream::iter(requests).then(|request| async {
        tokio::task::yield_now().await;
        request
    });
    let sum = client.streaming_input_call(slow).await.unwrap().into_inner();
    assert_eq!((sum.bytes, sum.messages), (74_922, 4));
});

over_each_way!(server_streaming, |channel| async {
    let mut client = InteropClient::new(channel);
    let request = OutputRequest { sizes: RESPONSE_SIZES.to_vec(), status: None };
    let responses = client.streaming_output_call(request).await.unwrap().into_inner();
    let sizes: Vec<_> = responses.map(|response| response.unwrap().payload.len() as u32).collect().await;
    assert_eq!(sizes, RESPONSE_SIZES);
});

over_each_way!(many_responses, |channel| async {
    let mut client = InteropClient::new(channel);
    let request = OutputRequest { sizes: (0..10_000).map(|n| n % 100).collect(), status: None };
    let mut responses = client.streaming_output_call(request).await.unwrap().into_inner();
    for n in 0..10_000 {
        assert_eq!(responses.message().await.unwrap().unwrap().payload.len(), n % 100);
    }
    assert_eq!(responses.message().await.unwrap(), None);
});

over_each_way!(ping_pong, |channel| async {
    let mut client = InteropClient::new(channel);
    let (requests, sent) = tokio::sync::mpsc::channel(1);
    let sent = tokio_stream::wrappers::ReceiverStream::new(sent);
    let mut responses = client.full_duplex_call(sent).await.unwrap().into_inner();
    for size in RESPONSE_SIZES {
        requests.send(OutputRequest { sizes: vec![size], status: None }).await.unwrap();
        assert_eq!(responses.message().await.unwrap().unwrap().payload.len(), size as usize);
    }
    drop(requests);
    assert_eq!(responses.message().await.unwrap(), None);
});

over_each_way!(empty_stream, |channel| async {
    let mut client = InteropClient::new(channel);
    let mut responses = client.full_duplex_call(tokio_stream::empty()).await.unwrap().into_inner();
    assert_eq!(responses.message().await.unwrap(), None);
});

over_each_way!(status_code_and_message, |channel| async {
    let mut client = InteropClient::new(channel);
    let message = "test status message";
    let request = UnaryRequest { status: failing(Code::Unknown, message), ..sized(0, 0) };
    let status = client.unary_call(request).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message(), status.details()),
        (Code::Unknown, message, &b"details"[..])
    );
    let request = OutputRequest { sizes: Vec::new(), status: failing(Code::Aborted, message) };
    let mut responses = client.full_duplex_call(tokio_stream::iter([request])).await.unwrap().into_inner();
    let status = responses.message().await.unwrap_err();
    assert_eq!(
        (status.code(), status.message(), status.details()),
        (Code::Aborted, message, &b"details"[..])
    );
});

over_each_way!(special_status_message, |channel| async {
    let message = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n";
    let request = UnaryRequest { status: failing(Code::Unknown, message), ..sized(0, 0) };
    let status = InteropClient::new(channel).unary_call(request).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unknown, message));
});

over_each_way!(status_after_responses, |channel| async {
    let request = OutputRequest { sizes: vec![5, 70_000], status: failing(Code::DataLoss, "lost") };
    let mut responses =
        InteropClient::new(channel).streaming_output_call(request).await.unwrap().into_inner();
    for size in [5, 70_000] {
        assert_eq!(responses.message().await.unwrap().unwrap().payload.len(), size);
    }
    assert_eq!(responses.message().await.unwrap_err().code(), Code::DataLoss);
});

/// A request with metadata that comes back.
fn with_metadata<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let trailing: BinaryMetadataValue = MetadataValue::from_bytes(&[0xab, 0xab, 0xab]);
    request.metadata_mut().insert(INITIAL, "test_initial_metadata_value".parse().unwrap());
    request.metadata_mut().insert_bin(TRAILING, trailing);
    request
}

over_each_way!(custom_metadata, |channel| async {
    let mut client = InteropClient::new(channel);
    let is_back = |metadata: &tonic::metadata::MetadataMap| {
        assert_eq!(metadata.get(INITIAL).unwrap(), "test_initial_metadata_value");
    };
    let answer = client.unary_call(with_metadata(sized(10, 10))).await.unwrap();
    is_back(answer.metadata());
    let trailer = answer.metadata().get_bin(TRAILING).unwrap().to_bytes().unwrap();
    assert_eq!(trailer, Bytes::from_static(&[0xab; 3]));
    let request = OutputRequest { sizes: vec![10], status: None };
    let answer = client.full_duplex_call(with_metadata(tokio_stream::iter([request]))).await.unwrap();
    is_back(answer.metadata());
    let mut responses = answer.into_inner();
    while responses.message().await.unwrap().is_some() {}
    let trailers = responses.trailers().await.unwrap().unwrap();
    assert_eq!(trailers.get_bin(TRAILING).unwrap().to_bytes().unwrap(), Bytes::from_static(&[0xab; 3]));
});

over_each_way!(unimplemented_method, |channel| async {
    let status = InteropClient::new(channel).unimplemented_call(Empty {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
});

over_each_way!(unimplemented_service, |channel| async {
    let status = MissingClient::new(channel).unimplemented_call(Empty {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
});

over_each_way!(concurrent_large_unary, |channel| async move {
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let mut client = InteropClient::new(channel.clone());
            tokio::spawn(async move { client.unary_call(sized(LARGE_RESPONSE, LARGE_REQUEST)).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().into_inner().payload.len(), LARGE_RESPONSE as usize);
    }
});

#[tokio::test(flavor = "current_thread")]
async fn one_thread_is_enough_for_a_client() {
    let _watchdog = Watchdog::new("one_thread_is_enough_for_a_client");
    let served = served("one-thread");
    let mut client = InteropClient::new(served.channel(Way::Underpass).await);
    for size in RESPONSE_SIZES {
        let request = OutputRequest { sizes: vec![size; 3], status: None };
        let responses = client.streaming_output_call(request).await.unwrap().into_inner();
        assert_eq!(responses.collect::<Vec<_>>().await.len(), 3);
    }
}
