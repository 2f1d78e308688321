//! What the server tells of itself.

use crate::messages::{NAME, NodeMessage};
use crate::page::PageView;
use crate::page::layout::head;
use crate::policy::Obedience;
use crate::server::node_server::NodeServer;
use crate::server::pinned_domains::PinnedStatus;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::time::Duration;
use underpass_os::clock::deadline_ns;
use underpass_os::{Directory, Socket};

/// The most bytes of a status.
const LONGEST_STATUS: usize = 1 << 16;

/// The status of a server, which is shown as JSON.
pub(super) struct StatusReport<'a>(&'a NodeServer);

impl NodeServer {
    pub(super) fn status(&self) -> StatusReport<'_> {
        StatusReport(self)
    }
}

impl Display for StatusReport<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let server = self.0;
        let (processors, free, looks) = (server.processors, server.policy.free(), server.looks.count);
        write!(f, "{{\"processors\":{processors},\"free\":{free},\"looks\":{looks},\"domains\":[")?;
        let mut between = "";
        for member in &server.members {
            let Some(counts) = member.id.and_then(|id| server.policy.counts(id)) else { continue };
            let (pid, weight) = (member.pid, member.terms.weight);
            let wanted = member.page.read(head::READY);
            let running = member.page.read(head::RUNNING);
            let parked = member.page.read(head::PARKED);
            let alone = member.page.read(head::ALONE) != 0;
            let obeys = counts.obedience == Obedience::Obeys;
            let delay_us = counts.wanting_for.unwrap_or(0) / 1000;
            write!(
                f,
                "{between}{{\"kind\":\"domain\",\"pid\":{pid},\"weight\":{weight},\"processors\":{},\"temporary\":{},\
                 \"wanted\":{wanted},\"running\":{running},\"parked\":{parked},\"asked\":{},\"share_milli\":{},\
                 \"queueing_delay_us\":{delay_us},\"alone\":{alone},\"obeys\":{obeys}}}",
                member.held, member.temporary, counts.asked, counts.share_milli,
            )?;
            between = ",";
        }
        for pinned in server.pinned.status() {
            let Some(counts) = server.policy.counts(pinned.id) else { continue };
            let PinnedStatus { pid, weight, held, ready, wanted, processes, tokens, .. } = pinned;
            let kind = if tokens.is_some() { "jobserver" } else { "command" };
            let delay_us = counts.wanting_for.unwrap_or(0) / 1000;
            write!(
                f,
                "{between}{{\"kind\":\"{kind}\",\"pid\":{pid},\"weight\":{weight},\"processors\":{held},\
                 \"temporary\":0,\"wanted\":{wanted},\"running\":{},\"parked\":{},\"asked\":{},\"share_milli\":{},\
                 \"queueing_delay_us\":{delay_us},\"alone\":false,\"obeys\":true,\
                 \"processes\":{processes},\"ready\":{ready}",
                ready.min(held),
                ready.saturating_sub(held),
                counts.asked,
                counts.share_milli,
            )?;
            if let Some((issued, out)) = tokens {
                write!(f, ",\"tokens\":{issued},\"tokens_out\":{out}")?;
            }
            f.write_str("}")?;
            between = ",";
        }
        f.write_str("]}")
    }
}

/// The status of the server in `directory`, in JSON.
///
/// # Errors
/// `NotFound` or `ConnectionRefused` if no server runs there. `TimedOut` if it does not answer
/// within `patience`.
pub fn ask_status(directory: &Directory, patience: Duration) -> io::Result<String> {
    let socket = Socket::connect(directory, NAME)?;
    socket.send(&NodeMessage::Status.encode(), &[])?;
    if !socket.wait(deadline_ns(patience))? {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut buffer = vec![0; LONGEST_STATUS];
    let got = socket.receive_plain(&mut buffer)?;
    match NodeMessage::decode(&buffer[..got.len]) {
        Some(NodeMessage::StatusIs(text)) => Ok(text),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the server speaks another version")),
    }
}
