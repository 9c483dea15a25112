//! The host functions behind the `wrk` table, `thread` and the statistics.

use std::ffi::CStr;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::state::{LuaState, Native};
use crate::statistics::{Distribution, Statistics};
use crate::transfer::Value;
use crate::{Address, Network, NetworkError};

/// The network, shared by all states.
pub(crate) type SharedNetwork = Arc<dyn Network + Send + Sync>;

/// A name in the `native` table of wrk.lua, and its function.
pub(crate) type NamedNative = (&'static CStr, Native);

/// What the script of a thread tells its worker.
#[derive(Debug)]
pub(crate) struct ThreadControl {
    address: Mutex<Address>,
    /// The address has changed since the worker last asked.
    changed: AtomicBool,
    stop: AtomicBool,
}

impl ThreadControl {
    /// The control of a thread that connects to `address`.
    pub(crate) fn new(address: Address) -> Self {
        Self {
            address: Mutex::new(address),
            changed: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    /// The new address, once after each change.
    pub(crate) fn take_address(&self) -> Option<Address> {
        // A plain load first, because this is called after every call into a script.
        if !self.changed.load(Ordering::Relaxed) {
            return None;
        }
        self.changed.store(false, Ordering::Relaxed);
        Some(self.address().clone())
    }

    /// Whether `thread:stop()` has been called since the run began.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Clears stops from before the run. They have no effect, as in wrk.
    pub(crate) fn begin_run(&self) {
        self.stop.store(false, Ordering::Relaxed);
    }

    fn set_address(&self, address: Address) {
        let mut current = self.address();
        if *current != address {
            *current = address;
            self.changed.store(true, Ordering::Relaxed);
        }
    }

    fn address(&self) -> MutexGuard<'_, Address> {
        lock(&self.address)
    }
}

/// A thread's state and control, as the main state sees them.
#[derive(Clone)]
pub(crate) struct Thread {
    pub(crate) state: Arc<Mutex<LuaState>>,
    pub(crate) control: Arc<ThreadControl>,
}

/// What the natives of the main state share with the [`Script`](crate::Script) that owns it.
#[derive(Clone, Default)]
pub(crate) struct MainShared {
    /// Threads in order. Thread 1 of Lua is item 0.
    pub(crate) threads: Arc<Mutex<Vec<Thread>>>,
    /// Why the last address that was tried accepts no connection.
    pub(crate) refusal: Arc<Mutex<Option<NetworkError>>>,
    /// Set before `done` is called.
    pub(crate) statistics: Arc<Mutex<Option<Statistics>>>,
    /// Notes for the user, in whole sentences.
    pub(crate) notes: Arc<Mutex<Vec<String>>>,
}

/// Locks, even after a panic elsewhere: the data under these locks is never half updated.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The natives of the main state.
pub(crate) fn main_natives(network: &SharedNetwork, shared: &MainShared) -> Vec<NamedNative> {
    let mut natives = network_natives(network, &shared.refusal);
    natives.extend(thread_natives(shared));
    natives.extend(statistics_natives(shared));
    natives
}

/// The natives of a thread's state.
pub(crate) fn worker_natives(
    network: &SharedNetwork,
    control: &Arc<ThreadControl>,
) -> Vec<NamedNative> {
    let mut natives = network_natives(network, &Arc::default());
    let (get, set, stop) = (
        Arc::clone(control),
        Arc::clone(control),
        Arc::clone(control),
    );
    natives.extend([
        native(c"copy", |arguments| {
            Ok(vec![argument(arguments, 0).clone()])
        }),
        native(c"address", move |_| {
            Ok(vec![Value::text(address_text(&get.address()))])
        }),
        native(c"set_address", move |arguments| {
            set.set_address(address_argument(arguments, 1)?);
            Ok(Vec::new())
        }),
        native(c"stop", move |_| {
            stop.stop.store(true, Ordering::Relaxed);
            Ok(Vec::new())
        }),
    ]);
    natives
}

fn network_natives(
    network: &SharedNetwork,
    refusal: &Arc<Mutex<Option<NetworkError>>>,
) -> Vec<NamedNative> {
    let refusal = Arc::clone(refusal);
    let (lookup, connect) = (Arc::clone(network), Arc::clone(network));
    vec![
        native(c"lookup", move |arguments| {
            let (host, service) = (text_argument(arguments, 0)?, text_argument(arguments, 1)?);
            let found = lookup
                .lookup(&host, &service)
                .map_err(|reason| format!("{UNRESOLVED}{host}:{service} {reason}"))?;
            Ok(vec![Value::list(
                found.iter().map(|each| Value::text(address_text(each))),
            )])
        }),
        native(c"connect", move |arguments| {
            let address = address_argument(arguments, 0)?;
            let connected = connect.connect(&address);
            let is_connected = connected.is_ok();
            *lock(&refusal) = connected.err();
            Ok(vec![Value::Boolean(is_connected)])
        }),
        native(c"time_us", |_| Ok(vec![Value::Number(wall_clock_us())])),
    ]
}

/// Start of the message of a failed lookup, in wrk's words.
pub(crate) const UNRESOLVED: &str = "unable to resolve ";

fn thread_natives(shared: &MainShared) -> Vec<NamedNative> {
    let [get, set, address, set_address] = [(); 4].map(|()| Arc::clone(&shared.threads));
    let notes = Arc::clone(&shared.notes);
    vec![
        native(c"get", move |arguments| {
            let (thread, name) = (thread_argument(&get, arguments)?, argument(arguments, 1));
            let Some(mut state) = try_lock(&thread.state) else {
                note_stuck_thread(&notes, arguments);
                return Ok(vec![Value::Nil]);
            };
            Ok(vec![state.call(c"read", std::slice::from_ref(name))?])
        }),
        native(c"set", move |arguments| {
            let thread = thread_argument(&set, arguments)?;
            let Some(mut state) = try_lock(&thread.state) else {
                return Err("cannot set a variable of a thread that is still running".to_owned());
            };
            let value = argument(arguments, 2).clone();
            state.call(c"write", &[argument(arguments, 1).clone(), value])?;
            Ok(Vec::new())
        }),
        native(c"address", move |arguments| {
            let thread = thread_argument(&address, arguments)?;
            Ok(vec![Value::text(address_text(&thread.control.address()))])
        }),
        native(c"set_address", move |arguments| {
            let thread = thread_argument(&set_address, arguments)?;
            thread.control.set_address(address_argument(arguments, 1)?);
            Ok(Vec::new())
        }),
        // The main state runs before and after the load, when there is nothing to stop.
        native(c"stop", |_| Ok(Vec::new())),
    ]
}

fn statistics_natives(shared: &MainShared) -> Vec<NamedNative> {
    vec![
        figure(c"percentile", shared, |all, percent| {
            vec![all.percentile(percent)]
        }),
        figure(c"bucket", shared, |all, position| {
            let (value, count) = all.bucket(position);
            vec![value, count]
        }),
        figure(c"sample", shared, |all, position| {
            vec![all.sample(position)]
        }),
    ]
}

/// Figures of the distribution that the first argument names, for a number; the statistics are
/// there as soon as a script can ask for them.
fn figure(
    name: &'static CStr,
    shared: &MainShared,
    of: fn(&Distribution, f64) -> Vec<f64>,
) -> NamedNative {
    let statistics = Arc::clone(&shared.statistics);
    native(name, move |arguments| {
        let which = text_argument(arguments, 0)?;
        let number = argument(arguments, 1).as_number().unwrap_or(f64::NAN);
        let figures = lock(&statistics)
            .as_ref()
            .map_or_else(Vec::new, |all| of(all.of(&which), number));
        Ok(figures.into_iter().map(Value::Number).collect())
    })
}

fn native(
    name: &'static CStr,
    function: impl Fn(&[Value]) -> Result<Vec<Value>, String> + Send + 'static,
) -> NamedNative {
    (name, Box::new(function))
}

/// The argument at a position. Missing ones are nil, as in Lua.
fn argument(arguments: &[Value], at: usize) -> &Value {
    arguments.get(at).unwrap_or(&Value::Nil)
}

fn text_argument(arguments: &[Value], at: usize) -> Result<String, String> {
    argument(arguments, at)
        .as_text()
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .ok_or_else(|| format!("argument {} must be a string", at + 1))
}

fn address_argument(arguments: &[Value], at: usize) -> Result<Address, String> {
    argument(arguments, at)
        .as_text()
        .and_then(parse_address)
        .ok_or_else(|| format!("argument {} must be an address", at + 1))
}

fn thread_argument(threads: &Mutex<Vec<Thread>>, arguments: &[Value]) -> Result<Thread, String> {
    let number = argument(arguments, 0).as_number().unwrap_or(0.0);
    // The cast saturates. 0 and everything out of range is not a thread.
    let position = (number as usize).checked_sub(1);
    position
        .and_then(|at| lock(threads).get(at).cloned())
        .ok_or_else(|| format!("there is no thread {number}"))
}

/// The state of a thread, unless its worker is in the middle of a call.
fn try_lock(state: &Mutex<LuaState>) -> Option<MutexGuard<'_, LuaState>> {
    match state.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn note_stuck_thread(notes: &Mutex<Vec<String>>, arguments: &[Value]) {
    let number = argument(arguments, 0).as_number().unwrap_or(0.0);
    let note = format!(
        "thread {number} is still inside a function of the script: thread:get gives nil for it"
    );
    let mut notes = lock(notes);
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// An address in the form used by wrk.lua: `ip:port`, `[ip]:port` or `unix:path`.
pub(crate) fn address_text(address: &Address) -> Vec<u8> {
    match address {
        Address::Tcp(address) => address.to_string().into_bytes(),
        Address::Unix(path) => [UNIX_PREFIX, path.as_os_str().as_bytes()].concat(),
    }
}

const UNIX_PREFIX: &[u8] = b"unix:";

/// Parses the output of [`address_text`].
pub(crate) fn parse_address(text: &[u8]) -> Option<Address> {
    if let Some(path) = text.strip_prefix(UNIX_PREFIX) {
        let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
        return Some(Address::Unix(path));
    }
    let address: SocketAddr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(Address::Tcp(address))
}

/// Whole microseconds since 1970, like wrk2's `wrk.time_us` (which is `gettimeofday`).
fn wall_clock_us() -> f64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "wrk.time_us is the wall clock by definition"
    )]
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    whole_us(now)
}

/// A Lua number represents whole microseconds exactly until the year 2255 (2^53).
fn whole_us(time: Duration) -> f64 {
    time.as_micros() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_after_formatting_and_parsing() {
        let tcp = |text: &str| Address::Tcp(text.parse().unwrap());
        for address in [
            tcp("127.0.0.1:80"),
            tcp("[::1]:8080"),
            tcp("[fe80::1%3]:1"),
            Address::Unix(PathBuf::from("/run/a b.sock")),
        ] {
            assert_eq!(parse_address(&address_text(&address)), Some(address));
        }
    }

    #[test]
    fn text_that_is_not_an_address_is_rejected() {
        for text in [
            &b""[..],
            b"127.0.0.1",
            b"localhost:80",
            b"127.0.0.1:99999",
            b"\xff:1",
        ] {
            assert_eq!(parse_address(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_time_is_truncated_to_whole_microseconds() {
        // Computed from seconds as a double, the result would be one microsecond too small here.
        for us in [0, 1_700_000_000_000_001_u64, 1_763_716_000_000_005, 1 << 52] {
            let time = Duration::from_micros(us) + Duration::from_nanos(999);
            assert_eq!(whole_us(time) as u64, us);
        }
    }

    #[test]
    fn a_changed_address_is_returned_once_and_an_unchanged_one_never() {
        let (first, second) = (Address::Unix("a".into()), Address::Unix("b".into()));
        let control = ThreadControl::new(first.clone());
        control.set_address(first);
        assert_eq!(control.take_address(), None);
        control.set_address(second.clone());
        assert_eq!(control.take_address(), Some(second));
        assert_eq!(control.take_address(), None);
    }
}
