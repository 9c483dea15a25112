//! Delays, stalls and the service queue, judged by the server's own log and never by our clock.

use origin::{Options, ServerReport, Stall};

use crate::client::{Client, on_each_backend, request};

fn logged(options: Options) -> Options {
    Options {
        log_requests: 10_000,
        ..options
    }
}

/// Sojourn times in milliseconds.
fn sojourns_ms(report: &ServerReport) -> Vec<f64> {
    report
        .sojourns_ns()
        .iter()
        .map(|&ns| ns as f64 / 1e6)
        .collect()
}

#[test]
fn a_delay_is_never_shorter_than_asked() {
    on_each_backend(&logged(Options::default()), |server| {
        for _ in 0..20 {
            assert_eq!(Client::get(&server, "/?delay=2ms").status(), "200");
        }
        let sojourns = sojourns_ms(&server.stop());
        assert_eq!(sojourns.len(), 20);
        assert!(sojourns.iter().all(|&ms| ms >= 2.0), "{sojourns:?}");
    });
}

#[test]
fn delays_of_a_distribution_stay_in_its_range() {
    on_each_backend(&logged(Options::default()), |server| {
        let mut client = Client::connect(&server);
        for _ in 0..50 {
            client.ask("/?delay=uniform:1ms,3ms");
            client.response();
        }
        let sojourns = sojourns_ms(&server.stop());
        assert!(sojourns.iter().all(|&ms| ms >= 1.0), "{sojourns:?}");
    });
}

#[test]
fn pipelined_responses_keep_their_order_whatever_their_delays() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server);
        let targets = [
            "/?size=1&delay=20ms",
            "/?size=2",
            "/?size=3&delay=1ms",
            "/?size=4",
        ];
        client.send(&targets.map(request).concat());
        let sizes = [(); 4].map(|()| client.response().body.len());
        assert_eq!(sizes, [1, 2, 3, 4]);
    });
}

#[test]
fn the_tail_comes_late() {
    on_each_backend(&logged(Options::default()), |server| {
        assert_eq!(
            Client::get(&server, "/?size=3&delay=1ms&tail=3ms").body,
            b"abc"
        );
        let sojourns = sojourns_ms(&server.stop());
        assert!(sojourns[0] >= 4.0, "{sojourns:?}");
    });
}

#[test]
fn what_arrives_in_a_stall_leaves_after_its_end() {
    let stall = Some(Stall {
        at_ns: 0,
        for_ns: 100_000_000,
    });
    on_each_backend(
        &logged(Options {
            stall,
            ..Options::default()
        }),
        |server| {
            let mut clients: Vec<_> = (0..5).map(|_| Client::connect(&server)).collect();
            clients.iter_mut().for_each(|client| client.ask("/"));
            clients
                .iter_mut()
                .for_each(|client| assert_eq!(client.response().status(), "200"));
            clients[0].ask("/");
            clients[0].response();
            let report = server.stop();
            let end_ns = report.requests[0].arrival_ns + 100_000_000;
            assert_eq!(report.requests.len(), 6);
            for request in &report.requests {
                assert!(request.departure_ns.unwrap() >= end_ns, "{request:?}");
            }
            let last = &report.requests[5];
            assert!(
                last.arrival_ns >= end_ns,
                "the sixth was sent after a response"
            );
        },
    );
}

#[test]
fn the_service_queue_works_on_one_request_at_a_time() {
    let options = Options {
        has_service_queue: true,
        ..Options::default()
    };
    on_each_backend(&logged(options), |server| {
        let mut clients: Vec<_> = (0..8).map(|_| Client::connect(&server)).collect();
        clients
            .iter_mut()
            .for_each(|client| client.ask("/?delay=2ms"));
        clients
            .iter_mut()
            .for_each(|client| assert_eq!(client.response().status(), "200"));
        let report = server.stop();
        let first_ns = report.requests[0].arrival_ns;
        for (place, request) in report.requests.iter().enumerate() {
            let least_ns = first_ns + (place as u64 + 1) * 2_000_000;
            assert!(
                request.departure_ns.unwrap() >= least_ns,
                "{place}: {request:?}"
            );
        }
    });
}

#[test]
fn a_drip_takes_its_interval_for_each_byte() {
    on_each_backend(&logged(Options::default()), |server| {
        let response = Client::get(&server, "/?size=10&fault=drip:200us");
        let sojourns = sojourns_ms(&server.stop());
        let least = (response.bytes - 1) as f64 * 0.2;
        assert!(sojourns[0] >= least, "{sojourns:?} for {least}");
    });
}

#[test]
fn a_new_connection_is_left_waiting_and_an_old_one_is_not() {
    let options = Options {
        accept_delay_ns: 30_000_000,
        ..logged(Options::default())
    };
    on_each_backend(&options, |server| {
        let mut old = Client::connect(&server);
        for _ in 0..20 {
            old.ask("/");
            assert_eq!(old.response().status(), "200");
        }
        assert_eq!(Client::get(&server, "/").status(), "200");
        let requests = server.stop().requests;
        let arrivals_ns: Vec<u64> = requests.iter().map(|one| one.arrival_ns).collect();
        // The new connection was made when the last response to the old one had been read.
        assert!(
            arrivals_ns[20] - arrivals_ns[19] >= 30_000_000,
            "{arrivals_ns:?}"
        );
        let quickest_ns = arrivals_ns.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(quickest_ns < Some(30_000_000), "{arrivals_ns:?}");
    });
}

#[test]
fn a_polling_server_responds_like_any_other_and_stops_when_told() {
    let options = Options {
        is_polling: true,
        ..logged(Options::default())
    };
    on_each_backend(&options, |server| {
        for target in ["/", "/?delay=2ms", "/?size=1M", "/?tail=1ms"] {
            assert_eq!(Client::get(&server, target).status(), "200");
        }
        let report = server.stop();
        assert_eq!((report.counts.requests, report.counts.responses), (4, 4));
        assert!(report.sojourns_ns()[1] >= 2_000_000);
    });
}
