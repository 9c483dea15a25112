//! Proxies between a connection and the target: tunnels by CONNECT (RFC 9110 section 9.3.6) and by
//! SOCKS5 (RFC 1928), and requests in absolute form (RFC 9112 section 3.2.2).

mod connect;
mod fault;
mod forward;
mod opening;
mod socks;

use std::sync::Arc;

pub use connect::Connect;
pub use fault::ProxyFault;
pub use forward::Forward;
pub use opening::Opening;
pub use socks::{Destination, Login, Socks};

use crate::request::RequestText;
use crate::tls::TlsClient;
use crate::{Event, ExchangeId, Requests, Session, SessionError};

/// How requests get through a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The proxy gets each request, with the whole URL as its target. For HTTP/1 without TLS.
    Forward(Forward),
    /// The proxy opens a connection to the target when it is asked to, and passes bytes on.
    Tunnel(Tunnel),
}

/// How a proxy is asked for a connection to the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tunnel {
    /// An HTTP proxy, asked by CONNECT.
    Connect(Connect),
    /// A SOCKS5 proxy, asked by its own protocol.
    Socks(Socks),
}

/// How connections get through a proxy.
#[derive(Clone)]
pub struct ProxyClient {
    /// What the proxy is asked for.
    pub route: Arc<Route>,
    /// TLS settings for the proxy, if it is an https proxy.
    pub tls: Option<TlsClient>,
}

/// What all sessions of a worker share.
#[derive(Debug)]
pub struct ProxyContext<T> {
    /// What the inner sessions share.
    pub inner: T,
    route: Arc<Route>,
    /// Requests in absolute form. Empty between calls.
    text: Vec<u8>,
}

impl<T> ProxyContext<T> {
    /// The context of one worker's sessions.
    #[must_use]
    pub fn new(route: Arc<Route>, inner: T) -> Self {
        Self {
            inner,
            route,
            text: Vec::new(),
        }
    }
}

/// A connection to a proxy around a session `S` with the target.
#[derive(Debug)]
pub struct Proxied<S> {
    inner: S,
    /// Complete if the proxy need not be asked for a connection.
    opening: Opening,
}

impl<S: Session> Session for Proxied<S> {
    type Context = ProxyContext<S::Context>;
    type Prepared = S::Prepared;

    const SENDS_TEXT: bool = S::SENDS_TEXT;
    const TRANSPARENT: bool = false;

    fn new(context: &mut Self::Context) -> Self {
        Self {
            inner: S::new(&mut context.inner),
            opening: Opening::default(),
        }
    }

    fn prepare(context: &mut Self::Context, request: &RequestText<'_>) -> S::Prepared {
        S::prepare(&mut context.inner, request)
    }

    fn begin(
        &mut self,
        context: &mut Self::Context,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        match &*context.route {
            Route::Forward(_) => {
                self.opening.skip();
                self.inner.begin(&mut context.inner, output)
            }
            Route::Tunnel(tunnel) => {
                self.opening.begin(tunnel, output);
                Ok(())
            }
        }
    }

    fn is_ready(&self) -> bool {
        self.opening.is_complete() && self.inner.is_ready()
    }

    #[inline]
    fn capacity(&self) -> u32 {
        self.inner.capacity()
    }

    fn start(
        &mut self,
        context: &mut Self::Context,
        exchange: ExchangeId,
        requests: Requests<'_, S::Prepared>,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        let ProxyContext { inner, route, text } = context;
        let Route::Forward(forward) = &**route else {
            self.inner.start(inner, exchange, requests, output)?;
            if S::TRANSPARENT {
                output.extend_from_slice(requests.text);
            }
            return Ok(());
        };
        text.clear();
        forward.rewrite(requests.text, text);
        let requests = Requests { text, ..requests };
        self.inner.start(inner, exchange, requests, output)?;
        if S::TRANSPARENT {
            output.extend_from_slice(text);
        }
        Ok(())
    }

    fn cancel(
        &mut self,
        context: &mut Self::Context,
        exchange: ExchangeId,
        output: &mut Vec<u8>,
    ) -> Result<bool, SessionError> {
        self.inner.cancel(&mut context.inner, exchange, output)
    }

    fn resume(
        &mut self,
        context: &mut Self::Context,
        output: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        if self.opening.is_complete() {
            self.inner.resume(&mut context.inner, output)
        } else {
            Ok(())
        }
    }

    fn close(&mut self, context: &mut Self::Context, output: &mut Vec<u8>) {
        if self.opening.is_complete() {
            self.inner.close(&mut context.inner, output);
        }
    }

    fn receive(
        &mut self,
        context: &mut Self::Context,
        input: &[u8],
        output: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        let (Route::Tunnel(tunnel), false) = (&*context.route, self.opening.is_complete()) else {
            return self
                .inner
                .receive(&mut context.inner, input, output, events);
        };
        let opened = self.opening.receive(tunnel, input, output);
        let Some(rest) = opened.map_err(SessionError::Proxy)? else {
            return Ok(());
        };
        events.push(Event::ProxyReady);
        self.inner.begin(&mut context.inner, output)?;
        // A server may speak first.
        if rest.is_empty() {
            Ok(())
        } else {
            self.inner
                .receive(&mut context.inner, &rest, output, events)
        }
    }

    fn skippable_bytes(&self) -> u64 {
        if self.opening.is_complete() {
            self.inner.skippable_bytes()
        } else {
            0
        }
    }

    fn skip(&mut self, bytes: u64, events: &mut Vec<Event>) {
        self.inner.skip(bytes, events);
    }

    fn end(
        &mut self,
        context: &mut Self::Context,
        events: &mut Vec<Event>,
    ) -> Result<(), SessionError> {
        if self.opening.is_complete() {
            self.inner.end(&mut context.inner, events)
        } else {
            Err(SessionError::Proxy(ProxyFault::Closed))
        }
    }

    fn interruption(&self, context: &Self::Context) -> Option<SessionError> {
        if self.opening.is_complete() {
            self.inner.interruption(&context.inner)
        } else {
            Some(SessionError::Proxy(ProxyFault::Closed))
        }
    }

    fn awaits(&self) -> Option<&'static str> {
        if self.opening.is_complete() {
            self.inner.awaits()
        } else {
            Some("the proxy did not answer")
        }
    }

    fn partial_bytes(&self) -> u64 {
        if self.opening.is_complete() {
            self.inner.partial_bytes()
        } else {
            0
        }
    }

    fn redirect_location(context: &Self::Context) -> Option<&str> {
        S::redirect_location(&context.inner)
    }

    fn streams_limit(context: &Self::Context) -> Option<u32> {
        S::streams_limit(&context.inner)
    }
}
