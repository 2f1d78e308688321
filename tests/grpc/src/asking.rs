//! Asking the server until something is so.

use crate::generated::control_client::ControlClient;
use crate::generated::{Counts, Empty};
use underpass_grpc::Channel;

/// Asks until the counts are as `wanted`. The test's watchdog ends it otherwise.
///
/// # Panics
/// If the server does not answer.
pub async fn counts(control: &ControlClient<Channel>, wanted: impl Fn(&Counts) -> bool) -> Counts {
    loop {
        let counts = control.clone().count(Empty {}).await.expect("the server answers").into_inner();
        if wanted(&counts) {
            return counts;
        }
        tokio::task::yield_now().await;
    }
}
