//! The hosts of an experiment, at the coordinator.

use cluster::host::{HostError, HostHello, HostLink, call_hosts};
use cluster::names::{AgentId, Label};
use experiment::{HostCall, HostResult, Link, RemoteHost, RemoteHosts};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::coordinator::{Coordinator, FleetError};
use crate::{clock, version};

/// A machine that sweeps may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostStatus {
    /// The name that experiments give to it.
    pub name: AgentId,
    /// Its version.
    pub version: Label,
    /// Where it is.
    pub place: Label,
    /// The name of the machine.
    pub machine: Label,
    /// Whether a sweep uses it.
    pub is_busy: bool,
}

impl Coordinator {
    /// The machines that sweeps may change.
    ///
    /// # Errors
    /// If the bus is closed.
    pub fn present_hosts(&self) -> Result<Vec<HostStatus>, FleetError> {
        let present = call_hosts(&*self.bus, &clock(), &self.options.fleet)?;
        let status = |(name, version, hello): (AgentId, Label, HostHello)| HostStatus {
            name,
            version,
            place: hello.place,
            machine: hello.machine,
            is_busy: hello.is_busy,
        };
        Ok(present.into_iter().map(status).collect())
    }

    /// Opens a session with each of these hosts.
    ///
    /// # Errors
    /// If one of them is not there, or refuses.
    pub fn hosts<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<RemoteHosts, FleetError> {
        let mut hosts = RemoteHosts::new();
        for name in names {
            let failed = |why: String| FleetError::Host {
                host: name.to_owned(),
                why,
            };
            let host = name.parse();
            let link = HostLink::open(
                Arc::clone(&self.bus),
                clock(),
                self.options.fleet.clone(),
                version(),
                host.map_err(|error: crate::NameError| failed(error.to_string()))?,
                self.options.key.clone(),
            );
            let link = link.map_err(|error| failed(error.to_string()))?;
            let host = RemoteHost::new(name, Box::new(OverBus(link))).map_err(failed)?;
            hosts.insert(name.to_owned(), host);
        }
        Ok(hosts)
    }
}

struct OverBus(HostLink);

impl Link for OverBus {
    fn call(&mut self, call: &HostCall, on_wait: &mut dyn FnMut()) -> Result<HostResult, String> {
        let call = serde_json::to_vec(call).map_err(|error| error.to_string())?;
        let reply = self.0.call(call, on_wait);
        let reply = reply.map_err(|error| error.to_string())?;
        serde_json::from_slice(&reply)
            .map_err(|error| format!("the reply of the agent cannot be read: {error}"))
    }

    fn lost(&self) -> Option<String> {
        self.0.ended().as_ref().map(HostError::to_string)
    }

    fn when_lost(&mut self, flag: Arc<AtomicBool>) {
        self.0.when_lost(flag);
    }
}
