//! Name resolution: wrk.lookup, wrk.connect, wrk.resolve and the resulting target.

mod script_test;

use std::path::PathBuf;
use std::sync::Arc;

use engine::source::Address;
use script::{Network, NetworkError, ScriptError};
use script_test::{FakeNetwork, ScriptTest, tcp};

fn network_refusing(addresses: &[&str]) -> Arc<FakeNetwork> {
    let refusing = addresses.iter().map(|text| tcp(text)).collect();
    Arc::new(FakeNetwork {
        refusing,
        ..FakeNetwork::default()
    })
}

fn rig_for(host: &str) -> ScriptTest {
    ScriptTest {
        host: host.to_owned(),
        ..ScriptTest::bare()
    }
}

#[test]
fn the_target_has_every_address_that_accepts_connections() {
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
fn a_target_without_an_accepting_address_is_unreachable() {
    let network = network_refusing(&["127.0.0.1:8080", "[::1]:8080"]);
    let Err(error) = rig_for("two.test").load_with(network) else {
        panic!("it should fail")
    };
    assert!(matches!(error, ScriptError::Unreachable { .. }));
    let expected = "unable to connect to two.test:8080 Connection refused";
    assert_eq!(error.to_string(), expected);
    assert!(rig_for("empty.test").load().is_err());
}

#[test]
fn an_unknown_host_is_reported_with_the_reason() {
    let message = rig_for("nowhere.test").failure();
    assert_eq!(
        message,
        "unable to resolve nowhere.test:8080 Name or service not known"
    );
}

#[test]
fn an_unknown_host_in_a_script_is_reported_with_the_line() {
    let message = ScriptTest::script("\nlocal a = wrk.lookup('nowhere.test', 80)").failure();
    let expected = "script.lua:2: unable to resolve nowhere.test:80 Name or service not known \
                    (while loading)";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn addresses_print_as_ip_and_port_and_are_compared_by_value() {
    ScriptTest::script(
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
fn connect_returns_whether_an_address_accepts_connections() {
    let test = ScriptTest::script(
        "assert(wrk.connect(wrk.lookup('one.test', '81')[1]) == false)
         assert(wrk.connect(wrk.lookup('one.test', '82')[1]) == true)",
    );
    test.load_with(network_refusing(&["127.0.0.1:81"])).unwrap();
}

#[test]
fn a_script_may_replace_resolve_and_skip_probing() {
    let test = ScriptTest::script(
        "function wrk.resolve(host, service)
           assert(host == 'one.test' and service == '8080')
           wrk.addrs = wrk.lookup('two.test', '1')
         end",
    );
    let script = test.load().unwrap();
    assert_eq!(script.addresses(), [tcp("127.0.0.1:1"), tcp("[::1]:1")]);
    assert_eq!(*test.network.calls.lock().unwrap(), ["lookup two.test:1"]);
}

#[test]
fn a_resolve_without_usable_addresses_is_an_error() {
    for (body, said) in [
        ("", "has not set wrk.addrs"),
        ("wrk.addrs = 5", "has not set wrk.addrs"),
        ("wrk.addrs = { 'one' }", "wrk.addrs[1] is not an address"),
        ("wrk.addrs = {}", "unable to connect to one.test:8080"),
    ] {
        let message = ScriptTest::script(&format!("function wrk.resolve() {body} end")).failure();
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn wrong_arguments_are_reported_with_the_line_of_the_script() {
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
        let message = ScriptTest::script(&format!("\n{call}")).failure();
        assert!(
            message.contains("script.lua:2: ") && message.contains(said),
            "{message}"
        );
    }
}

#[test]
fn time_us_of_wrk2_returns_microseconds() {
    ScriptTest::script(
        "local first = wrk.time_us()
         assert(first > 1.7e15 and first == math.floor(first))
         assert(math.abs(first / 1e6 - os.time()) < 60)",
    )
    .check();
}

struct UnixNetwork;

impl Network for UnixNetwork {
    fn lookup(&self, _host: &str, _service: &str) -> Result<Vec<Address>, NetworkError> {
        Ok(vec![Address::Unix(PathBuf::from("/run/web.sock"))])
    }

    fn connect(&self, _address: &Address) -> Result<(), NetworkError> {
        Ok(())
    }
}

#[test]
fn a_unix_socket_is_an_ordinary_address() {
    let test = ScriptTest::script(
        "function setup(thread)
           assert(tostring(thread.addr) == 'unix:/run/web.sock', tostring(thread.addr))
         end",
    );
    let mut script = test.load_with(Arc::new(UnixNetwork)).unwrap();
    script.start().unwrap();
    assert_eq!(
        script.addresses(),
        [Address::Unix(PathBuf::from("/run/web.sock"))]
    );
}

struct PanickingNetwork;

impl Network for PanickingNetwork {
    fn lookup(&self, _host: &str, _service: &str) -> Result<Vec<Address>, NetworkError> {
        panic!("the network is broken")
    }

    fn connect(&self, _address: &Address) -> Result<(), NetworkError> {
        Err(NetworkError::new("Connection refused"))
    }
}

#[test]
fn a_panic_in_a_native_becomes_a_script_error() {
    let Err(error) = ScriptTest::bare().load_with(Arc::new(PanickingNetwork)) else {
        panic!("it should fail");
    };
    assert!(error.to_string().contains("internal error"), "{error}");
}
