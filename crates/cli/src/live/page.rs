//! The page of the live view, and its HTTP server on 127.0.0.1.
//!
//! The address contains an unguessable token; requests without it are rejected. The `Host` header must be
//! 127.0.0.1 or localhost, against DNS rebinding. The page sends commands as JSON objects by POST; a GET
//! changes nothing.

use super::watch::{Selection, Watch};
use crate::failure::Failure;
use crate::secret;
use belljar_net::units::parse_duration;
use belljar_results::{DRAWING_SCRIPT, DRAWING_STYLE};
use serde::Deserialize;
use std::io::{Cursor, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use tiny_http::{Header, Method, Response, Server};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Length of a secret in bytes: 128 bits.
const SECRET_LEN: usize = 16;
/// Upper bound on a request's body, in bytes.
const BODY_MAX: u64 = 4_096;
/// Upper bound on the number of hosts in an answer.
const HOSTS_MAX: usize = 500;
/// Content security policy for all answers but the page: no resource is loaded and no script runs.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// Request of the page.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    State {
        filter: String,
        by: String,
        limit: usize,
    },
    Names,
    Network,
    Tables {
        node: String,
    },
    GoOn,
    Pause,
    Step,
    NextEvent,
    /// Runs for a simulated duration, written as in an experiment.
    GoFor {
        duration: String,
    },
}

/// Starts the server on a thread of its own, and prints its address.
pub fn serve(watch: Arc<Watch>, port: u16) -> Result<(), Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("the live view cannot listen on port {port}: {why}"))
    };
    let server =
        Server::http(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(|error| cannot(&error))?;
    let port = server.server_addr().to_ip().map_or(port, |address| address.port());
    let drawn = || secret::drawn(SECRET_LEN).map_err(Failure::run);
    let site = Site { token: drawn()?, nonce: drawn()?, port, watch };
    eprintln!("live view: http://127.0.0.1:{port}/{}/", site.token);
    let serve = move || {
        for mut request in server.incoming_requests() {
            let response = site.answer(&mut request);
            // The browser may have closed the connection.
            let _ = request.respond(response);
        }
    };
    thread::Builder::new().name("live view".into()).spawn(serve).map_err(Failure::run)?;
    Ok(())
}

type Answer = Response<Cursor<Vec<u8>>>;

/// State of the server.
struct Site {
    watch: Arc<Watch>,
    port: u16,
    /// First component of the path.
    token: String,
    /// Nonce of the page's own script and style: the browser rejects all others.
    nonce: String,
}

impl Site {
    fn answer(&self, request: &mut tiny_http::Request) -> Answer {
        let host = request.headers().iter().find(|header| header.field.equiv("Host"));
        let host = host.map_or("", |header| header.value.as_str());
        let own = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        if !own.iter().any(|own| own == host) {
            return respond(
                403,
                "text/plain",
                "this is the live view of a run on 127.0.0.1\n".to_owned(),
                NOTHING,
            );
        }
        let path = request.url().to_owned();
        let (given, rest) = path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default();
        if !secret::is_equal(given, &self.token) {
            let text = "the address is the one that belljar has printed\n".to_owned();
            return respond(404, "text/plain", text, NOTHING);
        }
        match (request.method(), rest) {
            (Method::Get, "") => self.page(),
            (Method::Get, "snapshot.json") => self.snapshot(),
            (Method::Post, "") => {
                let mut body = String::new();
                let read = request.as_reader().take(BODY_MAX).read_to_string(&mut body);
                match read.map_err(|error| error.to_string()).and_then(|_| ask(&self.watch, &body)) {
                    Ok(json) => respond(200, JSON, json, NOTHING),
                    Err(error) => {
                        respond(400, JSON, serde_json::json!({ "error": error }).to_string(), NOTHING)
                    }
                }
            }
            _ => respond(404, "text/plain", "there is no such page\n".to_owned(), NOTHING),
        }
    }

    fn page(&self) -> Answer {
        let nonce = &self.nonce;
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        respond(200, "text/html; charset=utf-8", page(self.watch.name(), nonce), &policy)
    }

    fn snapshot(&self) -> Answer {
        match self.watch.snapshot() {
            Ok((at, json)) => {
                let name = self.watch.name().replace(['"', '\\'], "_");
                let name = format!("attachment; filename=\"{name}-{at}.json\"");
                respond(200, JSON, json, NOTHING).with_header(header("Content-Disposition", &name))
            }
            Err(error) => respond(503, "text/plain", error + "\n", NOTHING),
        }
    }
}

const JSON: &str = "application/json";

/// Executes a request. Returns the answer in JSON, or an error message.
fn ask(watch: &Watch, question: &str) -> Result<String, String> {
    let request: Request = serde_json::from_str(question).map_err(|error| error.to_string())?;
    match request {
        Request::State { filter, by, limit } => {
            let limit = limit.min(HOSTS_MAX);
            let state = watch.state(&Selection { filter: &filter, by: &by, limit });
            return serde_json::to_string(&state).map_err(|error| error.to_string());
        }
        Request::Network => return serde_json::to_string(watch.network()).map_err(|error| error.to_string()),
        Request::Names => return serde_json::to_string(watch.names()).map_err(|error| error.to_string()),
        Request::Tables { node } => {
            let (time_ns, tables) = watch.tables(&node)?;
            return Ok(serde_json::json!({ "time_ns": time_ns, "tables": tables }).to_string());
        }
        Request::GoOn => watch.go_on(),
        Request::Pause => watch.pause()?,
        Request::Step => watch.step()?,
        Request::NextEvent => watch.next_event()?,
        Request::GoFor { duration } => {
            watch.go_for(parse_duration(&duration).map_err(|error| error.to_string())?)?;
        }
    }
    Ok("{}".to_owned())
}

fn page(name: &str, nonce: &str) -> String {
    let name = name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let page = PAGE.replace("{{name}}", &name).replace("{{nonce}}", nonce);
    let script = [DRAWING_SCRIPT, SCRIPT].join("\n");
    page.replace("{{style}}", &[DRAWING_STYLE, STYLE].concat()).replace("{{script}}", &script)
}

fn respond(status: u16, kind: &str, body: String, policy: &str) -> Answer {
    let headers = [
        ("Content-Type", kind),
        ("Cache-Control", "no-store"),
        ("Content-Security-Policy", policy),
        ("Referrer-Policy", "no-referrer"),
        ("X-Content-Type-Options", "nosniff"),
    ];
    let response = Response::from_string(body).with_status_code(status);
    headers.iter().fold(response, |response, (name, value)| response.with_header(header(name, value)))
}

fn header(name: &str, value: &str) -> Header {
    // Constant values are printable ASCII; names of folders are sanitized.
    let value: String =
        value.chars().map(|c| if c.is_ascii() && !c.is_control() { c } else { '_' }).collect();
    Header::from_bytes(name, value).expect("a header is printable ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_in_the_page() {
        let page = page("a<script>&", "n");
        assert!(page.contains("a&lt;script&gt;&amp;") && !page.contains("{{"));
    }
}
