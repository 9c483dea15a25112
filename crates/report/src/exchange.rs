//! One exchange as text, for `--once`.

use std::io::{self, Write};

use plan::readable::{counted, time_ns};
use plan::{printable, printable_json, printable_lines};
use results::exchange::{
    Attempt, CertificateFacts, Exchange, ExchangePhases, ReceivedResponse, TlsFacts,
};

use crate::status::meaning;

/// Bytes of a body that are shown.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Writes an exchange: lines with `*` are about the connection, `>` is what was sent, `<` what was
/// received.
///
/// # Errors
/// Those of the writer.
pub fn render(exchange: &Exchange, output: &mut dyn Write) -> io::Result<()> {
    for Attempt { address, error } in &exchange.attempts {
        match error {
            None => writeln!(output, "* connected to {address}")?,
            Some(error) => writeln!(output, "* {address}: {}", printable(error))?,
        }
    }
    if let Some(tls) = &exchange.tls {
        render_tls(tls, output)?;
    }
    if let Some(certificate) = &exchange.refused_certificate {
        render_certificate(certificate, "refused", output)?;
    }
    let version = match exchange.protocol {
        "gRPC" => "HTTP/2",
        "gRPC over HTTP/3" => "HTTP/3",
        other => other,
    };
    let request = &exchange.request;
    let is_connected = exchange
        .attempts
        .last()
        .is_some_and(|it| it.error.is_none());
    if is_connected {
        let (method, target) = (printable(&request.method), printable(&request.target));
        writeln!(output, "> {method} {target} {version}")?;
        render_headers('>', &request.headers, output)?;
        render_body(&request.body, &request.headers, output)?;
    }
    if let Some(response) = &exchange.response {
        let ReceivedResponse {
            status,
            headers,
            body,
            messages,
            ..
        } = response;
        writeln!(output, "< {version} {status} {}", meaning(*status))?;
        render_headers('<', headers, output)?;
        if messages.is_empty() {
            render_body(body, headers, output)?
        } else {
            render_messages(messages, output)?
        }
    }
    for line in exchange.unreadable.iter().flat_map(|text| text.lines()) {
        writeln!(output, "< {}", printable(line))?;
    }
    render_phases(&exchange.phases, output)
}

/// Writes an exchange as one JSON document: the names of its fields are those of [`Exchange`],
/// times are nanoseconds, and a body that is not text is `{"base64": ...}`.
///
/// # Errors
/// Those of the writer.
pub fn render_json(exchange: &Exchange, output: &mut dyn Write) -> io::Result<()> {
    let text = serde_json::to_string_pretty(exchange)?;
    writeln!(output, "{}", printable_json(&text))
}

fn render_tls(tls: &TlsFacts, output: &mut dyn Write) -> io::Result<()> {
    let alpn = match &tls.alpn {
        Some(name) => format!("ALPN {}", printable(name)),
        None => "no ALPN".to_owned(),
    };
    writeln!(output, "* {}, {}, {alpn}", tls.version, tls.cipher)?;
    let Some(certificate) = &tls.certificate else {
        return Ok(());
    };
    let verified = if tls.is_verified {
        "verified"
    } else {
        "not verified (--verify)"
    };
    render_certificate(certificate, verified, output)
}

fn render_certificate(
    certificate: &CertificateFacts,
    verified: &str,
    output: &mut dyn Write,
) -> io::Result<()> {
    writeln!(output, "* certificate: {}, {verified}", certificate.subject)?;
    if !certificate.names.is_empty() {
        writeln!(output, "*   for {}", certificate.names.join(", "))?;
    }
    writeln!(output, "*   issued by {}", certificate.issuer)?;
    let (from, to) = (&certificate.not_before, &certificate.not_after);
    writeln!(output, "*   valid from {from} to {to} UTC")
}

fn render_headers(
    mark: char,
    headers: &[(String, String)],
    output: &mut dyn Write,
) -> io::Result<()> {
    for (name, value) in headers {
        writeln!(output, "{mark} {}: {}", printable(name), printable(value))?;
    }
    writeln!(output, "{mark}")
}

/// A body if it is text, up to a limit; otherwise what it is.
fn render_body(
    body: &[u8],
    headers: &[(String, String)],
    output: &mut dyn Write,
) -> io::Result<()> {
    if body.is_empty() {
        return Ok(());
    }
    let all = counted(body.len() as u64, "byte");
    let coding = headers
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("content-encoding"));
    if let Some((_, coding)) = coding {
        return writeln!(output, "({all} in the coding {})", printable(coding));
    }
    let shown = &body[..body.len().min(BODY_BYTES_MAX)];
    let text = match std::str::from_utf8(shown) {
        Ok(text) => text,
        // The limit may lie within a character.
        Err(error) if error.error_len().is_none() && shown.len() < body.len() => {
            std::str::from_utf8(&shown[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return writeln!(output, "({all} that are not text)"),
    };
    let is_text = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    if !text.chars().all(is_text) {
        return writeln!(output, "({all} that are not text)");
    }
    let shown = text.strip_suffix('\n').unwrap_or(text);
    writeln!(output, "{}", printable_lines(shown))?;
    match body.len() - text.len() {
        0 => Ok(()),
        rest => writeln!(output, "(and {} more)", counted(rest as u64, "byte")),
    }
}

/// The messages of a gRPC call as JSON, up to a limit.
fn render_messages(messages: &[serde_json::Value], output: &mut dyn Write) -> io::Result<()> {
    const SHOWN: usize = 100;
    for message in messages.iter().take(SHOWN) {
        let text = serde_json::to_string_pretty(message)?;
        writeln!(output, "{}", printable_json(&text))?;
    }
    match messages.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        rest => writeln!(output, "(and {} more)", counted(rest as u64, "message")),
    }
}

fn render_phases(phases: &ExchangePhases, output: &mut dyn Write) -> io::Result<()> {
    writeln!(output)?;
    let steps = [
        ("name lookup", phases.lookup_ns),
        ("connect", phases.connect_ns),
        ("proxy", phases.proxy_ns),
        ("TLS handshake", phases.tls_ns),
        ("send", phases.send_ns),
        ("first byte", phases.first_byte_ns),
        ("rest", phases.rest_ns),
        ("whole", Some(phases.whole_ns)),
    ];
    for (name, step_ns) in steps {
        if let Some(step_ns) = step_ns {
            writeln!(output, "{name:<13}  {:>10}", time_ns(step_ns))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::exchange::SentRequest;

    fn rendered(exchange: &Exchange) -> String {
        let mut output = Vec::new();
        render(exchange, &mut output).expect("memory takes every write");
        String::from_utf8(output).expect("it is text")
    }

    fn exchange(body: &[u8]) -> Exchange {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Exchange {
            protocol: "HTTP/1.1",
            attempts: vec![Attempt {
                address: "127.0.0.1:80".to_owned(),
                error: None,
            }],
            request: SentRequest {
                method: "GET".to_owned(),
                target: "/".to_owned(),
                headers: vec![pair("Host", "h")],
                body: Vec::new(),
            },
            response: Some(ReceivedResponse {
                status: 404,
                headers: vec![pair("X", "a\u{1b}[1mb")],
                body: body.to_vec(),
                messages: Vec::new(),
                bytes: 10,
            }),
            phases: ExchangePhases {
                connect_ns: Some(1_500_000),
                whole_ns: 2_000_000,
                ..ExchangePhases::default()
            },
            ..Exchange::default()
        }
    }

    #[test]
    fn an_exchange_is_shown_with_what_was_sent_received_and_how_long_it_took() {
        let expected = "* connected to 127.0.0.1:80\n> GET / HTTP/1.1\n> Host: h\n>\n\
            < HTTP/1.1 404 Not Found\n< X: a?[1mb\n<\nhello\n\n\
            connect            1.5 ms\nwhole                2 ms\n";
        assert_eq!(rendered(&exchange(b"hello\n")), expected);
    }

    #[test]
    fn what_is_no_response_is_shown_as_it_arrived() {
        let exchange = Exchange {
            response: None,
            unreadable: Some("HTTP/1.1 200 OK\r\nbad\u{1b} line\r\n\r\n".to_owned()),
            ..exchange(b"")
        };
        let shown = rendered(&exchange);
        let said = ">\n< HTTP/1.1 200 OK\n< bad? line\n< \n\nconnect";
        assert!(shown.contains(said), "{shown}");
    }

    #[test]
    fn a_body_cannot_change_the_direction_of_text_and_the_document_keeps_it() {
        let exchange = exchange("a\u{202e}b\r\n\tc".as_bytes());
        let shown = rendered(&exchange);
        assert!(shown.contains("\na?b\n\tc\n"), "{shown}");
        let mut bytes = Vec::new();
        render_json(&exchange, &mut bytes).expect("memory takes every write");
        let text = String::from_utf8(bytes).expect("it is text");
        let may = |c: char| plan::is_printable(c) || c == '\n';
        assert!(text.chars().all(may), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!(read["response"]["body"], "a\u{202e}b\r\n\tc");
        assert_eq!(read["response"]["headers"][0][1], "a\u{1b}[1mb");
    }

    #[test]
    fn a_body_that_is_not_text_or_too_long_is_not_shown_as_a_whole() {
        assert!(rendered(&exchange(b"a\xff")).contains("\n(2 bytes that are not text)\n"));
        assert!(rendered(&exchange(b"a\x1b[1m")).contains("\n(5 bytes that are not text)\n"));
        let long = "\u{e4}".repeat(BODY_BYTES_MAX);
        let shown = rendered(&exchange(format!("a{long}").as_bytes()));
        assert!(
            shown.contains("\n(and 16,386 bytes more)\n"),
            "{}",
            &shown[shown.len() - 200..]
        );
    }
}
