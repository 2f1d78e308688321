//! The processes of this benchmark: servers, and domains in directories with and without one.

use super::domain::{BenchDomain, DomainOrder};
use crate::BenchError;
use crate::processes::client::ScenarioClient;
use crate::processes::helper::{Does, Helper, HelperTask, obey};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use underpass_node::server::{NodeServer, ask_status};
use underpass_os::Directory;

/// What a process of this benchmark is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum NodeParty {
    /// The activation server of so many processors, perhaps with a jobserver.
    Server {
        /// The processors that it divides.
        processors: u32,
        /// Whether it owns a jobserver.
        has_jobserver: bool,
    },
    /// A domain, or a process with kernel threads alone.
    Domain {
        /// Whether it has kernel threads alone.
        is_kernel: bool,
    },
    /// A domain that serves calls.
    Callee,
}

impl NodeParty {
    /// Executes orders until there are none.
    pub(crate) fn perform(self) -> Result<(), BenchError> {
        match self {
            Self::Server { processors, has_jobserver } => {
                let directory = Directory::from_environment();
                let mut server = NodeServer::start(&directory, processors, false, None)?;
                if has_jobserver {
                    server.own_jobserver(1)?;
                }
                std::thread::spawn(move || server.run());
                obey(|(): ()| Ok(()))
            }
            Self::Domain { is_kernel } => {
                if !is_kernel {
                    // The runtime starts, and looks for a server.
                    underpass::thread::spawn(|| ()).join().map_err(|_| "a thread panicked")?;
                }
                let mut domain = BenchDomain::new(is_kernel);
                obey(|order: DomainOrder| domain.perform(order))
            }
            Self::Callee => {
                let _running = crate::calls::exporting(crate::calls::NAME).start()?;
                obey(|(): ()| Ok(()))
            }
        }
    }
}

/// How a set of domains comes to processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// By the server.
    With,
    /// Each by its own maximum.
    Without,
    /// They have kernel threads alone.
    Kernel,
}

/// A set of domains, and their server.
pub(super) struct DomainSet {
    directory: PathBuf,
    server: Option<Helper>,
    pub(super) domains: Vec<Helper>,
}

/// How long domains may take to register.
const SOON: Duration = Duration::from_secs(20);

impl DomainSet {
    /// So many domains.
    pub(super) fn start(
        client: &ScenarioClient,
        setting: Setting,
        domains: usize,
        has_jobserver: bool,
    ) -> Result<Self, BenchError> {
        let directory = client.scratch().join(format!("{setting:?}").to_lowercase());
        Directory::at(&directory).ensure()?;
        let cpus = client.placement().all.clone();
        let start = |party| {
            let task = HelperTask { cpus: cpus.clone(), does: Does::Node(party) };
            Helper::start_in(&task, &directory)
        };
        let server = match setting {
            Setting::With => Some(start(NodeParty::Server { processors: cpus.len() as u32, has_jobserver })?),
            Setting::Without | Setting::Kernel => None,
        };
        let party = NodeParty::Domain { is_kernel: setting == Setting::Kernel };
        let domains = (0..domains).map(|_| start(party)).collect::<Result<Vec<_>, _>>()?;
        let set = Self { directory, server, domains };
        set.wait_for(set.domains.len())?;
        Ok(set)
    }

    /// Starts a domain that serves calls.
    pub(super) fn add_callee(&mut self, client: &ScenarioClient) -> Result<Helper, BenchError> {
        let cpus = client.placement().all.clone();
        let callee =
            Helper::start_in(&HelperTask { cpus, does: Does::Node(NodeParty::Callee) }, &self.directory)?;
        self.wait_for(self.domains.len() + 1)?;
        Ok(callee)
    }

    /// Waits until the server, if there is one, has so many domains.
    fn wait_for(&self, domains: usize) -> Result<(), BenchError> {
        let begun = Instant::now();
        while self.server.is_some() && self.registered()? < domains {
            if begun.elapsed() > SOON {
                return Err("the domains do not register with the server".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn registered(&self) -> Result<usize, BenchError> {
        let status: serde_json::Value =
            serde_json::from_str(&ask_status(&Directory::at(&self.directory), SOON)?)?;
        let domains = status["domains"].as_array().ok_or("the server speaks another version")?;
        Ok(domains.iter().filter(|domain| domain["kind"] == "domain").count())
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The process of the server.
    pub(super) fn server(&self) -> Option<u32> {
        self.server.as_ref().map(Helper::pid)
    }

    /// Gives all of `domains` an order, and returns their answers. They work at the same time.
    pub(super) fn order(
        domains: &mut [Helper],
        order: impl Fn(usize) -> DomainOrder,
    ) -> Result<Vec<Vec<f64>>, BenchError> {
        for (number, domain) in domains.iter_mut().enumerate() {
            domain.begin(&order(number))?;
        }
        domains.iter_mut().map(Helper::heard).collect()
    }
}
