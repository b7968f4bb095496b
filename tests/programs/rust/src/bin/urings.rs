//! tokio-uring: `urings serve` gives back what it gets on each connection to port 7000, and keeps it in the file `kept`;
//! `urings ask HOST` talks over four connections at once and reads a file of its own.

use std::net::ToSocketAddrs;
use tokio_uring::fs::{File, OpenOptions};
use tokio_uring::net::{TcpListener, TcpStream, UdpSocket};

type Failure = Box<dyn std::error::Error>;

async fn serve() -> Result<(), Failure> {
    let listener = TcpListener::bind("0.0.0.0:7000".parse()?)?;
    let datagrams = UdpSocket::bind("0.0.0.0:7001".parse()?).await?;
    tokio_uring::spawn(async move {
        let mut buffer = vec![0; 2048];
        loop {
            let (result, same) = datagrams.recv_from(buffer).await;
            let Ok((length, from)) = result else { return };
            let (_, _) = datagrams.send_to(same[..length].to_vec(), from).await;
            buffer = same;
        }
    });
    let kept = std::rc::Rc::new(OpenOptions::new().create(true).write(true).open("kept").await?);
    let mut at = 0;
    loop {
        let (stream, _) = listener.accept().await?;
        let (kept, place) = (kept.clone(), at);
        at += 100_000;
        tokio_uring::spawn(async move {
            let mut buffer = vec![0; 4096];
            let mut seen = 0;
            loop {
                let (result, same) = stream.read(buffer).await;
                let Ok(length @ 1..) = result else { break };
                let (result, _) = kept.write_at(same[..length].to_vec(), place + seen).submit().await;
                assert_eq!(result.unwrap_or(0), length);
                seen += length as u64;
                let (result, _) = stream.write_all(same[..length].to_vec()).await;
                if result.is_err() {
                    break;
                }
                buffer = same;
            }
            let _ = kept.sync_all().await;
        });
    }
}

async fn talk(host: String, n: u8) -> Result<bool, Failure> {
    let at = (host.as_str(), 7000).to_socket_addrs()?.next().ok_or("no address")?;
    let stream = TcpStream::connect(at).await?;
    let mut got = Vec::new();
    for _ in 0..10 {
        stream.write_all(vec![n; 10_000]).await.0?;
        let mut rest = 10_000;
        while rest > 0 {
            let (length, part) = stream.read(vec![0; rest]).await;
            let length = length?;
            got.extend_from_slice(&part[..length]);
            rest -= length;
        }
    }
    Ok(got == vec![n; 100_000])
}

async fn ask(host: String) -> Result<(), Failure> {
    let asked: Vec<_> = (0..4).map(|n| tokio_uring::spawn(talk(host.clone(), n))).map(Box::pin).collect();
    for task in asked {
        println!("{}", if task.await?? { "the same" } else { "something else" });
    }
    let socket = UdpSocket::bind("0.0.0.0:0".parse()?).await?;
    let at = (host.as_str(), 7001).to_socket_addrs()?.next().ok_or("no address")?;
    socket.connect(at).await?;
    socket.write(b"a datagram".to_vec()).submit().await.0?;
    let (length, got) = socket.read(vec![0; 100]).await;
    println!("{}", String::from_utf8_lossy(&got[..length?]));
    let file = File::create("own").await?;
    file.write_all_at(b"hello file".to_vec(), 0).await.0?;
    file.close().await?;
    let file = File::open("own").await?;
    let (length, got) = file.read_at(vec![0; 100], 6).await;
    println!("{}", String::from_utf8_lossy(&got[..length?]));
    file.close().await?;
    tokio_uring::fs::remove_file("own").await?;
    println!("{}", std::path::Path::new("own").exists());
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("serve"), None) => tokio_uring::start(serve()),
        (Some("ask"), Some(host)) => tokio_uring::start(ask(host)),
        _ => Err("urings serve | urings ask HOST".into()),
    }
}
