//! A server that stores numbers in sled, and acknowledges each after a flush. To each client it first sends the number that it has.
//!
//!     store [--sync]
//!
//! With --sync it also syncs the files and the folder of the store, since sled's flush is a sync_file_range(2), which makes no size durable.

use std::fs::{File, read_dir};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn main() {
    let with_sync = std::env::args().any(|argument| argument == "--sync");
    let tree = match sled::Config::new().path("data").cache_capacity(1 << 20).open() {
        Ok(tree) => tree,
        Err(error) => {
            println!("cannot be opened: {error}");
            std::process::exit(3);
        }
    };
    if with_sync {
        sync().expect("a sync");
    }
    let listener = TcpListener::bind("0.0.0.0:7040").expect("a port");
    for stream in listener.incoming() {
        // A connection that is lost is another client's turn.
        let _ = stream.and_then(|stream| serve(&tree, stream, with_sync));
    }
}

fn serve(tree: &sled::Db, mut stream: TcpStream, with_sync: bool) -> std::io::Result<()> {
    let last = tree.get("last")?.map_or(vec![0; 8], |value| value.to_vec());
    stream.write_all(&last)?;
    let mut number = [0; 8];
    loop {
        stream.read_exact(&mut number)?;
        let value = u64::from_be_bytes(number);
        tree.insert("last", &number)?;
        // Values of several sizes, and removals: the store moves and frees pages.
        tree.insert((value % 97).to_be_bytes(), vec![value as u8; 200 + (value % 7) as usize * 400])?;
        if value % 5 == 0 {
            tree.remove((value % 31).to_be_bytes())?;
        }
        tree.flush()?;
        if with_sync {
            sync()?;
        }
        stream.write_all(&number)?;
    }
}

fn sync() -> std::io::Result<()> {
    for entry in read_dir("data")? {
        let path = entry?.path();
        for file in if path.is_dir() { read_dir(&path)?.collect() } else { Vec::new() } {
            File::open(file?.path())?.sync_all()?;
        }
        File::open(path)?.sync_all()?;
    }
    File::open("data")?.sync_all()?;
    File::open(".")?.sync_all()
}
