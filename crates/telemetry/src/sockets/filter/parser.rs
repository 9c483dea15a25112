//! Parses the tokens of a filter.
//!
//! The grammar is that of ss 6.1: `state` and `exclude` first, then conditions. `and`, `or` and
//! juxtaposition (which means `and`) have equal precedence and associate to the left; `not` applies
//! to the next condition.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::expression::{Comparison, Expression, Network, Side};
use super::lexer::{Token, tokens};
use super::{Filter, FilterError};
use crate::sockets::state::States;

/// Bounds the depth of the tree and the kernel's work; no real filter has as many.
const CONDITIONS_MAX: usize = 1000;

/// The same for nested parentheses and `not`, which are parsed recursively.
const DEPTH_MAX: usize = 100;

pub(super) fn parse(text: &str) -> Result<Filter, FilterError> {
    let mut parser = Parser {
        words: tokens(text),
        place: 0,
        end_column: text.chars().count() + 1,
        conditions: 0,
        depth: 0,
    };
    let named = parser.states()?;
    let expression = match parser.peek() {
        None => None,
        Some(_) => Some(parser.conditions()?),
    };
    if let Some(word) = parser.peek() {
        return Err(word.error("expected a condition, `and` or `or`"));
    }
    Ok(Filter {
        states: named.unwrap_or(States::OPEN),
        names_states: named.is_some(),
        expression,
    })
}

struct Parser<'a> {
    words: Vec<Token<'a>>,
    place: usize,
    /// The column after the end, for missing tokens.
    end_column: usize,
    conditions: usize,
    depth: usize,
}

impl Token<'_> {
    /// An error at this token.
    fn error(self, expected: &str) -> FilterError {
        FilterError {
            column: self.column,
            reason: format!("`{}`: {expected}", self.text.escape_debug()),
        }
    }

    fn is_one_of(self, words: &[&str]) -> bool {
        words
            .iter()
            .any(|word| word.eq_ignore_ascii_case(self.text))
    }
}

const STATE_WORDS: &[&str] = &["state"];
const EXCLUDE_WORDS: &[&str] = &["exclude", "excl"];
const AND_WORDS: &[&str] = &["and", "&", "&&"];
const OR_WORDS: &[&str] = &["or", "|", "||"];
const NOT_WORDS: &[&str] = &["not", "!"];
/// Conditions of ss that are not supported here.
const OTHER_CONDITIONS: &[&str] = &["dev", "fwmark", "cgroup", "autobound"];

const COMPARISONS: [(Comparison, &[&str]); 6] = [
    (Comparison::Equal, &["=", "==", "eq"]),
    (Comparison::NotEqual, &["!=", "ne", "neq"]),
    (Comparison::Less, &["<", "lt"]),
    (Comparison::LessOrEqual, &["<=", "le", "leq"]),
    (Comparison::Greater, &[">", "gt"]),
    (Comparison::GreaterOrEqual, &[">=", "ge", "geq"]),
];

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.words.get(self.place).copied()
    }

    /// The next token if it is one of these.
    fn take_one_of(&mut self, words: &[&str]) -> Option<Token<'a>> {
        let word = self.peek().filter(|word| word.is_one_of(words))?;
        self.place += 1;
        Some(word)
    }

    fn take(&mut self, expected: &str) -> Result<Token<'a>, FilterError> {
        let word = self.peek().ok_or_else(|| FilterError {
            column: self.end_column,
            reason: format!("the filter ends here: {expected}"),
        })?;
        self.place += 1;
        Ok(word)
    }

    /// `state S` and `exclude S` in any number; `None` without any. The first one decides whether
    /// the set starts empty or full, as in ss.
    fn states(&mut self) -> Result<Option<States>, FilterError> {
        const EXPECTED: &str = "expected a state like established, or all, connected, \
                                synchronized, bucket, big";
        let mut states = None;
        loop {
            let excludes = if self.take_one_of(STATE_WORDS).is_some() {
                false
            } else if self.take_one_of(EXCLUDE_WORDS).is_some() {
                true
            } else {
                return Ok(states);
            };
            let word = self.take(EXPECTED)?;
            let named = States::of_word(word.text).ok_or_else(|| word.error(EXPECTED))?;
            states = Some(if excludes {
                states.unwrap_or(States::ALL) & !named
            } else {
                states.map_or(named, |states| states | named)
            });
        }
    }

    /// Conditions up to the end or a closing parenthesis.
    fn conditions(&mut self) -> Result<Expression, FilterError> {
        let mut left = self.condition()?;
        while let Some(next) = self.peek().filter(|word| word.text != ")") {
            let is_or = self.take_one_of(OR_WORDS).is_some();
            if !is_or && self.take_one_of(AND_WORDS).is_none() && !begins_a_condition(next) {
                return Err(next.error("expected `and`, `or`, a condition or `)`"));
            }
            let right = self.condition()?;
            let (left_box, right_box) = (Box::new(left), Box::new(right));
            left = if is_or {
                Expression::Or(left_box, right_box)
            } else {
                Expression::And(left_box, right_box)
            };
        }
        Ok(left)
    }

    fn condition(&mut self) -> Result<Expression, FilterError> {
        const EXPECTED: &str = "expected sport, dport, src, dst, `not` or `(`";
        let word = self.take(EXPECTED)?;
        self.conditions += 1;
        if self.conditions > CONDITIONS_MAX {
            return Err(word.error(&format!("there are more than {CONDITIONS_MAX} conditions")));
        }
        if word.is_one_of(NOT_WORDS) {
            let inner = self.deeper(word, Self::condition)?;
            return Ok(Expression::Not(Box::new(inner)));
        }
        if word.text == "(" {
            let inner = self.deeper(word, Self::conditions)?;
            let close = self.take("expected `)`")?;
            return match close.text {
                ")" => Ok(inner),
                _ => Err(close.error("expected `)`")),
            };
        }
        if word.is_one_of(&["sport"]) {
            self.port(Side::Local)
        } else if word.is_one_of(&["dport"]) {
            self.port(Side::Peer)
        } else if word.is_one_of(&["src"]) {
            self.address(Side::Local)
        } else if word.is_one_of(&["dst"]) {
            self.address(Side::Peer)
        } else if word.is_one_of(&["state", "exclude", "excl"]) {
            Err(word.error("states come before all conditions"))
        } else if word.is_one_of(OTHER_CONDITIONS) {
            Err(word.error("ss knows this condition, but it is not supported here"))
        } else {
            Err(word.error(EXPECTED))
        }
    }

    fn deeper(
        &mut self,
        word: Token<'_>,
        inner: fn(&mut Self) -> Result<Expression, FilterError>,
    ) -> Result<Expression, FilterError> {
        if self.depth == DEPTH_MAX {
            return Err(word.error(&format!("more than {DEPTH_MAX} levels of nesting")));
        }
        self.depth += 1;
        let expression = inner(self)?;
        self.depth -= 1;
        Ok(expression)
    }

    fn comparison(&mut self) -> Option<(Token<'a>, Comparison)> {
        COMPARISONS
            .into_iter()
            .find_map(|(comparison, words)| Some((self.take_one_of(words)?, comparison)))
    }

    /// `sport = :80`; the symbol is optional.
    fn port(&mut self, side: Side) -> Result<Expression, FilterError> {
        const EXPECTED: &str = "expected a port like :80 (names of services are not looked up)";
        let symbol = self.comparison();
        let comparison = symbol.map_or(Comparison::Equal, |(_, comparison)| comparison);
        let word = self.take(EXPECTED)?;
        let port = word.text.strip_prefix(':').unwrap_or(word.text);
        match Self::port_number(port) {
            Some(PortCondition::Only(port)) => Ok(Expression::Port(side, comparison, port)),
            Some(PortCondition::Any) if comparison == Comparison::Equal => Ok(any_port(side)),
            Some(PortCondition::Any) => Err(word.error("every port can be compared with `=` only")),
            None => Err(word.error(EXPECTED)),
        }
    }

    fn port_number(text: &str) -> Option<PortCondition> {
        if text == "*" {
            return Some(PortCondition::Any);
        }
        let number = match text.strip_prefix("0x") {
            Some(digits) if is_plain(digits, 16) => u16::from_str_radix(digits, 16).ok(),
            Some(_) => None,
            // ss would read a number with leading zero as octal.
            None if text.len() > 1 && text.starts_with('0') => None,
            None if is_plain(text, 10) => text.parse().ok(),
            None => None,
        };
        number.map(PortCondition::Only)
    }

    /// `src 10.0.0.0/8`, `dst = [::1]:443`, `src :80`, `dst *`.
    fn address(&mut self, side: Side) -> Result<Expression, FilterError> {
        const EXPECTED: &str = "expected an address like 192.0.2.1, 10.0.0.0/8, [2001:db8::]/32, \
                                [::1]:443 or :80 (names of hosts are not looked up)";
        let is_not = match self.comparison() {
            None | Some((_, Comparison::Equal)) => false,
            Some((_, Comparison::NotEqual)) => true,
            Some((word, _)) => return Err(word.error("addresses compare with `=` and `!=` only")),
        };
        let word = self.take(EXPECTED)?;
        let (host, port) = split_port(word.text);
        let network = match host {
            "*" | "" => None,
            _ => Some(network(host).ok_or_else(|| word.error(EXPECTED))?),
        };
        let port = match port {
            None => None,
            Some(text) => Some(Self::port_number(text).ok_or_else(|| word.error(EXPECTED))?),
        };
        if host.is_empty() && port.is_none() {
            return Err(word.error(EXPECTED));
        }
        let address = network.map(|network| Expression::Address(side, network));
        let port = match port {
            Some(PortCondition::Only(port)) => {
                Some(Expression::Port(side, Comparison::Equal, port))
            }
            Some(PortCondition::Any) | None => None,
        };
        let both = match (address, port) {
            (Some(address), Some(port)) => Expression::And(Box::new(address), Box::new(port)),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => any_port(side),
        };
        Ok(if is_not {
            Expression::Not(Box::new(both))
        } else {
            both
        })
    }
}

enum PortCondition {
    Any,
    Only(u16),
}

fn any_port(side: Side) -> Expression {
    Expression::Port(side, Comparison::GreaterOrEqual, 0)
}

/// Digits only, at least one: Rust's parser would accept a sign.
fn is_plain(digits: &str, radix: u32) -> bool {
    !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix))
}

fn begins_a_condition(word: Token<'_>) -> bool {
    word.text == "("
        || word.is_one_of(NOT_WORDS)
        || word.is_one_of(&["sport", "dport", "src", "dst", "state", "exclude", "excl"])
        || word.is_one_of(OTHER_CONDITIONS)
}

/// Host and port of `host:port`; an IPv6 address with a port is in brackets.
fn split_port(text: &str) -> (&str, Option<&str>) {
    let is_bare_v6 = !text.starts_with('[') && text.matches(':').count() > 1;
    match text.rsplit_once(':') {
        Some((host, port)) if !is_bare_v6 && !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    }
}

/// `192.0.2.1`, `10.0.0.0/8`, `10/8`, `2001:db8::/32`, `[2001:db8::]/32`, `[2001:db8::/32]`.
fn network(text: &str) -> Option<Network> {
    let unbracketed = match text.strip_prefix('[') {
        None => text.to_owned(),
        Some(rest) => {
            let (inside, behind) = rest.split_once(']')?;
            // Brackets are only for IPv6.
            inside.contains(':').then(|| format!("{inside}{behind}"))?
        }
    };
    let (address, bits) = match unbracketed.split_once('/') {
        None => (unbracketed.as_str(), None),
        Some((address, bits)) => {
            let bits: u8 = is_plain(bits, 10).then(|| bits.parse().ok())??;
            (address, Some(bits))
        }
    };
    if address.contains(':') {
        let bits = bits.unwrap_or(128);
        return (bits <= 128).then_some(Network::V6(address.parse::<Ipv6Addr>().ok()?, bits));
    }
    let whole = match bits {
        Some(_) => with_missing_bytes(address),
        None => address.to_owned(),
    };
    let bits = bits.unwrap_or(32);
    (bits <= 32).then_some(Network::V4(whole.parse::<Ipv4Addr>().ok()?, bits))
}

/// Completes `10` of `10/8` to `10.0.0.0`.
fn with_missing_bytes(address: &str) -> String {
    let missing = 4_usize.saturating_sub(address.split('.').count());
    format!("{address}{}", ".0".repeat(missing))
}
