//! Control socket, over which a daemon reports its state, and `belljar-routed show`.

use crate::error::{Doing, Error};
use belljar_channel::with_socket_path;
use nix::errno::Errno;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout for a client to read.
const PATIENCE: Duration = Duration::from_millis(500);

/// A listening socket. Dropping it removes its path.
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

/// Listens on a path. A stale socket, on which no process listens, is replaced.
pub fn listen(path: &Path, option: &'static str) -> Result<Listener, Error> {
    let what = format!("listen at {}", path.display());
    let bind = || with_socket_path(path, |path| UnixListener::bind(path));
    let socket = match bind() {
        Err(error) if error.raw_os_error() == Some(Errno::EADDRINUSE as i32) => {
            if connect(path).is_ok() {
                return Err(Error::SocketInUse(path.to_owned(), option));
            }
            std::fs::remove_file(path).doing(what.clone())?;
            bind().doing(what)?
        }
        other => other.doing(what)?,
    };
    socket.set_nonblocking(true).doing("set up the control socket")?;
    Ok(Listener { socket, path: path.to_owned() })
}

/// Connects to the listener on a path.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    with_socket_path(path, |path| UnixStream::connect(path))
}

impl Listener {
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
    /// The next pending client.
    pub fn accept(&self) -> Option<UnixStream> {
        let (stream, _) = self.socket.accept().ok()?;
        stream.set_nonblocking(false).ok()?;
        Some(stream)
    }
    /// Sends the daemon's state to all pending clients.
    pub fn answer(&self, state: impl Fn() -> Value) {
        while let Some(mut stream) = self.accept() {
            // A client that closes the connection or does not read is ignored.
            let _ = stream.set_write_timeout(Some(PATIENCE)).and_then(|()| writeln!(stream, "{}", state()));
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// `belljar-routed show`.
pub fn show(path: &Path, json: bool) -> Result<(), Error> {
    let gone = |source| Error::NobodyThere { path: path.to_owned(), source };
    let mut text = String::new();
    connect(path).and_then(|mut stream| stream.read_to_string(&mut text)).map_err(gone)?;
    let state: Value = serde_json::from_str(&text).map_err(io::Error::from).map_err(gone)?;
    let out = if json { format!("{state:#}\n") } else { tables(&state) };
    io::stdout().write_all(out.as_bytes()).doing("write")
}

/// Formats single values as a line each, lists of objects as tables.
fn tables(state: &Value) -> String {
    let mut out = String::new();
    let Some(object) = state.as_object() else { return out };
    for (key, value) in object.iter().filter(|(_, value)| !value.is_array()) {
        out += &format!("{key}: {}\n", cell(value));
    }
    for (key, rows) in object.iter().filter_map(|(key, value)| Some((key, value.as_array()?))) {
        out += &format!("\n{key}: {}\n", rows.len());
        let Some(first) = rows.first().and_then(Value::as_object) else { continue };
        let mut lines: Vec<Vec<String>> = vec![first.keys().map(|column| column.replace('_', " ")).collect()];
        lines.extend(rows.iter().filter_map(Value::as_object).map(|row| row.values().map(cell).collect()));
        let wide = |column: usize| {
            lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(0)
        };
        for line in &lines {
            let padded: Vec<String> =
                line.iter().enumerate().map(|(n, text)| format!("{text:<0$}", wide(n))).collect();
            out += &format!("  {}\n", padded.join("  ").trim_end());
        }
    }
    out
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| format!("{key} {}", cell(value))).collect::<Vec<_>>().join(", ")
        }
        Value::Number(number) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_becomes_tables() {
        let state = serde_json::json!({
            "protocol": "olsr",
            "routes": [{"destination": "10.0.0.2/32", "next_hop": null}, {"destination": "0.0.0.0/0", "next_hop": "10.0.0.2"}],
        });
        let want = "protocol: olsr\n\nroutes: 2\n  destination  next hop\n  10.0.0.2/32  -\n  0.0.0.0/0    10.0.0.2\n";
        assert_eq!(tables(&state), want);
    }
}
