//! The service that shows an export.

use super::trace::{CallTrace, TracedDispatch};
use super::{
    BindingView, DomainView, ExportView, HealthView, Inspect, InspectClient, InspectError, InterfaceView,
    TraceView,
};
use crate::binding::family::Family;
use crate::binding::grant::Grant;
use crate::binding::health::Health;
use crate::binding::object::Binding;
use crate::binding::peer::{Peer, caller};
use crate::binding::record::OnEnd;
use crate::binding::row::BindingRow;
use crate::binding::service::{Authorize, ExportOptions, Service};
use crate::control::clerk::{clerk, share_a_version};
use crate::counters::CountedEnd;
use crate::metrics::{self, InterfaceMetrics};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use underpass_os::process;
use underpass_wire::Descriptor;

/// What a name shows of itself. It learns the clerk's key of the export once there is one.
#[derive(Debug)]
pub(crate) struct Inspection(Arc<OnceLock<u64>>);

impl Inspection {
    /// Adds the service to those of `name`, which has these permissions. `None` if one of them is
    /// an `Inspect` itself.
    pub(crate) fn add_to(
        services: &mut Vec<Service>,
        name: &str,
        mode: u32,
        health: &Health,
    ) -> Option<Self> {
        let inspector = Inspector::new(services, name, mode, health);
        let key = inspector.key.clone();
        let mut service = inspector.serve();
        service.options = terms_of(services);
        services.push(service);
        if share_a_version(services) {
            services.pop();
            return None;
        }
        Some(Self(key))
    }

    /// The clerk has this key for the export. Nobody can import before that.
    pub(crate) fn is_of(&self, key: u64) {
        self.0.get_or_init(|| key);
    }
}

/// Wraps the stubs of those services that let themselves be traced. `None` if there are none.
fn traced(services: &mut [Service]) -> Option<Arc<CallTrace>> {
    let mut found = None;
    for service in services.iter_mut().filter(|service| service.options.traceable) {
        let trace = found.get_or_insert_with(Arc::<CallTrace>::default);
        let implementation = &mut service.implementation;
        let (inner, interface) = (implementation.stub.clone(), implementation.descriptor.name);
        implementation.stub = Arc::new(TracedDispatch::new(inner, trace.clone(), interface));
    }
    found
}

/// The options of the service that tells of `services`. A client that may have a binding of each of
/// them may ask, for as long as the one that expires first would last. At the end each service
/// hears of it that was asked at the beginning.
fn terms_of(services: &[Service]) -> ExportOptions {
    let expires = services.iter().filter_map(|service| service.options.expires).min();
    let asked = || services.iter().filter(|service| service.options.authorize.is_some());
    let hooks: Vec<_> = asked().filter_map(|service| service.options.on_end.clone()).collect();
    let authorize = asked().next().map(|_| asks_all(services));
    let on_end = (!hooks.is_empty()).then(|| all_hear(hooks));
    ExportOptions { expires, authorize, on_end, ..ExportOptions::default() }
}

/// Lets clients in that each of the services lets in, for the shortest of the times.
fn asks_all(services: &[Service]) -> Arc<Authorize> {
    let options = services.iter().map(|service| &service.options);
    let all: Vec<_> = options.map(|options| (options.authorize.clone(), options.expires)).collect();
    Arc::new(move |peer: &Peer| {
        let mut shortest = Grant::allow().shareable(false);
        for (authorize, expires) in &all {
            let grant = authorize.as_ref().map_or_else(Grant::allow, |authorize| authorize(peer));
            if grant.refusal.is_some() {
                return grant;
            }
            let expires = grant.expires.or(*expires);
            shortest.expires = shortest.expires.into_iter().chain(expires).min();
        }
        shortest
    })
}

/// Calls all of the hooks, also if one of them panics.
fn all_hear(hooks: Vec<Arc<OnEnd>>) -> Arc<OnEnd> {
    Arc::new(move |binding: &Binding| {
        for hook in &hooks {
            // The panic hook has reported the panic.
            let _ = catch_unwind(AssertUnwindSafe(|| hook(binding)));
        }
    })
}

/// A service of the name.
struct ShownService {
    descriptor: &'static Descriptor,
    revocable: bool,
}

/// The implementation of [`Inspect`] for one name.
struct Inspector {
    name: String,
    mode: u32,
    since: SystemTime,
    services: Vec<ShownService>,
    key: Arc<OnceLock<u64>>,
    /// The calls of those services that let themselves be traced.
    trace: Option<Arc<CallTrace>>,
    health: Health,
}

impl Inspector {
    /// Of a name with these services and permissions. Wraps those that can be traced.
    fn new(services: &mut [Service], name: &str, mode: u32, health: &Health) -> Self {
        let trace = traced(services);
        let shown = services.iter().map(|service| ShownService {
            descriptor: service.descriptor(),
            revocable: service.options.revocable,
        });
        let (services, since) = (shown.collect(), SystemTime::now());
        let (name, health) = (name.to_owned(), health.clone());
        Self { name, mode, since, services, key: Arc::default(), trace, health }
    }

    /// The bindings of the name without those of this interface, the oldest first.
    fn rows(&self) -> Vec<Arc<BindingRow>> {
        let (Ok(clerk), Some(key)) = (clerk(), self.key.get()) else { return Vec::new() };
        let own = InspectClient::descriptor();
        let mut rows = clerk.bindings(&[*key]);
        rows.retain(|row| !std::ptr::eq(row.descriptor, own));
        rows.sort_by_key(|row| row.binding().id());
        rows
    }

    /// Whether a service lets its bindings be revoked by command, and the values that it gives.
    fn is_revocable(&self, service: usize) -> bool {
        self.services.get(service).is_some_and(|service| service.revocable)
    }
}

/// The user id that the kernel reports for every user that has none in this process's user
/// namespace (`/proc/sys/kernel/overflowuid`).
const OVERFLOW_USER: u32 = 65534;

/// Whether the caller is this process's user, or root.
fn for_own_user() -> Result<(), InspectError> {
    let user = caller().ok_or(InspectError::OtherUser)?.uid();
    if is_trusted(user, process::user()) { Ok(()) } else { Err(InspectError::OtherUser) }
}

/// Whether `user` is root, or the process's `own` user. The overflow user is nobody's own: it
/// stands for different users.
fn is_trusted(user: u32, own: u32) -> bool {
    user == 0 || user == own && user != OVERFLOW_USER
}

impl Inspect for Inspector {
    fn export(&self) -> Result<ExportView, InspectError> {
        Ok(ExportView {
            name: self.name.clone(),
            pid: std::process::id(),
            user: process::user(),
            since: self.since,
            mode: self.mode,
            revocable: self.services.iter().any(|service| service.revocable),
            traceable: self.trace.is_some(),
        })
    }

    fn interfaces(&self) -> Result<Vec<InterfaceView>, InspectError> {
        Ok(self.services.iter().map(|service| service.descriptor.into()).collect())
    }

    fn bindings(&self) -> Result<Vec<BindingView>, InspectError> {
        for_own_user()?;
        let mut shown: Vec<BindingView> = Vec::new();
        let mut connections: Vec<(Arc<Family>, u64, u64)> = Vec::new();
        for row in self.rows() {
            let Some(family) = row.family() else { continue };
            let known = connections.iter().find(|(of, ..)| Arc::ptr_eq(of, &family));
            let (calls, first) = match known {
                Some((_, calls, first)) => (*calls, *first),
                None => {
                    let calls = family.ends().iter().map(|end| end.counters().served).sum();
                    let first = row.binding().id();
                    connections.push((family, calls, first));
                    (calls, first)
                }
            };
            shown.push(BindingView::of(&row, calls, first));
        }
        Ok(shown)
    }

    fn domain(&self) -> Result<DomainView, InspectError> {
        for_own_user()?;
        Ok(DomainView::now())
    }

    fn revoke(&self, binding: u64) -> Result<bool, InspectError> {
        for_own_user()?;
        let rows = self.rows();
        let Some(row) = rows.iter().find(|row| row.binding().id() == binding) else {
            return if self.services.iter().any(|service| service.revocable) {
                Ok(false)
            } else {
                Err(InspectError::NotRevocable)
            };
        };
        if self.is_revocable(row.service()) { Ok(row.revoke()) } else { Err(InspectError::NotRevocable) }
    }

    fn trace(&self, since: u64) -> Result<TraceView, InspectError> {
        for_own_user()?;
        Ok(self.trace.as_ref().ok_or(InspectError::NotTraceable)?.since(since))
    }

    fn metrics(&self) -> Result<Vec<InterfaceMetrics>, InspectError> {
        for_own_user()?;
        Ok(metrics::snapshot())
    }

    fn health(&self) -> Result<HealthView, InspectError> {
        let why_not = self.health.why_not();
        Ok(HealthView { serving: why_not.is_none(), why_not: why_not.unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::peer::within_binding;
    use crate::binding::record::BindingRecord;
    use crate::dispatch::incoming::{Dispatch, IncomingCall, Refused};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    struct Nothing;

    impl Dispatch for Nothing {
        fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), Refused> {
            call.unknown()
        }
    }

    fn service() -> Service {
        let descriptor = Box::leak(Box::new(Descriptor::builder("Some", "").finish()));
        Service::new(descriptor, Arc::new(Nothing))
    }

    /// What `ask` is told if the process `peer` calls.
    fn told<T>(peer: Peer, ask: impl FnOnce() -> T) -> T {
        let record = BindingRecord::new(Binding::new("some".into(), peer, None), None, Arc::default());
        let _within = within_binding(&record);
        ask()
    }

    #[test]
    fn strangers_learn_what_a_name_is_and_no_more() {
        let inspector =
            Inspector::new(&mut [service().revocable().traceable()], "some", 0o666, &Health::new());
        let stranger = process::user().wrapping_add(1).max(1);
        for user in [stranger, process::user(), 0] {
            let refused = user == stranger;
            told(Peer::of_user(user), || {
                assert_eq!(inspector.export().unwrap().name, "some");
                assert_eq!(inspector.interfaces().unwrap()[0].name, "Some");
                assert!(inspector.health().unwrap().serving);
                let answers = [
                    inspector.bindings().err(),
                    inspector.domain().err(),
                    inspector.revoke(1).err(),
                    inspector.trace(0).err(),
                    inspector.metrics().err(),
                ];
                assert_eq!(answers.map(|e| e == Some(InspectError::OtherUser)), [refused; 5], "{user}");
            });
        }
        assert_eq!(inspector.domain(), Err(InspectError::OtherUser), "nobody calls");
    }

    #[test]
    fn an_export_says_what_may_be_done_to_it() {
        let inspector = Inspector::new(&mut [service()], "some", 0o600, &Health::new());
        told(Peer::here(), || {
            assert_eq!(inspector.trace(0), Err(InspectError::NotTraceable));
            assert_eq!(inspector.revoke(1), Err(InspectError::NotRevocable));
        });
        let export = inspector.export().unwrap();
        assert_eq!((export.mode, export.revocable, export.traceable), (0o600, false, false));
        assert_eq!(export.pid, std::process::id());
    }

    #[test]
    fn whoever_is_refused_one_service_may_not_ask() {
        let one = || service().authorize(|peer: &Peer| peer.uid() < 10);
        let asks = |services: &[Service], user| {
            let asks = terms_of(services).authorize?;
            Some(asks(&Peer::of_user(user)).refusal.is_none())
        };
        assert_eq!(asks(&[service(), service()], 5), None, "everybody may");
        let both = [service(), one(), service().authorize(|peer: &Peer| peer.uid() > 3)];
        assert_eq!([2, 5, 12].map(|user| asks(&both, user)), [Some(false), Some(true), Some(false)]);
    }

    #[test]
    fn whoever_asks_may_no_longer_than_as_a_client() {
        let [short, long] = [10, 20].map(Duration::from_secs);
        assert_eq!(terms_of(&[service()]).expires, None);
        assert_eq!(terms_of(&[service(), service().expires_in(long)]).expires, Some(long));
        let grants = |time: Duration| service().authorize(move |_: &Peer| Grant::allow().expires_in(time));
        let asks = |services: &[Service]| terms_of(services).authorize.unwrap()(&Peer::here()).expires;
        assert_eq!(asks(&[service(), grants(long)]), Some(long));
        assert_eq!(asks(&[grants(long), service().expires_in(short)]), Some(short));
        assert_eq!(asks(&[grants(long).expires_in(short)]), Some(long), "a grant outweighs the option");
        assert_eq!(asks(&[service().authorize(|_: &Peer| true)]), None);
    }

    #[test]
    fn services_that_were_asked_hear_of_the_end() {
        let ended = Arc::new(AtomicUsize::new(0));
        let hears = |service: Service, by: usize| {
            let ended = ended.clone();
            service.on_binding_end(move |_| {
                ended.fetch_add(by, Ordering::Relaxed);
                panic!("on purpose");
            })
        };
        let asked = || service().authorize(|_: &Peer| true);
        assert!(terms_of(&[asked(), hears(service(), 1)]).on_end.is_none(), "it was not asked");
        let all = terms_of(&[hears(asked(), 1), hears(service(), 10), hears(asked(), 100)]).on_end.unwrap();
        all(&Binding::new("some".into(), Peer::here(), None));
        assert_eq!(ended.load(Ordering::Relaxed), 101);
    }

    #[test]
    fn the_overflow_user_is_nobodys_own() {
        for (user, own, trusted) in [
            (0, 1000, true),
            (1000, 1000, true),
            (1001, 1000, false),
            (OVERFLOW_USER, OVERFLOW_USER, false),
            (0, OVERFLOW_USER, true),
        ] {
            assert_eq!(is_trusted(user, own), trusted, "{user} asks {own}");
        }
    }

    #[test]
    fn a_service_of_ones_own_takes_its_place() {
        let health = Health::new();
        let mut services = vec![Inspector::new(&mut [], "other", 0, &health).serve()];
        assert!(Inspection::add_to(&mut services, "some", 0, &health).is_none());
        assert_eq!(services.len(), 1);
        let mut services = vec![service()];
        assert!(Inspection::add_to(&mut services, "some", 0, &health).is_some());
        assert_eq!(services.len(), 2);
    }
}
