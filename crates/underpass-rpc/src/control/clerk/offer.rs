//! What is exported under one name, and which service of it a client gets.

use crate::binding::handshake::HelloReply;
use crate::binding::limits::Quotas;
use crate::binding::record::Endings;
use crate::binding::row::BindingRow;
use crate::binding::service::Service;
use std::sync::Arc;
use underpass_wire::InterfaceVersion;

/// What clients get under a name: one service, or several that have no version of an interface in
/// common.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) name: Arc<str>,
    /// At least one.
    pub(crate) services: Vec<Service>,
    /// The first one's index among the services of the export. It is 0, except behind a ticket.
    pub(crate) first: usize,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) endings: Arc<Endings>,
}

impl Offer {
    /// What a client gets by a ticket for the binding `by`, or without one. `None` if that binding
    /// has ended.
    pub(super) fn of_ticket(self: Arc<Self>, by: Option<&BindingRow>) -> Option<Arc<Self>> {
        let Some(by) = by.filter(|by| by.is_value()) else { return Some(self) };
        let Self { name, quotas, endings, .. } = &*self;
        let service = Service::of(by.implementation()?);
        let service = if by.is_shareable() { service.shareable() } else { service };
        let (name, quotas, endings) = (name.clone(), quotas.clone(), endings.clone());
        // A value is of the service whose call gave it.
        Some(Arc::new(Self { name, services: vec![service], first: by.service(), quotas, endings }))
    }

    /// The index of the service for a client that knows the versions `hashes`, the newest first,
    /// and the version that both know. A client that comes by a ticket gets the service that has
    /// the index `only` among those of the export.
    ///
    /// If several services have one of the versions, it is the newest that the client knows.
    ///
    /// # Errors
    /// The answer for a client that knows no version of any service.
    pub(super) fn choose(
        &self,
        hashes: &[u64],
        only: Option<usize>,
    ) -> Result<(usize, InterfaceVersion), HelloReply> {
        let of_ticket = |service: &usize| only.is_none_or(|only| only == self.first + *service);
        let common = (0..self.services.len()).filter(of_ticket).filter_map(|service| {
            let version = self.services[service].descriptor().common(hashes)?;
            let age = hashes.iter().position(|hash| *hash == version.hash)?;
            Some((age, service, version))
        });
        let newest = common.min_by_key(|(age, ..)| *age);
        newest.map(|(_, service, version)| (service, version)).ok_or_else(|| {
            let descriptor = self.services[only.map_or(0, |only| only - self.first)].descriptor();
            HelloReply::OtherInterface { hash: descriptor.hash, text: descriptor.text() }
        })
    }
}

/// Whether two of `services` have a version of an interface in common. Then it would not be clear
/// which of them a client of that version gets.
pub(crate) fn share_a_version(services: &[Service]) -> bool {
    let mut hashes: Vec<u64> = services.iter().flat_map(|service| service.descriptor().hashes()).collect();
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.len() < count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::family::{Client, Family};
    use crate::binding::limits::Limits;
    use crate::binding::object::Binding;
    use crate::binding::peer::Peer;
    use crate::binding::record::BindingRecord;
    use crate::dispatch::incoming::{Dispatch, IncomingCall, Refused};
    use std::collections::HashMap;
    use std::sync::Weak;
    use underpass_wire::{Descriptor, Sizes};

    struct Nothing;

    impl Dispatch for Nothing {
        fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
            call.unknown()
        }
    }

    /// A service with these methods, each added in the version of its place.
    fn service(methods: &[&'static str]) -> Service {
        const SIZES: Sizes = Sizes::of::<Result<(), ()>>(&[], None);
        let descriptor = Descriptor::of_versions("Some", "", |some| {
            for (method, since) in methods.iter().zip(1..) {
                some.procedure(method, "", SIZES).since(since).result::<Result<(), ()>>();
            }
        });
        Service::new(Box::leak(Box::new(descriptor)), Arc::new(Nothing))
    }

    fn offer(services: impl IntoIterator<Item = Service>) -> Offer {
        Offer {
            name: "some".into(),
            services: services.into_iter().collect(),
            first: 0,
            quotas: Arc::new(Quotas::new(Limits::NONE, HashMap::new())),
            endings: Arc::default(),
        }
    }

    #[test]
    fn a_client_gets_the_service_whose_version_it_knows() {
        let [old, new] = [&["a", "b"][..], &["x", "y"]].map(service);
        let offer = offer([old.clone(), new.clone()]);
        let chosen = |methods: &[&'static str], only| {
            let hashes = service(methods).descriptor().hashes();
            offer.choose(&hashes, only).map(|(service, version)| (service, version.hash))
        };
        let [old, new] = [old.descriptor(), new.descriptor()];
        assert_eq!(chosen(&["a", "b"], None), Ok((0, old.hash)));
        assert_eq!(chosen(&["a"], None), Ok((0, old.versions[0].hash)));
        assert_eq!(chosen(&["x", "y", "z"], None), Ok((1, new.hash)));
        assert_eq!(chosen(&["x"], Some(1)), Ok((1, new.versions[0].hash)));
        let refused = |descriptor: &Descriptor| {
            Err(HelloReply::OtherInterface { hash: descriptor.hash, text: descriptor.text() })
        };
        assert_eq!(chosen(&["x", "z"], None), refused(old), "each side has added something else");
        assert_eq!(chosen(&["a"], Some(1)), refused(new), "a ticket is for one service");
    }

    #[test]
    fn the_newest_version_that_a_client_knows_is_chosen() {
        // The second one's author has not said that a method was added.
        let together = Descriptor::of_versions("Some", "", |some| {
            const SIZES: Sizes = Sizes::of::<Result<(), ()>>(&[], None);
            for method in ["a", "b"] {
                some.procedure(method, "", SIZES).result::<Result<(), ()>>();
            }
        });
        let together = Service::new(Box::leak(Box::new(together)), Arc::new(Nothing));
        let offer = offer([service(&["a"]), together]);
        assert!(!share_a_version(&offer.services));
        let chosen = offer.choose(&service(&["a", "b", "c"]).descriptor().hashes(), None);
        assert_eq!(chosen.map(|(service, _)| service), Ok(1));
    }

    #[test]
    fn a_value_is_of_the_service_whose_call_gave_it() {
        let services = [&["a"][..], &["b"]].map(service);
        let family = Family::new(0, Weak::new(), Client::of(Peer::here()));
        let record =
            || BindingRecord::new(Binding::new("some".into(), Peer::here(), None), None, Arc::default());
        let descriptor = services[1].descriptor();
        let parent = BindingRow::new((7, 1), record(), true, descriptor, &family, None);
        let value = service(&["c"]);
        let charge = offer([]).quotas.admit(0, 0).unwrap().shared().interface().unwrap();
        let row =
            BindingRow::of_value(value.implementation.clone(), record(), Some(&parent), &family, charge);
        assert_eq!((row.export(), row.service()), (7, 1));
        // So is one that a client gets by a ticket for the value.
        let behind = Arc::new(offer(services)).of_ticket(Some(&row)).unwrap();
        let hashes = value.descriptor().hashes();
        let (index, version) = behind.choose(&hashes, Some(row.service())).unwrap();
        assert_eq!((behind.first + index, version.hash), (1, value.descriptor().hash));
        assert!(behind.choose(&descriptor.hashes(), Some(row.service())).is_err());
        [parent, row].iter().for_each(|row| row.record().nobody_got_it());
    }

    #[test]
    fn services_that_share_a_version_are_found() {
        assert!(!share_a_version(&[service(&["a"])]));
        assert!(!share_a_version(&[service(&["a", "b"]), service(&["x"])]));
        assert!(share_a_version(&[service(&["a", "b"]), service(&["x"]), service(&["a", "c"])]));
    }
}
