//! Many connections, several threads, and stopping in the middle.

use std::io::Write as _;

use origin::{Options, Server};

use crate::client::{Client, on_each_backend, request};

#[test]
fn a_thousand_connections_are_served_at_once() {
    on_each_backend(&Options::default(), |server| {
        let mut clients: Vec<_> = (0..1000).map(|_| Client::connect(&server)).collect();
        for _ in 0..3 {
            clients.iter_mut().for_each(|client| client.ask("/"));
            clients
                .iter_mut()
                .for_each(|client| assert_eq!(client.response().status(), "200"));
        }
        let counts = server.stop().counts;
        assert_eq!(
            (counts.connections, counts.requests, counts.responses),
            (1000, 3000, 3000)
        );
    });
}

#[test]
fn connections_come_and_go() {
    on_each_backend(&Options::default(), |server| {
        for _ in 0..2000 {
            let mut client = Client::connect(&server);
            client.ask("/?close");
            assert_eq!(client.response().status(), "200");
        }
        assert_eq!(server.stop().counts.connections, 2000);
    });
}

#[test]
fn several_threads_share_a_port_and_add_up_their_counters() {
    let options = Options {
        threads: 3,
        log_requests: 1000,
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        let mut clients: Vec<_> = (0..60).map(|_| Client::connect(&server)).collect();
        clients.iter_mut().for_each(|client| client.ask("/"));
        clients
            .iter_mut()
            .for_each(|client| assert_eq!(client.response().status(), "200"));
        let report = server.stop();
        assert_eq!(
            (report.counts.connections, report.counts.responses),
            (60, 60)
        );
        let mut numbers: Vec<_> = report.requests.iter().map(|it| it.connection).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 60);
    });
}

#[test]
fn stopping_ends_every_connection_whatever_it_waits_for() {
    on_each_backend(&Options::default(), |server| {
        let mut waiting = Vec::new();
        for target in ["/?delay=1h", "/?fault=hang", "/?fault=drip:1h", "/?size=1G"] {
            let mut client = Client::connect(&server);
            client.ask(target);
            waiting.push(client);
        }
        assert_eq!(Client::get(&server, "/").status(), "200");
        drop(server);
        for mut client in waiting {
            // The end of the stream or a reset, but an end; not the read's timeout.
            let end = client.read_to_end().map_err(|error| error.kind());
            assert_ne!(end, Err(std::io::ErrorKind::WouldBlock));
        }
    });
}

#[test]
fn servers_start_and_stop_again_and_again() {
    for _ in 0..20 {
        let server = Server::start(Options::default()).unwrap();
        assert_eq!(Client::get(&server, "/").status(), "200");
    }
}

#[test]
fn a_deep_pipeline_of_delayed_requests_is_worked_off() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        client.send(&request("/?delay=1ms&size=1").repeat(2000));
        for _ in 0..2000 {
            assert_eq!(client.response().body, b"a");
        }
    });
}

#[test]
fn an_upload_at_full_speed_keeps_nobody_waiting_and_does_not_hinder_the_stop() {
    on_each_backend(&Options::default(), |server| {
        let mut upload = Client::connect(&server);
        upload.send("POST / HTTP/1.1\r\nContent-Length: 1000000000000\r\n\r\n");
        let uploader = std::thread::spawn(move || {
            let piece = [b'x'; 64 * 1024];
            (0..1_000_000)
                .find(|_| upload.stream.write_all(&piece).is_err())
                .is_some()
        });
        for _ in 0..20 {
            assert_eq!(Client::get(&server, "/?delay=1ms").status(), "200");
        }
        let counts = server.stop().counts;
        assert!(uploader.join().unwrap(), "the stop ends the upload");
        assert_eq!((counts.connections, counts.requests), (21, 20));
    });
}
