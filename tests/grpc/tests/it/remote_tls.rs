//! Calls between machines over TLS: certificates of servers and of clients, and tokens.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};
use std::time::Duration;
use underpass::remote::RemotePeers;
use underpass::{ImportError, Service};
use underpass_grpc::remote::{Remote, RemoteListener, RemoteServer, RemoteTls};
use underpass_test_grpc::{Depot, DepotClient, DepotService};
use underpass_tests::Watchdog;

/// More than any test takes.
const SOON: Duration = Duration::from_secs(120);

/// An authority that issues certificates for the tests.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for `name`, and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn depot() -> Service {
    Depot::serve(DepotService::default())
}

fn listen(server: RemoteServer, tls: RemoteTls, name: &str) -> (RemoteListener, String) {
    let listener = server.listen("127.0.0.1:0", tls).unwrap();
    let address = format!("https://localhost:{}/{name}", listener.address().port());
    (listener, address)
}

fn import(remote: &Remote, address: &str) -> Result<DepotClient, ImportError> {
    DepotClient::import_by(remote, address, SOON)
}

/// Why an attempt without patience fails.
fn refusal(remote: &Remote, address: &str) -> ImportError {
    DepotClient::import_by(remote, address, Duration::ZERO).unwrap_err()
}

#[test]
fn a_client_proves_who_it_is_by_a_certificate() {
    let _watchdog = Watchdog::new("a_client_proves_who_it_is_by_a_certificate");
    let (servers, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let (certificate, key) = servers.issue("localhost");
    let tls = RemoteTls::new(certificate, key).authority(clients.pem());
    let server = RemoteServer::new().export("depot", depot().remote_peers(RemotePeers::certificate()));
    let (_listener, address) = listen(server, tls, "depot");

    let trusting = Remote::new().authority(servers.pem());
    let (mine, my_key) = clients.issue("me");
    let me = trusting.clone().identity(mine, my_key);
    assert_eq!(import(&me, &address).unwrap().who(), Ok("remote certificate".to_owned()));

    // Neither without a certificate, nor with one of another authority.
    let (theirs, their_key) = others.issue("me");
    for stranger in [trusting.clone(), trusting.identity(theirs, their_key)] {
        let why = refusal(&stranger, &address);
        assert!(matches!(why, ImportError::Unreachable(..) | ImportError::NotAuthorized(..)), "{why}");
    }
}

#[test]
fn a_server_proves_who_it_is() {
    let _watchdog = Watchdog::new("a_server_proves_who_it_is");
    let (servers, others) = (Authority::new(), Authority::new());
    let (certificate, key) = servers.issue("depot.example");
    let server = RemoteServer::new().export("depot", depot().remote_peers(RemotePeers::anyone()));
    let (_listener, address) = listen(server, RemoteTls::new(certificate, key), "depot");
    let trusting = Remote::new().authority(servers.pem());
    assert_eq!(import(&trusting.clone().server_name("depot.example"), &address).unwrap().add(1, 2), Ok(3));
    let of_others = Remote::new().authority(others.pem()).server_name("depot.example");
    for (wary, why) in
        [(trusting, "another name"), (of_others, "another authority"), (Remote::new(), "the system's")]
    {
        assert!(matches!(refusal(&wary, &address), ImportError::Unreachable(..)), "{why}");
    }
    let plain = address.replace("https", "http");
    assert!(matches!(
        refusal(&Remote::new(), &plain),
        ImportError::Unreachable(..) | ImportError::Refused(..)
    ));
}

#[test]
fn one_listener_takes_certificates_and_tokens() {
    let _watchdog = Watchdog::new("one_listener_takes_certificates_and_tokens");
    let (servers, clients) = (Authority::new(), Authority::new());
    let (certificate, key) = servers.issue("localhost");
    let tls = RemoteTls::new(certificate, key).authority(clients.pem());
    let whose = |token: &str| (token == "s3cret").then(|| "alice".to_owned());
    let server = RemoteServer::new()
        .export("both", depot().remote_peers(RemotePeers::token(whose).or_certificate()))
        .export("tokens", depot().remote_peers(RemotePeers::token(whose)));
    let (_listener, address) = listen(server, tls, "both");
    let trusting = Remote::new().authority(servers.pem());
    let (mine, my_key) = clients.issue("me");
    let certified = trusting.clone().identity(mine, my_key);

    let with_token = import(&trusting.clone().token("s3cret"), &address).unwrap();
    assert_eq!(with_token.who(), Ok("remote token alice".to_owned()));
    assert_eq!(import(&certified, &address).unwrap().who(), Ok("remote certificate".to_owned()));
    let both = import(&certified.clone().token("s3cret"), &address).unwrap();
    assert_eq!(both.who(), Ok("remote token alice certificate".to_owned()));

    let tokens = address.replace("/both", "/tokens");
    for (stranger, address) in
        [(&trusting, &address), (&trusting.clone().token("wrong"), &address), (&certified, &tokens)]
    {
        let why = refusal(stranger, address);
        assert!(matches!(why, ImportError::NotAuthorized(..)), "{why}");
    }
}
