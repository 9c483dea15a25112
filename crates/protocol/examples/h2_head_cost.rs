//! CPU time of decoding a header block of HTTP/2, with and without the memory of heads, and of
//! reading a response: `cargo run --release -p protocol --example h2_head_cost`.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement for developers, with a clock and a terminal of its own"
)]

use std::hint::black_box;
use std::time::Instant;

use protocol::Fields;
use protocol::h2::frame::Frame;
use protocol::h2::heads::{HeadDecoder, Heads};
use protocol::h2::hpack::encode::{Literal, field};
use protocol::h2::hpack::{Decoder, Limits};
use protocol::h2::reader::Reader;
use protocol::h2::writer;

const ROUNDS: u32 = 1_000_000;

/// A response of nginx. Its fields from `server` to `last-modified` are inserted into the table.
const RESPONSE: [(&str, &str); 8] = [
    (":status", "200"),
    ("server", "nginx/1.22.1"),
    ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ("content-type", "text/plain"),
    ("content-length", "63"),
    ("last-modified", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ("etag", "\"65a0b1c2-3f\""),
    ("accept-ranges", "bytes"),
];

fn main() {
    let nginx = inserting();
    println!("nginx: {} bytes, five insertions", nginx.len());
    print("decoded", plain_ns(&nginx, &[]));
    print("remembered", remembered_ns(&[&nginx], &[]));
    // More blocks than are remembered.
    let with_number = |number| [nginx.as_slice(), &number_field(number)].concat();
    let many: Vec<_> = (0..17).map(with_number).collect();
    let many: Vec<_> = many.iter().map(Vec::as_slice).collect();
    print("never remembered", remembered_ns(&many, &[]));
    print("one of eight", remembered_ns(&many[..8], &[]));

    let indexed: Vec<u8> = [0x88]
        .into_iter()
        .chain((62..67).map(|index| 0x80 | index))
        .collect();
    println!("nghttpd: {} bytes, five references", indexed.len());
    print("decoded", plain_ns(&indexed, &nginx));
    print("remembered", remembered_ns(&[&indexed], &nginx));

    println!("response of a head and 63 bytes in DATA");
    print("frames", frames_ns(&nginx));
}

fn print(what: &str, ns: f64) {
    println!("  {what:20} {ns:8.1} ns");
}

fn inserting() -> Vec<u8> {
    let mut block = Vec::new();
    for (at, (name, value)) in RESPONSE.iter().enumerate() {
        let literal = if at < 6 {
            Literal::Indexed
        } else {
            Literal::Unindexed
        };
        field(name.as_bytes(), value.as_bytes(), literal, &mut block);
    }
    block
}

fn number_field(number: u32) -> Vec<u8> {
    let mut block = Vec::new();
    field(
        b"x-number",
        number.to_string().as_bytes(),
        Literal::Unindexed,
        &mut block,
    );
    block
}

fn plain_ns(block: &[u8], first: &[u8]) -> f64 {
    let mut decoder = Decoder::new(Limits::default());
    let mut fields = Fields::default();
    decoder
        .decode(first, &mut fields)
        .expect("the block is good");
    per_round(|_| {
        decoder
            .decode(black_box(block), &mut fields)
            .expect("the block is good");
        black_box(&fields);
    })
}

fn remembered_ns(blocks: &[&[u8]], first: &[u8]) -> f64 {
    let mut heads = Heads::new(Limits::default());
    let mut decoder = HeadDecoder::new(&heads);
    let mut read = |block: &[u8]| {
        let head = decoder.read(&mut heads, black_box(block), |fields, _| fields.len());
        black_box(head.expect("the block is good"));
    };
    read(first);
    per_round(|round| read(blocks[round as usize % blocks.len()]))
}

fn frames_ns(block: &[u8]) -> f64 {
    let mut input = Vec::new();
    writer::headers(1, block, false, 16_384, &mut input);
    writer::data(1, &[b'.'; 63], true, &mut input);
    let mut reader = Reader::new(16_384);
    per_round(|_| {
        let mut rest = black_box(input.as_slice());
        while let Some(frame) = reader.next(&mut rest).expect("the frames are good") {
            if let Frame::Data(data) = &frame {
                black_box(data.flow_bytes());
            }
            black_box(frame);
        }
    })
}

fn per_round(mut work: impl FnMut(u32)) -> f64 {
    let started = Instant::now();
    (0..ROUNDS).for_each(&mut work);
    started.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
}
