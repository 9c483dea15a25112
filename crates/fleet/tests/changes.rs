//! A machine in memory is changed over a bus that loses and doubles messages.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use cluster::bus::{Hub, Message, Outgoing};
use cluster::host::{DeputyEvent, HostDeputies, HostDeputy, HostServer, serve_host};
use cluster::session::Identity;
use experiment::fake::{Fake, Files};
use experiment::{
    Change, Conflicts, HostAccess, HostSession, RemoteHosts, SafetyError, begin_on_all, restore,
};
use fleet::{
    Bus, BusError, Call, Coordinator, FleetOptions, OnLost, SigningKey, TrustList, clock, random,
};

const RMEM_MAX: &str = "/proc/sys/net/core/rmem_max";
const CONF: &str = "/etc/server.conf";
const JOURNALS: &str = "/var/lib/wrkbench/restore";

/// A bus that loses every fifth message and doubles every seventh.
#[derive(Clone)]
struct Bad {
    hub: Hub,
    published: Arc<AtomicU64>,
}

impl Bus for Bad {
    fn publish(&self, message: Outgoing) -> Result<(), BusError> {
        let number = self.published.fetch_add(1, Ordering::Relaxed);
        if number % 5 == 3 {
            return Ok(());
        }
        if number % 7 == 2 {
            self.hub.publish(message.clone())?;
        }
        self.hub.publish(message)
    }

    fn subscribe(&self, subject: &str, inbox: &SyncSender<Message>) -> Result<(), BusError> {
        self.hub.subscribe(subject, inbox)
    }

    fn new_inbox(&self) -> String {
        self.hub.new_inbox()
    }
}

/// The machine, which its guardian restores when a deputy is dropped.
#[derive(Clone)]
struct Deputies(Rc<RefCell<Fake>>);

struct Deputy {
    machine: Rc<RefCell<Fake>>,
    session: HostSession,
    event: Option<DeputyEvent>,
}

impl HostDeputies for Deputies {
    type Deputy = Deputy;

    fn start(&mut self) -> io::Result<Deputy> {
        Ok(Deputy {
            machine: Rc::clone(&self.0),
            session: HostSession::new(JOURNALS.into()),
            event: None,
        })
    }
}

impl HostDeputy for Deputy {
    fn begin(&mut self, call: &[u8]) {
        let Call::Change(call) = serde_json::from_slice(call).unwrap() else {
            unreachable!("an experiment takes no profile");
        };
        let result = self
            .session
            .carry_out(&mut *self.machine.borrow_mut(), call);
        self.event = Some(DeputyEvent::Replied(serde_json::to_vec(&result).unwrap()));
    }

    fn next_event(&mut self) -> Option<DeputyEvent> {
        self.event.take()
    }
}

impl Drop for Deputy {
    fn drop(&mut self) {
        let machine = &mut *self.machine.borrow_mut();
        machine.revive();
        restore(machine, JOURNALS.as_ref(), Conflicts::Report).unwrap();
    }
}

/// Ends the agent, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has an experiment change the machine. Returns its files afterwards, and what was done to them.
fn changed(experiment: impl FnOnce(RemoteHosts)) -> (Files, Vec<String>) {
    let bus = Bad {
        hub: Hub::new(clock()),
        published: Arc::default(),
    };
    let key = SigningKey::generate(&mut random());
    let identity = Identity {
        fleet: "lab".parse().unwrap(),
        agent: "db1".parse().unwrap(),
        version: env!("CARGO_PKG_VERSION").into(),
        place: "server".into(),
        machine: "beta".into(),
        cores: 1,
        kernel: "Linux".into(),
        trust: TrustList::new(vec![key.public()]),
    };
    let stopped = AtomicBool::new(false);
    let end = Mutex::new(None);
    std::thread::scope(|scope| {
        let _stop = Stop(&stopped);
        let (theirs, stop, end) = (bus.clone(), &stopped, &end);
        scope.spawn(move || {
            let machine = Fake::with(&[(RMEM_MAX, "212992\n"), (CONF, "original\n")]);
            let deputies = Deputies(Rc::new(RefCell::new(machine)));
            let mut server = HostServer::new(identity, deputies.clone(), random());
            serve_host(&mut server, &theirs, &clock(), stop, &mut |_| {}).unwrap();
            let machine = deputies.0.borrow();
            *end.lock().unwrap() = Some((machine.files.clone(), machine.log.clone()));
        });
        let options = FleetOptions {
            fleet: "lab".parse().unwrap(),
            key,
            on_lost: OnLost::default(),
        };
        let coordinator = Coordinator::on(Arc::new(bus), options);
        experiment(coordinator.hosts(["db1"]).unwrap());
    });
    end.into_inner().unwrap().unwrap()
}

fn sysctl(value: &str) -> Change {
    Change::Sysctl {
        key: "net.core.rmem_max".to_owned(),
        value: value.to_owned(),
    }
}

fn file(content: &[u8]) -> Change {
    Change::File {
        path: CONF.into(),
        content: content.to_vec(),
    }
}

/// Not text, and larger than a message.
fn large() -> Vec<u8> {
    (0..300_000_u32).map(|at| (at % 253) as u8).collect()
}

#[test]
fn each_change_is_made_once_and_restored() {
    let (files, log) = changed(|mut hosts| {
        begin_on_all(&mut hosts, "lossy").unwrap();
        let host = hosts.get_mut("db1").unwrap();
        for value in ["4000", "8000"] {
            let effective = host.change(&sysctl(value)).unwrap();
            assert_eq!(effective.value.as_deref(), Some(value));
        }
        host.change(&file(&large())).unwrap();
        assert!(host.read(CONF.as_ref()).unwrap() == large());
        let missing = host.read("/nowhere".as_ref()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let report = host.restore_all();
        assert!(report.is_complete(), "{report:?}");
    });
    assert_eq!(files[Path::new(RMEM_MAX)], b"212992\n");
    assert_eq!(files[Path::new(CONF)], b"original\n");
    for value in ["4000", "8000"] {
        let content = format!("{value}\n").into_bytes();
        let written = format!("write {RMEM_MAX} {content:?}");
        assert_eq!(log.iter().filter(|line| **line == written).count(), 1);
    }
}

#[test]
fn a_coordinator_that_goes_without_restoring_leaves_it_to_the_guardian() {
    let (files, log) = changed(|mut hosts| {
        begin_on_all(&mut hosts, "lossy").unwrap();
        let host = hosts.get_mut("db1").unwrap();
        host.change(&sysctl("4000")).unwrap();
        host.change(&file(b"changed")).unwrap();
    });
    assert!(log.iter().any(|line| line.starts_with("replace /etc")));
    assert_eq!(files[Path::new(RMEM_MAX)], b"212992\n");
    assert_eq!(files[Path::new(CONF)], b"original\n");
    assert!(!files.contains_key(&Path::new(JOURNALS).join("journal")));
}

#[test]
fn changes_before_the_beginning_are_refused() {
    let (_, log) = changed(|mut hosts| {
        let host = hosts.get_mut("db1").unwrap();
        let error = host.change(&sysctl("4000")).unwrap_err();
        assert_eq!(error.to_string(), "db1: the changes have not begun");
        let ends_sweep = matches!(error, SafetyError::Elsewhere { ends_sweep, .. } if ends_sweep);
        assert!(ends_sweep);
    });
    assert!(!log.iter().any(|line| line.starts_with("write")), "{log:?}");
}
