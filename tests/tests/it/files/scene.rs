//! A server, an honest client of it, and the files that the server has open while no other client
//! is there.

use crate::files::{import, server};
use underpass_tests::{Files, Porter, PorterClient, ServerProcess};

pub struct Scene {
    pub server: ServerProcess,
    pub honest: PorterClient,
    pub files: Files,
}

impl Scene {
    pub fn new(of: &str) -> Self {
        Self::with(server(of))
    }

    pub fn with(server: ServerProcess) -> Self {
        let honest = import(&server);
        honest.null().unwrap();
        let files = Files::of(server.pid());
        Self { server, honest, files }
    }
}
