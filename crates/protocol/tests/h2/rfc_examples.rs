//! The examples of RFC 7541 appendix C.

use protocol::h2::hpack::{Decoder, Limits};

use crate::blocks::{Block, Pairs, decode};
use crate::hex::bytes;

const AUTHORITY: (&str, &str) = (":authority", "www.example.com");
const OLD_DATE: (&str, &str) = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
const NEW_DATE: (&str, &str) = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
const LOCATION: (&str, &str) = ("location", "https://www.example.com");
const PRIVATE: (&str, &str) = ("cache-control", "private");
const COOKIE: (&str, &str) = (
    "set-cookie",
    "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
);

/// Decodes blocks of one connection and compares their fields.
fn check(decoder: &mut Decoder, blocks: &[(&str, &[(&str, &str)])]) {
    for (digits, fields) in blocks {
        let expected: Pairs = fields
            .iter()
            .map(|(n, v)| ((*n).into(), (*v).into()))
            .collect();
        let (found, _) = decode(decoder, &bytes(digits)).expect("a valid block");
        assert_eq!(found, expected, "{digits}");
    }
}

fn decoder() -> Decoder {
    Decoder::new(Limits::default())
}

/// A decoder with a table of 256 bytes, as in appendices C.5 and C.6.
fn small_decoder() -> Decoder {
    let mut decoder = decoder();
    decode(&mut decoder, &Block::default().size(256).0).expect("a size is a valid block");
    decoder
}

#[test]
fn c_2_each_representation() {
    let path = (":path", "/sample/path");
    let one = |digits, field| check(&mut decoder(), &[(digits, &[field])]);
    let custom = ("custom-key", "custom-header");
    one(
        "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
        custom,
    );
    one("040c 2f73 616d 706c 652f 7061 7468", path);
    one(
        "1008 7061 7373 776f 7264 0673 6563 7265 74",
        ("password", "secret"),
    );
    one("82", (":method", "GET"));
}

#[test]
fn c_3_and_c_4_requests_without_and_with_huffman() {
    let get = (":method", "GET");
    let first = [get, (":scheme", "http"), (":path", "/"), AUTHORITY];
    let second = [first.as_slice(), &[("cache-control", "no-cache")]].concat();
    let third = [
        get,
        (":scheme", "https"),
        (":path", "/index.html"),
        AUTHORITY,
        ("custom-key", "custom-value"),
    ];
    let plain = [
        (
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            first.as_slice(),
        ),
        ("8286 84be 5808 6e6f 2d63 6163 6865", &second),
        (
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            &third,
        ),
    ];
    check(&mut decoder(), &plain);
    let huffman = [
        (
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            first.as_slice(),
        ),
        ("8286 84be 5886 a8eb 1064 9cbf", &second),
        (
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            &third,
        ),
    ];
    check(&mut decoder(), &huffman);
}

#[test]
fn c_5_and_c_6_responses_that_evict_entries() {
    let first = [(":status", "302"), PRIVATE, OLD_DATE, LOCATION];
    let second = [(":status", "307"), PRIVATE, OLD_DATE, LOCATION];
    let gzip = ("content-encoding", "gzip");
    let third = [
        (":status", "200"),
        PRIVATE,
        NEW_DATE,
        LOCATION,
        gzip,
        COOKIE,
    ];
    let plain = [
        (
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
             2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
             6c65 2e63 6f6d",
            first.as_slice(),
        ),
        ("4803 3330 37c1 c0bf", &second),
        (
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
             54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
             5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
             3d31",
            &third,
        ),
    ];
    check(&mut small_decoder(), &plain);
    let huffman = [
        (
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
             2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            first.as_slice(),
        ),
        ("4883 640e ffc1 c0bf", &second),
        (
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
             77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
             9587 3160 65c0 03ed 4ee5 b106 3d50 07",
            &third,
        ),
    ];
    check(&mut small_decoder(), &huffman);
}
