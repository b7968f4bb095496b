//! tokio with hyper: `hypers serve` answers over HTTP/1.1 on port 80 and over HTTP/2 on port 81; `hypers ask HOST`
//! makes eight requests at once over each and says what came back.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn answer(request: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let version = request.version();
    let body = request.into_body().collect().await.map(|all| all.to_bytes()).unwrap_or_default();
    // Work for the other threads of the pool.
    let sum = tokio::task::spawn_blocking(move || body.iter().map(|b| u64::from(*b)).sum::<u64>()).await;
    Ok(Response::new(Full::new(format!("{version:?} {}", sum.unwrap_or(0)).into())))
}

async fn serve(port: u16) -> Result<(), Failure> {
    let listener = TcpListener::bind(("0.0.0.0", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let io = TokioIo::new(stream);
        tokio::spawn(async move {
            let done = if port == 80 {
                hyper::server::conn::http1::Builder::new().serve_connection(io, service_fn(answer)).await
            } else {
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                builder.serve_connection(io, service_fn(answer)).await
            };
            if let Err(error) = done {
                eprintln!("{error}");
            }
        });
    }
}

fn request(host: &str) -> Result<Request<Full<Bytes>>, Failure> {
    let body = Full::new(Bytes::from(vec![1; 100_000]));
    Ok(Request::post(format!("http://{host}/")).header("host", host).body(body)?)
}

async fn over_http1(host: String) -> Result<String, Failure> {
    let io = TokioIo::new(TcpStream::connect((host.as_str(), 80)).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    tokio::spawn(connection);
    let answer = sender.send_request(request(&host)?).await?.into_body().collect().await?;
    Ok(String::from_utf8(answer.to_bytes().to_vec())?)
}

async fn ask(host: String) -> Result<(), Failure> {
    let asked: Vec<_> = (0..8).map(|_| tokio::spawn(over_http1(host.clone()))).collect();
    for task in asked {
        println!("{}", task.await??);
    }
    let io = TokioIo::new(TcpStream::connect((host.as_str(), 81)).await?);
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
    tokio::spawn(connection);
    let mut asked = Vec::new();
    for _ in 0..8 {
        let (mut sender, request) = (sender.clone(), request(&host)?);
        asked.push(tokio::spawn(async move {
            sender.send_request(request).await?.into_body().collect().await.map(|all| all.to_bytes())
        }));
    }
    for task in asked {
        println!("{}", String::from_utf8(task.await??.to_vec())?);
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("serve"), None) => tokio::try_join!(serve(80), serve(81)).map(|_| ()),
        (Some("ask"), Some(host)) => ask(host).await,
        _ => Err("hypers serve | hypers ask HOST".into()),
    }
}
