//! A server on hyper with one thread: "Hello, World!" on the port of the first argument.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8105".to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::task::spawn_local(async move {
                let answer = |_: Request<hyper::body::Incoming>| async {
                    let body = Full::new(Bytes::from_static(b"Hello, World!"));
                    let response = Response::builder().header("content-type", "text/plain");
                    Ok::<_, Infallible>(response.body(body).unwrap_or_default())
                };
                // A client that leaves is no fault of the server.
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(answer))
                    .await;
            });
        }
    })
}
