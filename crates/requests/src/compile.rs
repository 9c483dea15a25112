//! Turns the requests of a file into bytes with gaps.

use std::collections::HashMap;
use std::rc::Rc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use grpc::Schema;
use plan::{RequestOrder, Target, check_header};
use protocol::request;

use crate::call::{Chunk, Methods, lengths, of_text};
use crate::capture::{Capture, Use};
use crate::conversations::Conversation;
use crate::csv::Table;
use crate::entry::{Header, Inputs, RequestEntry, each_entry};
use crate::error::{Fault, FileError, quoted};
use crate::moments::{Arrival, MAX_ARRIVALS, in_order, too_many};
use crate::pieces::Pieces;
use crate::scope::Scope;
use crate::set::{Compiled, Filling, Gap, MAX_HOSTS, MAX_NAMES, RequestSet, UNNAMED};
use crate::template::{Piece, Template, Value};

/// What applies to the requests of a file unless they say otherwise.
#[derive(Debug, Clone, Copy, Default)]
pub struct Defaults<'a> {
    /// Where requests go that have only a path. `None`: where the first URL of the file goes.
    pub target: Option<&'a Target>,
    /// Headers that a request gets if it has none of the same name. Their values may have
    /// templates.
    pub headers: &'a [(String, String)],
    /// Set if requests are gRPC calls.
    pub calls: Option<Calls<'a>>,
    /// Whether a URL with another host than the first one is allowed.
    pub own_hosts: bool,
    /// `None`: weighted if a request has a weight, otherwise in sequence.
    pub order: Option<RequestOrder>,
}

/// How the messages of gRPC calls are given.
#[derive(Debug, Clone, Copy)]
pub struct Calls<'a> {
    /// The types of messages in JSON. Without it, the file has them, or messages are bytes.
    pub types: Option<&'a Schema>,
}

/// The most bytes of all requests together.
const MAX_SET_BYTES: usize = 1 << 30;

/// The most gaps of all requests together.
const MAX_GAPS: usize = u32::MAX as usize;

/// The longest name of a request.
pub(crate) const MAX_NAME_BYTES: usize = 200;

/// Reads a request file whose requests have no moments.
///
/// # Errors
/// What is wrong, with line and column.
pub fn load(inputs: &Inputs<'_>, defaults: &Defaults<'_>) -> Result<RequestSet, FileError> {
    let mut compiler = Compiler::new(defaults);
    let scope = each_entry(inputs, &mut |entry, scope| {
        if let Some(due) = entry.due {
            let problem = match compiler.len() {
                0 => "requests with moments (at) set the rate (remove -R and --stages)",
                _ => "the request has a moment (at), and those before it have none",
            };
            return Err(Fault::new(due.at, problem));
        }
        compiler.add(entry, scope)
    })?;
    compiler
        .finish(scope.tables, defaults.order)
        .map_err(|fault| fault.in_file(inputs.file, inputs.text))
}

/// Reads a request file whose requests all have a moment, and replays them `speed` times as fast.
///
/// # Errors
/// What is wrong, with line and column.
pub fn load_with_moments(
    inputs: &Inputs<'_>,
    defaults: &Defaults<'_>,
    speed: f64,
) -> Result<RequestSet, FileError> {
    let mut compiler = Compiler::new(defaults);
    let mut arrivals: Vec<Arrival> = Vec::new();
    let scope = each_entry(inputs, &mut |entry, scope| {
        let Some(due) = entry.due else {
            let problem = if arrivals.is_empty() {
                "the request has no moment (key at), which --speed needs"
            } else {
                "the request has no moment (key at), and those before it have one"
            };
            return Err(Fault::new(entry.at, problem));
        };
        if entry.weight.is_some() {
            let problem = "a request has a moment (at) or a weight, but not both";
            return Err(Fault::new(due.at, problem));
        }
        if !entry.captures.is_empty() {
            let problem = "a request with a moment (at) cannot capture a value: it is sent at its \
                           moment, whether the response before it has arrived or not";
            return Err(Fault::new(due.at, problem));
        }
        if arrivals.len() >= MAX_ARRIVALS {
            return Err(Fault::new(due.at, too_many("moments")));
        }
        arrivals.push(Arrival {
            unix_ns: due.ns,
            request: compiler.len() as u32,
            status: 0,
            is_exact: true,
        });
        compiler.add(entry, scope)
    })?;
    let set = compiler.finish(scope.tables, defaults.order);
    let set = set.map_err(|fault| fault.in_file(inputs.file, inputs.text))?;
    Ok(set.with_recorded(in_order(arrivals, speed)))
}

pub(crate) struct Compiler<'a> {
    defaults: &'a Defaults<'a>,
    /// The default headers, once there is a request.
    default_headers: Option<Rc<[Header]>>,
    methods: Methods,
    hosts: Vec<Target>,
    bytes: Pieces,
    requests: Vec<Compiled>,
    gaps: Vec<Gap>,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    /// Empty, or by request. They begin with the first request that has one.
    weights: Vec<u64>,
    has_names: bool,
    captures: Vec<Vec<Capture>>,
    conversations: Vec<Conversation>,
    uses: Vec<Use>,
}

/// The target of a request's URL, if it is absolute, and its path.
pub(crate) fn address(entry: &RequestEntry) -> Result<(Option<Target>, Template), Fault> {
    let fault = |message: String| Fault::new(entry.address_at, message);
    let beginning = entry.address.beginning();
    let text = str::from_utf8(beginning).unwrap_or_default();
    if beginning.first() == Some(&b'/') {
        return Ok((None, entry.address.clone()));
    }
    let Some((_, rest)) = text.split_once("://") else {
        return Err(fault(format!(
            "{} is not a URL (expected like http://host:port/path, or a path like /users)",
            quoted(text)
        )));
    };
    let authority = text.len() - rest.len();
    let end = rest.find(['/', '?', '#']).map(|end| authority + end);
    let end = match end {
        Some(end) => end,
        None if entry.address.pieces.len() > 1 => {
            let problem = "a value that is made for each request cannot be in host or port";
            return Err(fault(problem.to_owned()));
        }
        None => text.len(),
    };
    let target = Target::parse(&text[..end]).map_err(|error| fault(error.to_string()))?;
    let mut path = if text[end..].starts_with('/') {
        Template::default()
    } else {
        Template::literal("/")
    };
    path.append(entry.address.clone().without_beginning(end));
    Ok((Some(target), path))
}

/// Scheme, host and port.
fn origin(target: &Target) -> String {
    let (scheme, port) = (target.scheme.name(), target.port_number());
    format!("{scheme}://{}:{port}", target.host.to_ascii_lowercase())
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(defaults: &'a Defaults<'a>) -> Self {
        Self {
            defaults,
            default_headers: None,
            methods: Methods::default(),
            hosts: defaults.target.cloned().into_iter().collect(),
            bytes: Pieces::default(),
            requests: Vec::new(),
            gaps: Vec::new(),
            names: Vec::new(),
            numbers: HashMap::new(),
            weights: Vec::new(),
            has_names: false,
            captures: Vec::new(),
            conversations: Vec::new(),
            uses: Vec::new(),
        }
    }

    /// Number of requests so far.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Fails if no request has said where requests go.
    pub(crate) fn finish(
        self,
        tables: Vec<Table>,
        order: Option<RequestOrder>,
    ) -> Result<RequestSet, Fault> {
        if self.hosts.is_empty() {
            return Err(Fault::new(0, "the file has no URL"));
        }
        let has_captures = !self.captures.is_empty();
        let has_weights = !self.weights.is_empty();
        if has_captures && has_weights {
            let problem = "captured values need requests in sequence (remove the weights)";
            return Err(Fault::new(0, problem));
        }
        if has_captures && order.is_some_and(|order| order != RequestOrder::Sequence) {
            let problem = "captured values need requests in sequence (remove --order)";
            return Err(Fault::new(0, problem));
        }
        let is_random = |gap: &Gap| {
            matches!(
                gap.filling,
                Filling::Value(Value::Uuid | Value::Rand { .. })
                    | Filling::Number {
                        value: Value::Rand { .. },
                        ..
                    }
            )
        };
        Ok(RequestSet {
            uses_random_values: self.gaps.iter().any(is_random),
            bytes: self.bytes.into_shared(),
            requests: self.requests,
            gaps: self.gaps,
            tables,
            names: if self.has_names {
                self.names
            } else {
                Vec::new()
            },
            order: order.unwrap_or(if has_weights {
                RequestOrder::Weighted
            } else {
                RequestOrder::Sequence
            }),
            weights: self.weights,
            hosts: self.hosts,
            recorded: None,
            captures: self.captures,
            conversations: self.conversations,
            uses: self.uses,
        })
    }

    /// Reads the templates of the default headers, once.
    pub(crate) fn read_default_headers(&mut self, scope: &mut Scope<'_>) -> Result<(), Fault> {
        if self.default_headers.is_none() {
            self.default_headers = Some(default_headers(self.defaults.headers, scope)?);
        }
        Ok(())
    }

    /// Adds a request. One that cannot be sent leaves nothing behind.
    pub(crate) fn add(&mut self, entry: RequestEntry, scope: &mut Scope<'_>) -> Result<(), Fault> {
        self.bytes.begin_request();
        let (begin, gaps) = (self.bytes.len(), self.gaps.len());
        let added = self.try_add(entry, scope);
        if added.is_err() {
            self.bytes.remove_from(begin);
            self.gaps.truncate(gaps);
        }
        added
    }

    fn try_add(&mut self, entry: RequestEntry, scope: &mut Scope<'_>) -> Result<(), Fault> {
        self.read_default_headers(scope)?;
        let (target, path) = address(&entry)?;
        let (host, target) = self.host(&entry, target)?;
        check_path(&path, entry.address_at, &scope.tables)?;
        for header in &entry.headers {
            check_field(header, &scope.tables)?;
        }
        let body = match self.defaults.calls {
            Some(calls) => {
                check_call(&entry)?;
                let types = calls.types.or(scope.types.as_ref());
                let message = self.methods.message(&entry, &path, types, &scope.tables);
                Some(message?)
            }
            None if entry.is_call => {
                let problem = "call and message are for gRPC (add --grpc)";
                return Err(Fault::new(entry.at, problem));
            }
            None => entry.body.as_ref().map(of_text),
        };
        self.note_uses(&entry, &path, body.as_deref(), scope);
        let (begin, first_gap) = (self.bytes.len(), self.gaps.len());
        self.put(match self.defaults.calls {
            Some(_) => b"POST",
            None => entry.method.as_bytes(),
        });
        self.put(b" ");
        self.put_template(&path);
        self.put(b" HTTP/1.1\r\n");
        let body_bytes = self.put_fields(&entry, &target, body.as_deref());
        self.put_chunks(body.as_deref().unwrap_or_default());
        if self.bytes.len() > MAX_SET_BYTES || self.gaps.len() > MAX_GAPS {
            let problem = "the requests are larger than 1 GiB together";
            return Err(Fault::new(entry.at, problem));
        }
        let name = self.name(&entry)?;
        let compiled = Compiled {
            begin: begin as u32,
            end: self.bytes.len() as u32,
            first_gap: first_gap as u32,
            gaps: (self.gaps.len() - first_gap) as u32,
            name,
            host,
            body_bytes: body_bytes as u32,
        };
        let text = self.bytes.request_from(begin);
        check_sample(&sample(text, &compiled, &self.gaps[first_gap..]))
            .map_err(|message| Fault::new(entry.at, message))?;
        let conversation = self.conversation(&entry, first_gap)?;
        self.requests.push(compiled);
        self.conversations.extend(conversation);
        self.note_captures(entry.captures);
        self.note_weight(entry.weight);
        Ok(())
    }

    /// The conversation of a request, whose gaps are the last ones.
    fn conversation(
        &self,
        entry: &RequestEntry,
        first_gap: usize,
    ) -> Result<Option<Conversation>, Fault> {
        let refuse = |problem: &str| Err(Fault::new(entry.at, problem));
        let is_value = |gap: &Gap, value| gap.filling == Filling::Value(value);
        let has = |value| {
            let mut gaps = self.gaps[first_gap..].iter();
            gaps.any(|gap| is_value(gap, value))
        };
        if !entry.captures.is_empty() && entry.conversation.is_some() {
            return refuse("a request of a conversation cannot capture a value");
        }
        if self.hosts.len() > 1 && entry.conversation.is_some() {
            return refuse("conversations are with one host");
        }
        match &entry.conversation {
            None if has(Value::Conversation) || has(Value::ConversationId) => {
                refuse("{{$conversation}} needs a conversation (key conversation)")
            }
            Some(_) if !has(Value::Conversation) => {
                refuse("the body of a request with a conversation has {{$conversation}}")
            }
            found if self.requests.is_empty() || found.is_some() == self.is_of_conversations() => {
                Ok(found.clone())
            }
            _ => refuse("either all requests of a file have a conversation, or none"),
        }
    }

    fn is_of_conversations(&self) -> bool {
        !self.conversations.is_empty()
    }

    /// Notes what the last request captures. Of most files, no request captures anything.
    fn note_captures(&mut self, captures: Vec<Capture>) {
        if !(self.captures.is_empty() && captures.is_empty()) {
            self.captures.resize(self.requests.len() - 1, Vec::new());
            self.captures.push(captures);
        }
    }

    /// Notes the weight of the last request: the sum of all so far. In most files, no request has
    /// one. Without one it is 1.
    fn note_weight(&mut self, weight: Option<u32>) {
        if self.weights.is_empty() && weight.is_some() {
            self.weights = (1..self.requests.len() as u64).collect();
        }
        if !self.weights.is_empty() || weight.is_some() {
            let before = self.weights.last().copied().unwrap_or_default();
            self.weights.push(before + u64::from(weight.unwrap_or(1)));
        }
    }

    /// Notes where the request uses captured values.
    fn note_uses(
        &mut self,
        entry: &RequestEntry,
        path: &Template,
        body: Option<&[Chunk]>,
        scope: &Scope<'_>,
    ) {
        self.uses.resize(scope.captured.len(), Use::default());
        for chunk in body.unwrap_or_default() {
            if let Chunk::Gap {
                filling:
                    Filling::Number {
                        value: Value::Captured { variable },
                        form,
                    },
                ..
            } = chunk
            {
                self.uses[*variable as usize].as_numbers.push(*form);
            }
        }
        for variable in path.captured() {
            self.uses[variable as usize].in_path = true;
        }
        for variable in entry.headers.iter().flat_map(|it| it.value.captured()) {
            self.uses[variable as usize].in_header = true;
        }
    }

    /// Host, the headers, Content-Length and the empty line. Returns the length of the body without
    /// its values.
    fn put_fields(
        &mut self,
        entry: &RequestEntry,
        target: &Target,
        body: Option<&[Chunk]>,
    ) -> usize {
        let defaults = self.default_headers.clone().unwrap_or_default();
        let has = |name: &str| entry.headers.iter().any(|header| is(&header.name, name));
        let lacking = defaults.iter().filter(|header| !has(&header.name));
        // As in curl, explicit headers have precedence over what the URL implies.
        let is_given = match entry.address.beginning().first() {
            // The URL of the command line, whose headers have precedence over it.
            Some(b'/') => defaults.iter().any(|it| is(&it.name, "Authorization")),
            _ => false,
        };
        let credentials = target.credentials();
        let credentials = credentials.filter(|_| !is_given && !has("Authorization"));
        let authorization = credentials.map(|credentials| Header {
            name: "Authorization".to_owned(),
            value: Template::literal(format!("Basic {}", BASE64_STANDARD.encode(credentials))),
            at: 0,
        });
        let lacking =
            lacking.filter(|header| authorization.is_none() || !is(&header.name, "Authorization"));
        let headers: Vec<&Header> = entry
            .headers
            .iter()
            .chain(&authorization)
            .chain(lacking)
            .collect();
        self.put(b"Host: ");
        match headers.iter().rev().find(|header| is(&header.name, "Host")) {
            Some(header) => self.put_template(&header.value),
            None => self.put(target.host_header.as_bytes()),
        }
        self.put(b"\r\n");
        let mut is_coded = false;
        for header in headers {
            is_coded |= is(&header.name, "Transfer-Encoding");
            if is(&header.name, "Host") || is(&header.name, "Content-Length") {
                continue;
            }
            self.put(header.name.as_bytes());
            self.put(b": ");
            self.put_template(&header.value);
            self.put(b"\r\n");
        }
        let body_bytes = body.map_or(0, |body| self.put_length(body, is_coded));
        self.put(b"\r\n");
        body_bytes
    }

    /// The index of the host of a request, and its target.
    fn host(
        &mut self,
        entry: &RequestEntry,
        target: Option<Target>,
    ) -> Result<(u32, Target), Fault> {
        let fault = |message: String| Err(Fault::new(entry.address_at, message));
        let Some(target) = target else {
            return match self.hosts.first() {
                Some(first) => Ok((0, first.clone())),
                None => fault(
                    "the first request has only a path: give the URL of the server on the command \
                     line"
                        .to_owned(),
                ),
            };
        };
        let wanted = origin(&target);
        if let Some(host) = self.hosts.iter().position(|host| origin(host) == wanted) {
            return Ok((host as u32, target));
        }
        if let Some(first) = self.hosts.first() {
            if !self.defaults.own_hosts {
                return fault(format!(
                    "{wanted} is not the target of the run, {} (without a URL on the command \
                     line, requests go to the hosts of the file)",
                    origin(first)
                ));
            }
            if first.scheme != target.scheme {
                return fault(format!(
                    "{wanted}: some requests use TLS and some do not, but the connections of a \
                     run are alike"
                ));
            }
        }
        if self.hosts.len() >= MAX_HOSTS {
            return fault(format!("the file has more than {MAX_HOSTS} hosts"));
        }
        self.hosts.push(target.clone());
        Ok((self.hosts.len() as u32 - 1, target))
    }

    /// The number of the name of a request.
    fn name(&mut self, entry: &RequestEntry) -> Result<u32, Fault> {
        self.has_names |= entry.name.is_some();
        let name = entry.name.as_deref().unwrap_or(UNNAMED);
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let fault = |message: String| Err(Fault::new(entry.at, message));
        let is_text = !name.trim().is_empty() && name.chars().all(plan::is_printable);
        if !is_text || name.len() > MAX_NAME_BYTES {
            return fault(format!(
                "{} is not a name (expected text of at most {MAX_NAME_BYTES} bytes)",
                quoted(name)
            ));
        }
        if self.names.len() >= MAX_NAMES {
            return fault(format!(
                "the file has more than {MAX_NAMES} names: give requests of the same kind the \
                 same name"
            ));
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.put(bytes);
    }

    fn put_template(&mut self, template: &Template) {
        self.put_chunks(&of_text(template));
    }

    fn put_chunks(&mut self, chunks: &[Chunk]) {
        for chunk in chunks {
            match chunk {
                Chunk::Bytes(bytes) => self.put(bytes),
                Chunk::Gap { filling, .. } => self.put_gap(*filling),
            }
        }
    }

    fn put_gap(&mut self, filling: Filling) {
        self.gaps.push(Gap {
            at: self.bytes.len(),
            filling,
        });
    }

    /// The Content-Length of a body, unless it is already coded. Returns the length of the body
    /// without its values.
    fn put_length(&mut self, body: &[Chunk], is_coded: bool) -> usize {
        let (bytes, fixed_bytes) = lengths(body);
        if is_coded {
            return bytes;
        }
        self.put(b"Content-Length: ");
        match fixed_bytes {
            Some(values_bytes) => self.put((bytes + values_bytes).to_string().as_bytes()),
            None => self.put_gap(Filling::ContentLength),
        }
        self.put(b"\r\n");
        bytes
    }
}

fn is(name: &str, other: &str) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// The headers of every request.
fn default_headers(
    given: &[(String, String)],
    scope: &mut Scope<'_>,
) -> Result<Rc<[Header]>, Fault> {
    let header = |(name, value): &(String, String)| {
        let value = Template::parse(value, 0, scope);
        let value = value.map_err(|fault| {
            Fault::new(0, format!("the header {name:?} of -H: {}", fault.message))
        })?;
        let header = Header {
            name: name.clone(),
            value,
            at: 0,
        };
        check_field(&header, &scope.tables)?;
        Ok(header)
    };
    given.iter().map(header).collect()
}

/// Refuses what the requests of a file cannot do in gRPC calls.
fn check_call(entry: &RequestEntry) -> Result<(), Fault> {
    if entry.captures.iter().any(Capture::is_of_body) {
        let problem = "the response to a call is no text, so that only its headers can be captured";
        return Err(Fault::new(entry.at, problem));
    }
    let mut headers = entry.headers.iter();
    match headers.find(|header| is(&header.name, "Transfer-Encoding")) {
        Some(header) => Err(Fault::new(
            header.at,
            "a gRPC call has no Transfer-Encoding",
        )),
        None => Ok(()),
    }
}

/// Refuses a path that would end the request line, also by a value of a table.
fn check_path(path: &Template, path_at: usize, tables: &[Table]) -> Result<(), Fault> {
    let breaks = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
    const PROBLEM: &str = "contains a space or a control character (write a space as %20)";
    check_pieces(path, path_at, tables, breaks, |place| {
        format!("{place} {PROBLEM}")
    })
}

/// Refuses a header that would not be sent as exactly one header.
fn check_field(header: &Header, tables: &[Table]) -> Result<(), Fault> {
    check_header(&header.name, "").map_err(|error| Fault::new(header.at, error.to_string()))?;
    let breaks = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    check_pieces(&header.value, header.at, tables, breaks, |place| {
        format!(
            "{place} of the header {:?} contains a control character",
            header.name
        )
    })
}

fn check_pieces(
    template: &Template,
    at: usize,
    tables: &[Table],
    breaks: impl Fn(&u8) -> bool,
    problem: impl Fn(&str) -> String,
) -> Result<(), Fault> {
    for piece in &template.pieces {
        match piece {
            Piece::Text(text) if text.iter().any(&breaks) => {
                return Err(Fault::new(at, problem("the text")));
            }
            Piece::Value {
                value: Value::Cell { table, column },
                at,
            } => {
                let table = &tables[*table as usize];
                let bad =
                    (0..table.rows()).find(|row| table.cell(*row, *column).iter().any(&breaks));
                if let Some(row) = bad {
                    let place = format!("row {} of {}", row + 1, table.name);
                    return Err(Fault::new(*at, problem(&place)));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A request with `1` in place of its values, or as many as the value has characters. `bytes` are
/// its own.
pub(crate) fn sample(bytes: &[u8], request: &Compiled, gaps: &[Gap]) -> Vec<u8> {
    let length = |gap: &Gap| match gap.filling {
        Filling::ContentLength => 0,
        filling => filling.fixed_bytes().unwrap_or(1),
    };
    let mut text = Vec::with_capacity(bytes.len());
    let mut begin = 0;
    for (number, gap) in gaps.iter().enumerate() {
        let at = gap.at - request.begin as usize;
        text.extend_from_slice(&bytes[begin..at]);
        begin = at;
        match gap.filling {
            Filling::ContentLength => {
                let values: usize = gaps[number + 1..].iter().map(length).sum();
                text.extend_from_slice(
                    (request.body_bytes as usize + values)
                        .to_string()
                        .as_bytes(),
                );
            }
            _ => text.resize(text.len() + length(gap), b'1'),
        }
    }
    text.extend_from_slice(&bytes[begin..]);
    text
}

/// Whether a text is exactly one request, as a server would read it.
fn check_sample(text: &[u8]) -> Result<(), String> {
    let mut requests = request::split(text);
    match (requests.next(), requests.next()) {
        (Some(Ok(_)), None) => Ok(()),
        (Some(Err(error)), _) | (_, Some(Err(error))) => {
            Err(format!("the request would not be valid: {error}"))
        }
        _ => Err("the request would be read as several".to_owned()),
    }
}
