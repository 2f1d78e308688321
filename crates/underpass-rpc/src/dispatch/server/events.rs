//! What the clerk tells the server's end of a channel: what has come over the socket, and that the
//! socket is watched no more.

use super::ServerEnd;
use crate::binding::family::{Family, RowNews};
use crate::control::mailbox::ChannelMailbox;
use crate::control::socket_events::{HandleEvents, SocketEvents};
use crate::control::watched_end::WatchedEnd;
use std::sync::Arc;

impl HandleEvents for ServerEnd {
    fn handle(&self, events: SocketEvents) {
        if events.bell {
            // The clerk's system calls for this line: its wait, two reads of the socket for the
            // byte, and one for more.
            self.kernel.entered(4);
            self.heard();
        }
        if events.unwanted != 0 {
            self.unwanted(events.unwanted);
        }
        for number in events.unwanted_late {
            self.late_call_is_unwanted(number);
        }
        for _ in 0..events.asked {
            self.asked();
        }
        for tag in events.shares {
            self.share(tag);
        }
        for tag in events.released {
            // A row that the server has closed, or that never was: there is nothing to do.
            self.family.close_row(tag, RowNews::None);
        }
        let interfaces = self.mailbox.control().interfaces();
        events.home.into_iter().for_each(|tag| interfaces.has_come_home(tag));
        for prefixes in events.reverse_asked {
            if self.is_closed() || !interfaces.reverse_asked(self, prefixes) {
                self.violated();
            }
        }
        if events.nonsense
            || events.reverse_opened.is_some()
            || events.opened.is_some()
            || !events.tickets.is_empty()
            || !events.rows_closed.is_empty()
        {
            self.violated();
        }
        if events.gone || events.closing {
            self.close();
        }
    }
}

impl WatchedEnd for ServerEnd {
    fn mailbox(&self) -> &ChannelMailbox {
        &self.mailbox
    }

    fn is_further(&self) -> bool {
        self.further
    }

    fn is_closed(&self) -> bool {
        Self::is_closed(self)
    }

    fn is_unwatched(&self) -> Vec<u64> {
        self.close();
        if self.further { Vec::new() } else { self.family.take_keys() }
    }

    fn family(&self) -> Option<&Arc<Family>> {
        Some(&self.family)
    }

    fn served(self: Arc<Self>) -> Option<Arc<Self>> {
        Some(self)
    }
}
