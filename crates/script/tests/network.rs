//! Name resolution: wrk.lookup, wrk.connect, wrk.resolve and what the target becomes.

mod rig;

use std::path::PathBuf;
use std::sync::Arc;

use engine::source::Address;
use rig::{FakeNetwork, Rig, tcp};
use script::{Network, ScriptError};

fn network_refusing(addresses: &[&str]) -> Arc<FakeNetwork> {
    let refusing = addresses.iter().map(|text| tcp(text)).collect();
    Arc::new(FakeNetwork {
        refusing,
        ..FakeNetwork::default()
    })
}

fn rig_for(host: &str) -> Rig {
    Rig {
        host: host.to_owned(),
        ..Rig::bare()
    }
}

#[test]
fn the_target_is_every_address_that_accepts() {
    let script = rig_for("two.test").load().unwrap();
    assert_eq!(
        script.addresses(),
        [tcp("127.0.0.1:8080"), tcp("[::1]:8080")]
    );

    let network = network_refusing(&["127.0.0.1:8080"]);
    let script = rig_for("two.test").load_with(network).unwrap();
    assert_eq!(script.addresses(), [tcp("[::1]:8080")]);
}

#[test]
fn a_target_that_accepts_nowhere_is_unreachable() {
    let network = network_refusing(&["127.0.0.1:8080", "[::1]:8080"]);
    let Err(error) = rig_for("two.test").load_with(network) else {
        panic!("it should fail")
    };
    assert!(matches!(error, ScriptError::Unreachable { .. }));
    let message = error.to_string();
    assert!(
        message.starts_with("unable to connect to two.test:8080"),
        "{message}"
    );
    assert!(rig_for("empty.test").load().is_err());
}

#[test]
fn an_unknown_host_is_named_with_the_reason() {
    let message = rig_for("nowhere.test").failure();
    assert_eq!(
        message,
        "unable to resolve nowhere.test:8080 Name or service not known"
    );
}

#[test]
fn an_unknown_host_in_a_script_names_the_line() {
    let message = Rig::script("\nlocal a = wrk.lookup('nowhere.test', 80)").failure();
    let expected = "script.lua:2: unable to resolve nowhere.test:80 Name or service not known \
                    (while loading)";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn addresses_print_as_ip_and_port_and_are_compared_by_value() {
    Rig::script(
        r#"
        local list = wrk.lookup("two.test", "8081")
        assert(#list == 2 and type(list[1]) == "userdata")
        assert(tostring(list[1]) == "127.0.0.1:8081", tostring(list[1]))
        assert(tostring(list[2]) == "::1:8081", tostring(list[2]))
        assert(list[1] == wrk.lookup("one.test", 8081)[1] and list[1] ~= list[2])
        assert(wrk.connect(list[1]) == true)
        "#,
    )
    .check();
}

#[test]
fn connect_tells_whether_an_address_accepts() {
    let rig = Rig::script(
        "assert(wrk.connect(wrk.lookup('one.test', '81')[1]) == false)
         assert(wrk.connect(wrk.lookup('one.test', '82')[1]) == true)",
    );
    rig.load_with(network_refusing(&["127.0.0.1:81"])).unwrap();
}

#[test]
fn a_script_may_resolve_by_itself_without_probing() {
    let rig = Rig::script(
        "function wrk.resolve(host, service)
           assert(host == 'one.test' and service == '8080')
           wrk.addrs = wrk.lookup('two.test', '1')
         end",
    );
    let script = rig.load().unwrap();
    assert_eq!(script.addresses(), [tcp("127.0.0.1:1"), tcp("[::1]:1")]);
    assert_eq!(*rig.network.calls.lock().unwrap(), ["lookup two.test:1"]);
}

#[test]
fn a_resolve_that_leaves_no_usable_addresses_is_an_error() {
    for (body, said) in [
        ("", "has not set wrk.addrs"),
        ("wrk.addrs = 5", "has not set wrk.addrs"),
        ("wrk.addrs = { 'one' }", "wrk.addrs[1] is not an address"),
        ("wrk.addrs = {}", "unable to connect to one.test:8080"),
    ] {
        let message = Rig::script(&format!("function wrk.resolve() {body} end")).failure();
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn wrong_arguments_are_named_at_the_line_of_the_script() {
    for (call, said) in [
        ("wrk.lookup()", "the host must be a string, not a nil"),
        (
            "wrk.lookup('one.test')",
            "the service must be a port or a name, not a nil",
        ),
        (
            "wrk.connect('127.0.0.1:80')",
            "expected an address from wrk.lookup, not a string",
        ),
        (
            "wrk.connect(newproxy(true))",
            "expected an address from wrk.lookup, not a userdata",
        ),
        (
            "wrk.connect()",
            "expected an address from wrk.lookup, not a nil",
        ),
    ] {
        let message = Rig::script(&format!("\n{call}")).failure();
        assert!(
            message.contains("script.lua:2: ") && message.contains(said),
            "{message}"
        );
    }
}

#[test]
fn the_clock_of_wrk2_counts_microseconds() {
    Rig::script(
        "local first = wrk.time_us()
         assert(first > 1.7e15 and first == math.floor(first))
         assert(math.abs(first / 1e6 - os.time()) < 60)",
    )
    .check();
}

struct UnixNetwork;

impl Network for UnixNetwork {
    fn lookup(&self, _host: &str, _service: &str) -> Result<Vec<Address>, String> {
        Ok(vec![Address::Unix(PathBuf::from("/run/web.sock"))])
    }

    fn connect(&self, _address: &Address) -> bool {
        true
    }
}

#[test]
fn a_unix_socket_is_an_address_like_others() {
    let rig = Rig::script(
        "function setup(thread)
           assert(tostring(thread.addr) == 'unix:/run/web.sock', tostring(thread.addr))
         end",
    );
    let mut script = rig.load_with(Arc::new(UnixNetwork)).unwrap();
    script.start().unwrap();
    assert_eq!(
        script.addresses(),
        [Address::Unix(PathBuf::from("/run/web.sock"))]
    );
}

struct PanickingNetwork;

impl Network for PanickingNetwork {
    fn lookup(&self, _host: &str, _service: &str) -> Result<Vec<Address>, String> {
        panic!("the network is broken")
    }

    fn connect(&self, _address: &Address) -> bool {
        false
    }
}

#[test]
fn a_panic_in_the_host_becomes_an_error_of_the_script() {
    let Err(error) = Rig::bare().load_with(Arc::new(PanickingNetwork)) else {
        panic!("it should fail");
    };
    assert!(error.to_string().contains("internal error"), "{error}");
}
