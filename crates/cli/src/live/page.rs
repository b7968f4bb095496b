//! The page of the live view, and its server on 127.0.0.1.
//!
//! The address has a token that nobody can guess, without which nothing is answered. Requests name the server as 127.0.0.1 or
//! localhost, so that no other site's name leads here. The page asks by POST with a JSON object; a GET changes nothing.

use super::watch::{Selection, Watch};
use crate::failure::Failure;
use crate::secret;
use belljar_net::units::parse_duration;
use serde::Deserialize;
use std::io::{Cursor, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread;
use tiny_http::{Header, Method, Response, Server};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Bytes of a secret: 128 bits.
const SECRET_LEN: usize = 16;
/// Bytes of a request's body at most.
const BODY_MAX: u64 = 4_096;
/// Hosts that one answer tells of at most.
const HOSTS_MAX: usize = 500;
/// Policy for what is not the page: nothing is loaded for it, and nothing of it is carried out.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

/// A question of the page.
#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    State {
        filter: String,
        by: String,
        limit: usize,
    },
    Names,
    Tables {
        node: String,
    },
    GoOn,
    Pause,
    Step,
    NextEvent,
    /// So much simulated time, as in an experiment.
    GoFor {
        duration: String,
    },
}

/// Serves the page from now on, and prints its address.
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
            // A browser that has gone needs no answer.
            let _ = request.respond(response);
        }
    };
    thread::Builder::new().name("live view".into()).spawn(serve).map_err(Failure::run)?;
    Ok(())
}

type Answer = Response<Cursor<Vec<u8>>>;

/// The server's page and what it takes to be answered.
struct Site {
    watch: Arc<Watch>,
    port: u16,
    /// What the path begins with.
    token: String,
    /// What marks the page's own script and style: a browser takes no other.
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

/// Answers a question in JSON, or says why not.
fn ask(watch: &Watch, question: &str) -> Result<String, String> {
    let request: Request = serde_json::from_str(question).map_err(|error| error.to_string())?;
    match request {
        Request::State { filter, by, limit } => {
            let limit = limit.min(HOSTS_MAX);
            let state = watch.state(&Selection { filter: &filter, by: &by, limit });
            return serde_json::to_string(&state).map_err(|error| error.to_string());
        }
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
    page.replace("{{style}}", STYLE).replace("{{script}}", SCRIPT)
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
    // Text of ours is; names of folders are made so.
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
