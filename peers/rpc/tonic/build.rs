//! Generates the service without `protoc`.

fn main() {
    let echo = tonic_build::manual::Method::builder()
        .name("echo")
        .route_name("Echo")
        .input_type("crate::Payload")
        .output_type("crate::Payload")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let calls = tonic_build::manual::Service::builder().name("Calls").package("peer").method(echo).build();
    tonic_build::manual::Builder::new().compile(&[calls]);
}
