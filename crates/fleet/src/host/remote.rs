//! The hosts of an experiment or a profile, at the coordinator.

use cluster::coordinator::Present;
use cluster::host::{CallerSettings, HostLink, call_hosts};
use cluster::names::{AgentId, NameError, RunId};
use experiment::{HostCall, HostResult, Link, LinkLost, RemoteHost, RemoteHosts};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::HostProfile;
use super::call::Call;
use crate::coordinator::{Coordinator, FleetError};
use crate::{clock, random, version};

impl Coordinator {
    /// Asks which machines sweeps may change.
    ///
    /// # Errors
    /// If the bus is closed.
    pub fn call_hosts(&self) -> Result<Vec<Present>, FleetError> {
        Ok(call_hosts(&*self.bus, &clock(), &self.options.fleet)?)
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
        let run = RunId::random(&mut random());
        for name in names {
            let failed = |why: String| FleetError::Host {
                host: name.to_owned(),
                why,
            };
            let link = self.open_host(name, run.clone()).map_err(failed)?;
            let host = RemoteHost::new(name, Box::new(OverBus(link)));
            let host = host.map_err(|error| failed(error.to_string()))?;
            hosts.insert(name.to_owned(), host);
        }
        Ok(hosts)
    }

    /// Has an agent of this name sample a server on its machine.
    ///
    /// # Errors
    /// Why it does not, in a line.
    pub(crate) fn profile_host(&self, name: &str, server: &str) -> Result<HostProfile, String> {
        let link = self.open_host(name, RunId::random(&mut random()))?;
        HostProfile::start(name, link, server)
    }

    /// # Errors
    /// Why there is no session with the host, in a line.
    fn open_host(&self, name: &str, run: RunId) -> Result<HostLink, String> {
        let host: Result<AgentId, NameError> = name.parse();
        let settings = CallerSettings {
            fleet: self.options.fleet.clone(),
            version: version(),
            run,
            host: host.map_err(|error| error.to_string())?,
            inbox: self.bus.new_inbox(),
        };
        let bus = Arc::clone(&self.bus);
        let link = HostLink::open(bus, clock(), settings, self.options.key.clone());
        link.map_err(|error| error.to_string())
    }
}

struct OverBus(HostLink);

impl Link for OverBus {
    fn call(&mut self, call: &HostCall, on_wait: &mut dyn FnMut()) -> Result<HostResult, LinkLost> {
        let call = Call::Change(call.clone());
        let call = serde_json::to_vec(&call).map_err(LinkLost::new)?;
        let reply = self.0.call(call, on_wait);
        let reply = reply.map_err(LinkLost::new)?;
        serde_json::from_slice(&reply).map_err(|error| {
            LinkLost::new(format!("the reply of the agent cannot be read: {error}"))
        })
    }

    fn lost(&self) -> Option<LinkLost> {
        self.0.ended().map(LinkLost::new)
    }

    fn when_lost(&mut self, flag: Arc<AtomicBool>) {
        self.0.when_lost(flag);
    }
}
