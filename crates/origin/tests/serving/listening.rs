//! Addresses of every kind, and greetings.

use std::io::{ErrorKind, Read};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};

use origin::{Address, End, Greeting, Options, Server, parse_listen};
use testkit::Folder;

use crate::client::{Client, on_each_backend, tcp_address};

#[test]
fn ipv6_is_served() {
    let options = Options {
        listen: parse_listen("[::1]:0").unwrap(),
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        assert!(tcp_address(&server).is_ipv6());
        assert!(server.url().starts_with("http://[::1]:"));
        assert_eq!(Client::get(&server, "/").status(), "200");
    });
}

#[test]
fn a_unix_socket_is_served_and_removed() {
    let folder = Folder::new();
    let path = folder.join("socket");
    let options = Options {
        listen: Address::Unix(path.clone()),
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        let mut client = Client::over(UnixStream::connect(&path).unwrap());
        for _ in 0..3 {
            client.ask("/");
            assert_eq!(client.response().status(), "200");
        }
        drop(server);
        assert!(!path.exists());
    });
}

#[test]
fn a_socket_left_behind_is_replaced_and_a_living_one_is_not() {
    let folder = Folder::new();
    let path = folder.join("socket");
    drop(UnixListener::bind(&path).unwrap());
    let options = Options {
        listen: Address::Unix(path.clone()),
        ..Options::default()
    };
    let server = Server::start(options.clone()).unwrap();
    let error = Server::start(options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    assert!(path.exists());
    drop(server);
}

#[test]
fn a_port_in_use_is_said_with_its_address() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let options = Options {
        listen: Address::Tcp(address),
        ..Options::default()
    };
    let error = Server::start(options).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot listen on {address}: ")),
        "{error}"
    );
    assert!(error.contains("choose another"), "{error}");
}

#[test]
fn options_that_do_not_fit_are_refused_at_the_start() {
    let error = Server::start(Options {
        threads: 0,
        ..Options::default()
    })
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn greetings_end_a_connection_before_any_request() {
    for (end, expected) in [
        (End::Reset, Err(ErrorKind::ConnectionReset)),
        (End::Fin, Ok(Vec::new())),
    ] {
        on_each_backend(
            &Options {
                greeting: Greeting::End(end),
                ..Options::default()
            },
            |server| {
                let mut client = Client::connect(&server);
                let end = client.read_to_end().map_err(|error| error.kind());
                assert_eq!(end.map(|()| std::mem::take(&mut client.input)), expected);
                let counts = server.stop().counts;
                assert_eq!((counts.connections, counts.requests), (1, 0));
            },
        );
    }
}

#[test]
fn a_stalled_greeting_says_nothing_until_the_client_goes() {
    let options = Options {
        greeting: Greeting::End(End::Hang),
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server);
        client.ask("/");
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        let end = client.stream.read_to_end(&mut rest);
        assert!(end.is_ok() && rest.is_empty());
    });
}
