//! What both sides agree on, and how they join a media driver.

use crate::driver::directory;
use rusteron_client::{
    Aeron, AeronContext, AeronExclusivePublication, AeronOfferError, BackoffIdleStrategy,
    BusySpinIdleStrategy, IdleStrategy, IntoCString,
};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use underpass_rpc_peer::{Failure, Outcome};

/// The streams of the requests and of the answers.
pub(crate) const REQUESTS: i32 = 1;
pub(crate) const ANSWERS: i32 = 2;

/// A channel of answers.
pub(crate) const RESPONSE: &str = "aeron:ipc?control-mode=response";

/// How long the driver may take to do what it is told, and the server to see a client.
pub(crate) const APPEAR: Duration = Duration::from_secs(15);

/// What publications have. A message can have an eighth of a term, and a frame has room for 4 KiB.
const LENGTHS: &str = "term-length=16m|mtu=65504";

/// How a side waits when there is nothing to do.
#[derive(Clone, Copy)]
pub(crate) enum Waiting {
    Spin,
    BackOff,
}

impl Waiting {
    pub(crate) fn strategy(self) -> Box<dyn IdleStrategy> {
        match self {
            Self::Spin => Box::new(BusySpinIdleStrategy::new()),
            Self::BackOff => Box::new(BackoffIdleStrategy::new()),
        }
    }
}

/// A process that has joined a media driver. A thread of Aeron's keeps it in touch.
pub(crate) struct Member {
    pub(crate) aeron: Aeron,
    told: Arc<Mutex<Option<String>>>,
}

impl Member {
    pub(crate) fn join(run: &Path) -> Outcome<Self> {
        let told = Arc::new(Mutex::new(None));
        let context = AeronContext::new()?;
        context.set_dir(&directory(run)?.into_c_string())?;
        // So that no call waits for a page fault.
        context.set_pre_touch_mapped_memory(true)?;
        let tell = told.clone();
        context.set_error_handler(Some(move |_code: i32, message: &str| {
            let first = message.lines().next().unwrap_or_default().to_owned();
            *tell.lock().unwrap_or_else(PoisonError::into_inner) = Some(first);
        }))?;
        let aeron = Aeron::new(&context).map_err(|e| e.capture_errmsg())?;
        aeron.start()?;
        Ok(Self { aeron, told })
    }

    /// A publication of this process only, on a channel that has parameters.
    pub(crate) fn publish(&self, channel: String, stream: i32) -> Outcome<AeronExclusivePublication> {
        let channel = format!("{channel}|{LENGTHS}").into_c_string();
        Ok(self.aeron.async_add_exclusive_publication(&channel, stream)?.poll_blocking(APPEAR)?)
    }

    /// That the other side is gone, with what Aeron's own thread has told.
    pub(crate) fn gone(&self, what: &str) -> Failure {
        match &*self.told.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(told) => format!("{what}: {told}").into(),
            None => what.into(),
        }
    }
}

/// Whether an offer that failed so can be made again.
pub(crate) fn again(error: &AeronOfferError) -> bool {
    matches!(error, AeronOfferError::BackPressured | AeronOfferError::AdminAction)
}
