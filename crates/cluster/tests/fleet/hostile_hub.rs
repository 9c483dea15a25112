//! A hub that does what no NATS server does. Whatever it sends, little of it is kept.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::thread::JoinHandle;

use cluster::bus::{Bus, BusError, LinkNews, Message, Nats, NatsOptions};
use testkit::eventually;

const MB: usize = 1_000_000;

const INFO: &str = "INFO {\"server_id\":\"x\",\"max_payload\":1048576}\r\n";

/// A server that does `serve` with the first connection.
fn hub<R: Send + 'static>(
    serve: impl FnOnce(TcpStream) -> R + Send + 'static,
) -> (NatsOptions, JoinHandle<R>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client comes");
        serve(stream)
    });
    let options = NatsOptions {
        servers: format!("nats://{address}"),
        name: "test".to_owned(),
        ..NatsOptions::default()
    };
    (options, thread)
}

fn clock() -> cluster::bus::Clock {
    Arc::new(|| 1)
}

fn refused(options: NatsOptions) -> String {
    let error = Nats::connect(options, clock())
        .err()
        .expect("it is refused");
    error.to_string()
}

/// Sends the beginning, and then more and more, until the client has closed the connection or
/// took a gigabyte. Returns how much it took.
fn flood(stream: &TcpStream, beginning: &str) -> usize {
    flood_with(stream, beginning, &[b'x'; 64 * 1024])
}

fn flood_with(mut stream: &TcpStream, beginning: &str, chunk: &[u8]) -> usize {
    let mut sent = 0;
    if stream.write_all(beginning.as_bytes()).is_err() {
        return sent;
    }
    while sent < 1_000 * MB && stream.write_all(chunk).is_ok() {
        sent += chunk.len();
    }
    sent
}

/// Admits the client: reads its introduction and replies to its PING.
fn admit(stream: &TcpStream) -> BufReader<&TcpStream> {
    let mut writer = stream;
    writer.write_all(INFO.as_bytes()).expect("it reads");
    let mut lines = BufReader::new(stream);
    read_until(&mut lines, "PING\r\n");
    writer.write_all(b"PONG\r\n").expect("it reads");
    lines
}

/// What the kernels of both sides keep on the way.
const ON_THE_WAY: usize = 40 * MB;

#[test]
fn an_introduction_without_an_end_is_cut_off() {
    let (options, hub) = hub(|stream| flood(&stream, "INFO {\"server_id\":\""));
    let error = refused(options);
    assert!(
        error.ends_with("the server sends a line of more than 65536 bytes"),
        "{error}"
    );
    let sent = hub.join().expect("no panic");
    assert!(sent < ON_THE_WAY, "{sent}");
}

#[test]
fn a_message_of_a_hundred_gigabytes_is_cut_off_before_it_comes() {
    let (options, hub) = hub(|stream| {
        read_until(&mut admit(&stream), "SUB t 1\r\n");
        flood(&stream, "MSG t 1 100000000000\r\n")
    });
    let bus = Nats::connect(options, clock()).expect("it is admitted");
    bus.subscribe("t", &sync_channel(1).0).expect("it is open");
    let error = eventually(|| bus.check().err().ok_or_else(|| "it is cut off".to_owned()));
    let expected = "the server announces a message of 100000000000 bytes, more than the 1048576 it \
                    accepts";
    assert_eq!(error, BusError::Broken(expected.to_owned()));
    assert_eq!(bus.subscribe("t", &sync_channel(1).0), Err(error));
    let sent = hub.join().expect("no panic");
    assert!(sent < ON_THE_WAY, "{sent}");
}

/// Reads what the client sends until this line comes. Its PINGs, which check the connection, get no
/// reply.
fn read_until(lines: &mut BufReader<&TcpStream>, wanted: &str) {
    let mut line = String::new();
    while line != wanted {
        line.clear();
        assert_ne!(lines.read_line(&mut line).expect("it writes"), 0);
    }
}

/// The reason for which a hub that sends PING without end is cut off.
const FLOOD: &str = "the server sends more than 10000 lines without a message (PING) in 2 s";

#[test]
fn pings_without_end_are_cut_off() {
    let pings = "PING\r\n".repeat(10_000);
    let (options, hub) = hub(move |stream| {
        read_until(&mut admit(&stream), "SUB t 1\r\n");
        flood_with(&stream, "", pings.as_bytes())
    });
    let bus = Nats::connect(options, clock()).expect("it is admitted");
    bus.subscribe("t", &sync_channel(1).0).expect("it is open");
    let error = eventually(|| bus.check().err().ok_or_else(|| "it is cut off".to_owned()));
    assert_eq!(error, BusError::Broken(FLOOD.to_owned()));
    let sent = hub.join().expect("no panic");
    assert!(sent < ON_THE_WAY, "{sent}");
}

#[test]
fn pings_without_end_in_place_of_an_admission_are_cut_off() {
    let pings = "PING\r\n".repeat(10_000);
    let (options, hub) = hub(move |stream| flood_with(&stream, INFO, pings.as_bytes()));
    let error = refused(options);
    assert!(error.ends_with(FLOOD), "{error}");
    let sent = hub.join().expect("no panic");
    assert!(sent < ON_THE_WAY, "{sent}");
}

/// The options of a client that tries again, and its news.
fn trying(options: NatsOptions) -> (NatsOptions, Receiver<LinkNews>) {
    let (sender, news) = channel();
    let listener = move |it: &LinkNews| {
        // Nobody listens any more at the end of the test.
        let _ = sender.send(it.clone());
    };
    let options = NatsOptions {
        listener: Some(Arc::new(listener)),
        ..options
    };
    (options, news)
}

fn next(news: &Receiver<LinkNews>) -> LinkNews {
    news.recv().expect("the bus is open")
}

fn disconnected(reason: &str) -> LinkNews {
    LinkNews::Disconnected(reason.to_owned())
}

#[test]
fn a_client_is_connected_once_the_server_admits_it_and_tells_what_it_got_before_that() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it has one");
    let others = [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "\x16\x03\x01\n",
        "PING\r\n",
        "",
    ];
    let hub = std::thread::spawn(move || {
        for other in others {
            let (mut stream, _) = listener.accept().expect("a client comes");
            stream.write_all(other.as_bytes()).expect("it reads");
        }
        let (stream, _) = listener.accept().expect("a client comes");
        drop(admit(&stream));
    });
    let (options, news) = trying(NatsOptions {
        servers: format!("nats://{address}"),
        ..NatsOptions::default()
    });
    let bus = Nats::connect(options, clock()).expect("it goes on trying");
    let not_nats = |what: &str| disconnected(&format!("this is not a NATS server: {what}"));
    let closed = disconnected("the server has closed the connection");
    let told: Vec<LinkNews> = (0..6).map(|_| next(&news)).collect();
    assert_eq!(
        told,
        [
            not_nats("it sends \"HTTP/1.1 400 Bad Request\""),
            not_nats("it sends \"\\u{16}\\u{3}\\u{1}\""),
            not_nats("it does not begin with INFO"),
            closed.clone(),
            LinkNews::Connected,
            closed,
        ]
    );
    hub.join().expect("no panic");
    assert_eq!(
        next(&news),
        disconnected("Connection refused (os error 111)")
    );
    drop(bus);
}

#[test]
fn messages_that_nobody_takes_are_dropped_at_the_limit_and_later_ones_arrive() {
    const PAYLOAD: usize = 400_000;
    let (all_sent_in, all_sent) = channel();
    let (go_on, goes_on) = channel();
    let (options, hub) = hub(move |stream| {
        let mut lines = admit(&stream);
        read_until(&mut lines, "SUB t 1\r\n");
        let mut writer = &stream;
        let message = |payload: &[u8]| {
            let head = format!("MSG t 1 {}\r\n", payload.len());
            [head.as_bytes(), payload, b"\r\n"].concat()
        };
        let large = message(&[b'x'; PAYLOAD]);
        for _ in 0..200 {
            writer.write_all(&large).expect("it reads");
        }
        // No agent sends such a message, so it is not kept either.
        let too_large = message(&[b'x'; MB]);
        writer.write_all(&too_large).expect("it reads");
        writer.write_all(b"PING\r\n").expect("it reads");
        read_until(&mut lines, "PONG\r\n");
        all_sent_in.send(()).expect("the test waits");
        goes_on.recv().expect("the test goes on");
        writer.write_all(&message(b"later")).expect("it reads");
        // Until the client has closed the connection.
        let _ = std::io::copy(&mut lines, &mut std::io::sink());
    });
    let bus = Nats::connect(options, clock()).expect("it is admitted");
    let (sender, inbox) = sync_channel(1_000);
    bus.subscribe("t", &sender).expect("it is open");
    all_sent.recv().expect("the hub sends");
    let waiting: Vec<Message> = inbox.try_iter().collect();
    let bytes: usize = waiting.iter().map(|message| message.payload.len()).sum();
    assert!((30 * MB..=33_600_000).contains(&bytes), "{bytes}");
    assert!(
        waiting
            .iter()
            .all(|message| message.payload.len() == PAYLOAD)
    );
    drop(waiting);
    go_on.send(()).expect("the hub waits");
    assert_eq!(inbox.recv().expect("it comes").payload, b"later");
    drop(bus);
    hub.join().expect("no panic");
}
