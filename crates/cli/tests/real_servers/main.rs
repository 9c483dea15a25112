//! Runs against real servers: nginx, php-fpm, Apache httpd, Squid, gRPC for Python; for HTTP/2 also
//! nghttpd, HAProxy, Caddy, H2O and hyper; for language models llama.cpp and the mock server of
//! guidellm.
//!
//! - `nginx`: static files, kinds of responses, limits of keep-alive, https
//! - `php`: php-fpm behind nginx
//! - `apache`: CGI scripts under two process models
//! - `grpc`: unary calls
//! - `h2spec`: the test of HTTP/2 clients by h2spec
//! - `squid`: Squid as a reverse proxy for httpd
//! - `proxies`: Squid, tinyproxy and microsocks between a run and httpd
//! - `replay`: replays of the access logs of nginx and httpd
//! - `llama`: llama.cpp with a model of random weights
//! - `guidellm`: its mock server, which is told how long tokens take
//! - `otlp`: metrics in Prometheus 3 and in a Collector of OpenTelemetry
//! - `http2`: HTTP/2 with several servers; `nghttpd`, which logs every frame; `hyper`, a library
//! - `http3`: HTTP/3 with Caddy; `ngtcp2`: with gtlsserver, which logs every frame
//! - `ngtcp2_client`: the client of ngtcp2 with HTTP/3 of `wrkbench serve`
//! - `certificate`, `daemon`, `trial`: starting a server, making a run and checking it
//!
//! Every test starts its own server with a configuration in a temporary folder, on free ports of
//! loopback or a Unix socket, and ends it. The services of the system are not touched. Each run is
//! made on both event backends. `make test-packages` installs the servers.

mod apache;
mod certificate;
mod daemon;
mod grpc;
mod guidellm;
mod h2spec;
mod http2;
mod http3;
mod hyper;
mod llama;
mod nghttpd;
mod nginx;
mod ngtcp2;
mod ngtcp2_client;
mod otlp;
mod php;
mod proxies;
mod replay;
mod squid;
mod trial;
