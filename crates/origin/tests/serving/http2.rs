//! HTTP/2, with a client that sends frames as it likes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use origin::{Http2Settings, Options, Server};
use protocol::Fields;
use protocol::h2::error::ErrorCode;
use protocol::h2::frame::{Frame, flag, kind};
use protocol::h2::hpack::{Decoder, Limits};
use protocol::h2::reader::Reader;
use protocol::h2::settings::id;
use protocol::h2::{PREFACE, StreamId, writer};

use crate::client::{defaults, on_each_backend, tcp_address};
use crate::written::block;

/// A frame of the server, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    /// The stream, the status (of trailers: nothing), and whether it is the end.
    Head(StreamId, String, bool),
    /// The stream, the content, and whether it is the end.
    Data(StreamId, String, bool),
    Reset(StreamId, ErrorCode),
    Goaway(StreamId, ErrorCode),
    Pong,
    Ping,
    Settings(Vec<(u16, u32)>),
    SettingsAck,
    Window(StreamId),
    Push,
}

struct Client {
    stream: TcpStream,
    reader: Reader,
    decoder: Decoder,
    seen: Vec<Seen>,
    /// Bytes read since the last frame.
    unassigned_bytes: u64,
    /// Bytes of HEADERS and DATA frames.
    bytes: u64,
}

impl Client {
    /// A connection on which nothing was sent.
    fn silent(server: &Server) -> Self {
        let stream = TcpStream::connect(tcp_address(server)).unwrap();
        let wait_max = Some(Duration::from_secs(20));
        stream.set_read_timeout(wait_max).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut reader = Reader::new(1 << 20);
        reader.set_frame_size_max(1 << 20);
        Self {
            stream,
            reader,
            decoder: Decoder::new(Limits {
                list_bytes_max: 1 << 24,
                fields_max: 1 << 20,
            }),
            seen: Vec::new(),
            unassigned_bytes: 0,
            bytes: 0,
        }
    }

    /// A connection with preface and SETTINGS.
    fn connect(server: &Server, settings: &[(u16, u32)]) -> Self {
        let mut this = Self::silent(server);
        this.send(|output| {
            output.extend_from_slice(PREFACE);
            writer::settings(settings.iter().copied(), output);
        });
        this
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut output = Vec::new();
        write(&mut output);
        self.stream.write_all(&output).unwrap();
    }

    fn get(&mut self, stream: StreamId, target: &str) {
        self.send(|output| get(stream, target, output));
    }

    /// Reads until the frames that were not looked at fulfil a condition. Returns them.
    fn until(&mut self, holds: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        while !holds(&self.seen) {
            assert!(self.read_more(), "ended: {:?}", self.seen);
        }
        std::mem::take(&mut self.seen)
    }

    /// All frames until the server closes.
    fn until_end(mut self) -> Vec<Seen> {
        while self.read_more() {}
        self.seen
    }

    /// Everything up to the end of this many streams.
    fn streams(&mut self, count: usize) -> Vec<Seen> {
        self.until(|seen| seen.iter().filter(|seen| seen.ends_stream()).count() >= count)
    }

    fn read_more(&mut self) -> bool {
        let mut buffer = [0; 64 * 1024];
        let count = match self.stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return false,
            Err(error) => panic!("{error}: {:?}", self.seen),
        };
        let mut input = &buffer[..count];
        loop {
            let before = input.len();
            let frame = self.reader.next(&mut input).unwrap();
            self.unassigned_bytes += (before - input.len()) as u64;
            let Some(frame) = frame else { return true };
            let is_of_response = matches!(frame, Frame::Headers(_) | Frame::Data(_));
            let seen = seen(&mut self.decoder, frame);
            let bytes = std::mem::take(&mut self.unassigned_bytes);
            if is_of_response {
                self.bytes += bytes;
            }
            match (self.seen.last_mut(), seen) {
                // Pieces of content are joined.
                (
                    Some(Seen::Data(last, content, ends @ false)),
                    Seen::Data(stream, more, now_ends),
                ) if *last == stream => {
                    content.push_str(&more);
                    *ends = now_ends;
                }
                (_, seen) => self.seen.push(seen),
            }
        }
    }
}

impl Seen {
    fn ends_stream(&self) -> bool {
        matches!(
            self,
            Self::Head(_, _, true) | Self::Data(_, _, true) | Self::Reset(..)
        )
    }

    fn is_of_response(&self) -> bool {
        matches!(self, Self::Head(..) | Self::Data(..) | Self::Reset(..))
    }
}

fn seen(decoder: &mut Decoder, frame: Frame<'_>) -> Seen {
    match frame {
        Frame::Headers(headers) => {
            let mut fields = Fields::default();
            decoder.decode(headers.block, &mut fields).unwrap();
            let status = fields.iter().find(|(name, _)| *name == b":status");
            let status = status.map(|(_, value)| String::from_utf8_lossy(value).into_owned());
            Seen::Head(
                headers.stream,
                status.unwrap_or_default(),
                headers.end_stream,
            )
        }
        Frame::Data(data) => {
            let content = String::from_utf8_lossy(data.content).into_owned();
            Seen::Data(data.stream, content, data.end_stream)
        }
        Frame::Reset { stream, code } => Seen::Reset(stream, code),
        Frame::Goaway {
            last_stream, code, ..
        } => Seen::Goaway(last_stream, code),
        Frame::Ping { ack: true, .. } => Seen::Pong,
        Frame::Ping { ack: false, .. } => Seen::Ping,
        Frame::Settings(entries) => Seen::Settings(entries.collect()),
        Frame::SettingsAck => Seen::SettingsAck,
        Frame::WindowUpdate { stream, .. } => Seen::Window(stream),
        Frame::PushPromise(_) => Seen::Push,
        other => panic!("{other:?}"),
    }
}

fn head(method: &str, target: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        (":method", method),
        (":scheme", "http"),
        (":authority", "test"),
        (":path", target),
    ];
    block(&[&usual, more].concat())
}

fn get(stream: StreamId, target: &str, output: &mut Vec<u8>) {
    writer::headers(stream, &head("GET", target, &[]), true, 16_384, output);
}

fn ok(stream: StreamId, content: &str) -> [Seen; 2] {
    [
        Seen::Head(stream, "200".to_owned(), false),
        Seen::Data(stream, content.to_owned(), true),
    ]
}

fn of_responses(seen: Vec<Seen>) -> Vec<Seen> {
    seen.into_iter().filter(Seen::is_of_response).collect()
}

#[test]
fn streams_are_answered_when_they_are_due_and_the_log_has_their_bytes() {
    let options = Options {
        log_requests: 100,
        ..defaults("size=3")
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server, &[]);
        client.send(|output| {
            get(1, "/?delay=40ms", output);
            get(3, "/?size=0", output);
            get(7, "/?tail=10ms", output);
        });
        let seen = of_responses(client.streams(3));
        let mut expected = vec![Seen::Head(3, "200".to_owned(), true)];
        expected.extend(ok(7, "abc"));
        expected.extend(ok(1, "abc"));
        assert_eq!(seen, expected);
        let bytes = client.bytes;
        let report = server.stop();
        assert_eq!((report.counts.requests, report.counts.responses), (3, 3));
        assert_eq!(report.counts.bytes_out, bytes);
        let logged: u64 = report.requests.iter().map(|request| request.bytes).sum();
        assert_eq!(logged, bytes);
        assert!(
            report
                .requests
                .iter()
                .all(|request| request.departure_ns.is_some())
        );
        assert!(report.sojourns_ns()[0] >= 40_000_000);
    });
}

#[test]
fn generations_are_the_same_as_over_http1_in_any_window() {
    let options = Options {
        log_requests: 100,
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        // Only tokens in ASCII: the client takes each frame for text.
        let target = "/?llm=anthropic&tokens=11&reasoning=5&per-event=3&first=5ms&gap=1ms";
        let body = crate::client::Client::get(&server, target).body;
        let expected = String::from_utf8(body).unwrap();
        // The window of a stream is smaller than an event.
        for settings in [[].as_slice(), &[(id::INITIAL_WINDOW_SIZE, 50)]] {
            for option in ["", "&fault=split", "&chunked=7b"] {
                let mut client = Client::connect(&server, settings);
                client.get(1, &format!("{target}{option}"));
                client.get(3, target);
                let mut seen = Vec::new();
                if !settings.is_empty() {
                    seen =
                        client.until(|seen| seen.iter().any(|one| matches!(one, Seen::Data(..))));
                    client.send(|output| {
                        writer::window_update(1, 1 << 20, output);
                        writer::window_update(3, 1 << 20, output);
                    });
                }
                seen.extend(client.streams(2));
                for stream in [1, 3] {
                    let content = seen.iter().filter_map(|one| match one {
                        Seen::Data(found, content, _) if *found == stream => Some(content.as_str()),
                        _ => None,
                    });
                    assert_eq!(
                        content.collect::<String>(),
                        expected,
                        "{option} {settings:?}"
                    );
                }
            }
        }
        let requests = server.stop().requests;
        // Frames have heads of nine bytes: for each byte, and for each seven.
        let at_least = |times: usize| {
            let bytes = (times * expected.len()) as u64;
            requests.iter().filter(|one| one.bytes >= bytes).count()
        };
        assert_eq!([at_least(10), at_least(2)], [2, 4]);
        let generated = requests.iter().filter_map(|one| one.generated.as_ref());
        assert_eq!(
            generated.map(|one| one.tokens).collect::<Vec<_>>(),
            [11; 13]
        );
    });
}

#[test]
fn a_generation_that_is_cut_or_fails_leaves_other_streams_alone() {
    let options = Options {
        log_requests: 100,
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server, &[]);
        client.get(1, "/?llm=openai&tokens=9&fault=hang-mid-body");
        client.get(3, "/?llm=openai&tokens=9&llm-error=3");
        client.get(5, "/?llm=openai&tokens=9&gap=2ms");
        client.streams(2);
        let requests = server.stop().requests;
        let found: Vec<_> = requests
            .iter()
            .filter_map(|one| one.generated.as_ref())
            .map(|one| (one.tokens, one.is_failed))
            .collect();
        assert_eq!(found, [(4, false), (3, true), (9, false)]);
    });
}

#[test]
fn recipes_mean_what_they_mean_over_http1() {
    on_each_backend(&Options::default(), |server| {
        for (target, expected) in [
            ("/?size=2&trailers", "200 ab+ |"),
            ("/?size=5&chunked=2", "200 abcde|"),
            ("/?status=404&size=1", "404 a|"),
            ("/?status=204", "204|"),
            ("/?interim=2&size=1", "103 103 200 a|"),
            (
                "/?size=x",
                "400 size: `x` is not a size: expected like 512, 100k or 64Ki\n|",
            ),
            ("/?http10", "400 http10: only HTTP/1 has it\n|"),
        ] {
            let mut client = Client::connect(&server, &[]);
            client.get(1, target);
            let mut text = String::new();
            for seen in of_responses(client.streams(1)) {
                match seen {
                    Seen::Head(_, status, ends) if status.is_empty() => {
                        text += if ends { "+ |" } else { "+" };
                    }
                    Seen::Head(_, status, ends) => {
                        text += if text.is_empty() { "" } else { " " };
                        text += &status;
                        text += if ends { "|" } else { "" };
                    }
                    Seen::Data(_, content, ends) => {
                        text += " ";
                        text += &content;
                        text += if ends { "|" } else { "" };
                    }
                    other => panic!("{other:?}"),
                }
            }
            if target == "/?size=x" {
                assert!(text.starts_with("400 size: `x`"), "{text}");
                continue;
            }
            assert_eq!(text, expected, "{target}");
        }
    });
}

#[test]
fn a_smaller_table_of_the_client_is_confirmed_in_the_next_block() {
    on_each_backend(&defaults("size=1"), |server| {
        let mut client = Client::connect(&server, &[(id::HEADER_TABLE_SIZE, 0)]);
        client.until(|seen| seen.contains(&Seen::SettingsAck));
        // From now on it refuses a block that does not begin with the new size.
        client.decoder.set_capacity_max(0);
        client.get(1, "/");
        assert_eq!(of_responses(client.streams(1)), ok(1, "a"));
    });
}

#[test]
fn content_keeps_to_both_windows_also_when_settings_make_them_negative() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server, &[(id::INITIAL_WINDOW_SIZE, 10)]);
        client.get(1, "/?size=26");
        let content = |seen: &[Seen]| -> String {
            let contents = seen.iter().filter_map(|seen| match seen {
                Seen::Data(_, content, _) => Some(content.as_str()),
                _ => None,
            });
            contents.collect()
        };
        let seen = client.until(|seen| content(seen).len() >= 10);
        assert_eq!(content(&seen), "abcdefghij");
        // The window is -5 now, and 1 after the update.
        client.send(|output| {
            writer::settings([(id::INITIAL_WINDOW_SIZE, 5)], output);
            writer::window_update(1, 6, output);
            writer::ping([0; 8], false, output);
        });
        let seen = client.until(|seen| content(seen).len() == 1 && seen.contains(&Seen::Pong));
        assert_eq!(content(&seen), "k");
        client.send(|output| writer::window_update(1, 1_000, output));
        assert_eq!(content(&client.streams(1)), "lmnopqrstuvwxyz");

        // The window of the connection: 26 bytes are used.
        client.send(|output| writer::settings([(id::INITIAL_WINDOW_SIZE, 1 << 20)], output));
        client.get(3, "/?size=70k");
        let seen = client.until(|seen| content(seen).len() >= 65_535 - 26);
        assert_eq!(content(&seen).len(), 65_535 - 26);
        client.send(|output| writer::window_update(0, 100_000, output));
        assert_eq!(content(&client.streams(1)).len(), 70_000 - 65_535 + 26);
    });
}

#[test]
fn bodies_of_requests_are_read_with_padding_trailers_and_expectations() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server, &[]);
        client.send(|output| {
            let fields = [("content-length", "5"), ("expect", "100-continue")];
            let block = head("POST", "/?echo", &fields);
            writer::headers(1, &block, false, 10, output);
        });
        let seen = client.until(|seen| seen.iter().any(Seen::is_of_response));
        let interim = Seen::Head(1, "100".to_owned(), false);
        assert_eq!(of_responses(seen), [interim]);
        client.send(|output| {
            writer::padded(kind::DATA, 0, 1, b"hel", 9, output);
            writer::data(1, b"lo", false, output);
            writer::headers(1, &block(&[("x-sum", "1")]), true, 16_384, output);
        });
        assert_eq!(of_responses(client.streams(1)), ok(1, "hello"));

        client.send(|output| {
            let block = head("HEAD", "/?size=5", &[]);
            writer::headers(3, &block, true, 16_384, output);
        });
        let bare = Seen::Head(3, "200".to_owned(), true);
        assert_eq!(of_responses(client.streams(1)), [bare]);
    });
}

#[test]
fn a_connection_may_arrive_byte_by_byte() {
    on_each_backend(&defaults("size=1"), |server| {
        let mut client = Client::silent(&server);
        let mut bytes = PREFACE.to_vec();
        writer::settings([], &mut bytes);
        let request = head("POST", "/?echo", &[]);
        writer::headers(1, &request, false, 7, &mut bytes);
        writer::padded(kind::DATA, flag::END_STREAM, 1, b"xy", 2, &mut bytes);
        for byte in bytes {
            client.stream.write_all(&[byte]).unwrap();
        }
        assert_eq!(of_responses(client.streams(1)), ok(1, "xy"));
        assert_eq!(server.counts().requests, 1);
    });
}

#[test]
fn what_breaks_a_rule_of_the_connection_is_goaway_and_the_end() {
    type Write = fn(&mut Vec<u8>);
    let cases: [(&str, ErrorCode, Write); 12] = [
        ("DATA for no stream", ErrorCode::PROTOCOL_ERROR, |output| {
            writer::data(1, b"x", true, output);
        }),
        ("an even stream", ErrorCode::PROTOCOL_ERROR, |output| {
            get(2, "/", output)
        }),
        ("a stream twice", ErrorCode::STREAM_CLOSED, |output| {
            get(1, "/?fault=hang", output);
            get(1, "/", output);
        }),
        (
            "a window too large",
            ErrorCode::FLOW_CONTROL_ERROR,
            |output| {
                writer::window_update(0, (1 << 31) - 1, output);
            },
        ),
        (
            "a window update of 0",
            ErrorCode::PROTOCOL_ERROR,
            |output| {
                writer::window_update(0, 0, output);
            },
        ),
        ("a frame too long", ErrorCode::FRAME_SIZE_ERROR, |output| {
            writer::data(1, &[0; 16_385], true, output);
        }),
        ("a bad block", ErrorCode::COMPRESSION_ERROR, |output| {
            writer::headers(1, &[0xff, 0x80, 0x01], true, 16_384, output);
        }),
        ("a lone CONTINUATION", ErrorCode::PROTOCOL_ERROR, |output| {
            writer::frame(kind::CONTINUATION, 0, 1, b"", output);
        }),
        ("PUSH_PROMISE", ErrorCode::PROTOCOL_ERROR, |output| {
            writer::push_promise(1, 2, &head("GET", "/", &[]), 16_384, output);
        }),
        (
            "RST_STREAM for no stream",
            ErrorCode::PROTOCOL_ERROR,
            |output| {
                writer::reset(1, ErrorCode::CANCEL, output);
            },
        ),
        ("a bad setting", ErrorCode::PROTOCOL_ERROR, |output| {
            writer::settings([(id::ENABLE_PUSH, 2)], output);
        }),
        (
            "a flood of CONTINUATION",
            ErrorCode::ENHANCE_YOUR_CALM,
            |output| {
                writer::frame(kind::HEADERS, 0, 1, b"", output);
                for _ in 0..300 {
                    writer::frame(kind::CONTINUATION, 0, 1, b"", output);
                }
            },
        ),
    ];
    on_each_backend(&Options::default(), |server| {
        for (what, code, write) in &cases {
            let mut client = Client::connect(&server, &[]);
            let mut bytes = Vec::new();
            write(&mut bytes);
            // The server may close before it has read all.
            let _ = client.stream.write_all(&bytes);
            let seen = client.until_end();
            let is_it = |seen: &Seen| matches!(seen, Seen::Goaway(_, found) if found == code);
            assert!(seen.iter().any(is_it), "{what}: {seen:?}");
        }
        let mut early = Client::silent(&server);
        early.send(|output| {
            output.extend_from_slice(PREFACE);
            writer::ping([0; 8], false, output);
        });
        let seen = early.until_end();
        assert_eq!(
            seen.last(),
            Some(&Seen::Goaway(0, ErrorCode::PROTOCOL_ERROR))
        );
        assert_eq!(server.counts().refused as usize, cases.len() + 1);
    });
}

#[test]
fn what_breaks_a_rule_of_a_stream_resets_it_and_the_connection_goes_on() {
    let wrong: [(&str, Vec<u8>, &[u8]); 6] = [
        (
            "no :path",
            block(&[(":method", "GET"), (":scheme", "http")]),
            b"",
        ),
        ("an upper-case name", head("GET", "/", &[("X-A", "1")]), b""),
        (
            "a field of HTTP/1.1",
            head("GET", "/", &[("connection", "close")]),
            b"",
        ),
        ("te", head("GET", "/", &[("te", "gzip")]), b""),
        (
            "a pseudo-header field late",
            head("GET", "/", &[("a", "1"), (":path", "/")]),
            b"",
        ),
        (
            "a wrong length",
            head("GET", "/", &[("content-length", "5")]),
            b"four",
        ),
    ];
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server, &[]);
        let mut stream = 1;
        for (what, block, content) in &wrong {
            client.send(|output| {
                writer::headers(stream, block, content.is_empty(), 16_384, output);
                if !content.is_empty() {
                    writer::data(stream, content, true, output);
                }
            });
            let seen = of_responses(client.streams(1));
            let expected = Seen::Reset(stream, ErrorCode::PROTOCOL_ERROR);
            assert_eq!(seen, [expected], "{what}");
            stream += 2;
        }
        client.get(stream, "/?size=1");
        assert_eq!(of_responses(client.streams(1)), ok(stream, "a"));
    });
}

#[test]
fn limits_are_announced_and_kept() {
    let options = Options {
        http2: Some(Http2Settings {
            streams_max: 2,
            window_bytes: 100,
        }),
        keepalive_requests: Some(4),
        ..defaults("size=1&delay=20ms")
    };
    on_each_backend(&options, |server| {
        let mut client = Client::connect(&server, &[]);
        client.send(|output| {
            for stream in [1, 3, 5] {
                get(stream, "/", output);
            }
        });
        let seen = client.streams(3);
        let announced = Seen::Settings(vec![
            (id::MAX_CONCURRENT_STREAMS, 2),
            (id::INITIAL_WINDOW_SIZE, 100),
        ]);
        assert!(seen.contains(&announced), "{seen:?}");
        assert!(
            seen.contains(&Seen::Reset(5, ErrorCode::REFUSED_STREAM)),
            "{seen:?}"
        );
        client.send(|output| {
            get(7, "/", output);
            get(9, "/", output);
        });
        let seen = client.until_end();
        // The fourth request is the last of the connection.
        assert!(
            seen.contains(&Seen::Goaway(9, ErrorCode::NO_ERROR)),
            "{seen:?}"
        );
        assert_eq!(seen.iter().filter(|seen| seen.ends_stream()).count(), 2);
        assert_eq!(server.counts().responses, 4);
    });
}

#[test]
fn a_client_that_only_asks_for_answers_to_pings_is_reset_in_the_end() {
    on_each_backend(&Options::default(), |server| {
        let mut client = Client::connect(&server, &[]);
        let mut pings = Vec::new();
        for _ in 0..10_000 {
            writer::ping([0; 8], false, &mut pings);
        }
        // 170 kB each; what is not read fills the sockets and then the server's limit.
        let is_reset = (0..2_000).any(|_| client.stream.write_all(&pings).is_err());
        assert!(is_reset);
    });
}

#[test]
fn faults_are_what_they_are_called() {
    on_each_backend(&Options::default(), |server| {
        let recipes = BTreeMap::from([
            (
                "close",
                (|seen| seen.contains(&Seen::Goaway(1, ErrorCode::NO_ERROR)))
                    as fn(&[Seen]) -> bool,
            ),
            ("fault=split", |seen| seen.ends_with(&ok(1, "abcdefghij"))),
            ("fault=drip", |seen| seen.ends_with(&ok(1, "abcdefghij"))),
            (
                "fault=truncate",
                |seen| matches!(seen, [.., Seen::Data(1, half, false)] if half == "abcde"),
            ),
            ("chunked&header=content-length:11", |seen| {
                seen.ends_with(&ok(1, "abcdefghij"))
            }),
        ]);
        for (recipe, is_it) in recipes {
            let mut client = Client::connect(&server, &[]);
            client.get(1, &format!("/?size=10&{recipe}"));
            while !is_it(&client.seen) {
                assert!(
                    client.read_more() || is_it(&client.seen),
                    "{recipe}: {:?}",
                    client.seen
                );
            }
        }
    });
}

#[test]
fn a_server_of_http1_refuses_the_preface() {
    let options = Options {
        http2: None,
        ..Options::default()
    };
    on_each_backend(&options, |server| {
        let mut client = Client::silent(&server);
        client.send(|output| output.extend_from_slice(PREFACE));
        let mut text = String::new();
        client.stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 505 "), "{text}");
        assert_eq!(server.counts().refused, 1);
    });
}
