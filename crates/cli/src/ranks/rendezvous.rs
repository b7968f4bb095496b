//! The rendezvous: discovery of rank 0 and authentication of the ranks of a run.
//!
//! Rank 0 listens on loopback; on the address of this machine's name if the launcher states that there are
//! several machines; or on the address that `--rendezvous` names. Its address and a token, random for each
//! run, reach the others over the launcher's PMI (MPICH), or in a file that only this user can read, in a
//! folder that all machines share. A connection without the token is dropped. Without a shared channel, both
//! are configured: `--rendezvous HOST:PORT`, and the token in the environment.

use super::Arguments;
use super::launcher::Place;
use super::line::{answer, greet, greeting};
use super::pmi;
use super::roster::Member;
use crate::failure::Failure;
use crate::progress::now;
use crate::secret;
use belljar_base::hex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Environment variable with a configured token.
pub const TOKEN: &str = "BELLJAR_RENDEZVOUS_TOKEN";
/// Minimum length of a configured token, in bytes.
const TOKEN_LEN: usize = 16;
/// Interval between attempts to find rank 0.
const PAUSE: Duration = Duration::from_millis(50);
/// Extra timeout of the other ranks, so that rank 0 reports the missing ranks first.
const LONGER: Duration = Duration::from_secs(15);
/// Timeout for connecting to another rank.
const CONNECT: Duration = Duration::from_secs(10);
/// First part of the file's default name.
const FILE: &str = ".belljar-ranks";

/// Rendezvous point: rank 0's address, and the token.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Meeting {
    address: SocketAddr,
    token: String,
}

/// Purpose of a connection.
#[derive(Debug, Serialize, Deserialize)]
pub enum Purpose {
    /// Line between a rank and rank 0.
    Line(Member),
    /// Packets between two ranks.
    Packets,
}

/// First message on a connection between ranks.
#[derive(Debug, Serialize, Deserialize)]
struct Greeting {
    token: String,
    rank: usize,
    count: usize,
    purpose: Purpose,
}

/// Listener for connections of other ranks, open until the value is dropped.
#[derive(Debug)]
pub struct Arrivals {
    /// Listening address.
    pub address: SocketAddr,
    arrived: Receiver<(usize, usize, Purpose, TcpStream)>,
    over: Arc<AtomicBool>,
}

impl Arrivals {
    /// Accepts connections on a thread of its own. Peers with the `token` are authenticated.
    pub fn at(listener: TcpListener, token: &str) -> io::Result<Arrivals> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let over = Arc::new(AtomicBool::new(false));
        let (arrive, arrived) = channel();
        let (is_over, token) = (over.clone(), token.to_owned());
        let listen = move || {
            while !is_over.load(Relaxed) {
                let Ok((stream, _)) = listener.accept() else {
                    let moment = Timespec { tv_sec: 0, tv_nsec: PAUSE.as_nanos() as i64 };
                    let _ = poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&moment));
                    continue;
                };
                let (arrive, token) = (arrive.clone(), token.clone());
                // An unauthenticated peer may be slow, so each connection has its thread.
                let _ = thread::Builder::new().name("ranks".into()).spawn(move || {
                    let greeted = stream.set_nonblocking(false).and_then(|()| greeting::<Greeting>(&stream));
                    if let Ok(Greeting { token: proof, rank, count, purpose }) = greeted
                        && secret::is_equal(&proof, &token)
                        // On a line, rank 0 answers later.
                        && (!matches!(purpose, Purpose::Packets) || greet(&stream, &true).is_ok())
                    {
                        let _ = arrive.send((rank, count, purpose, stream));
                    }
                });
            }
        };
        thread::Builder::new().name("ranks".into()).spawn(listen)?;
        Ok(Arrivals { address, arrived, over })
    }

    /// Waits for the next packet connection. Returns the rank and the stream.
    pub fn packets(&self, deadline: Instant) -> Option<(usize, TcpStream)> {
        loop {
            match self.next(deadline).ok()? {
                (rank, _, Purpose::Packets, stream) => return Some((rank, stream)),
                (_, _, Purpose::Line(_), _) => {}
            }
        }
    }

    fn next(&self, deadline: Instant) -> Result<(usize, usize, Purpose, TcpStream), RecvTimeoutError> {
        self.arrived.recv_timeout(deadline.saturating_duration_since(now()))
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

/// Connects to another rank for packets, and retries on failure. Its answer may take until `deadline`;
/// waiting ends early when `go_on` returns false.
pub fn connect(
    address: SocketAddr,
    token: &str,
    place: &Place,
    deadline: Instant,
    mut go_on: impl FnMut() -> bool,
) -> io::Result<TcpStream> {
    let greeting =
        Greeting { token: token.to_owned(), rank: place.rank, count: place.count, purpose: Purpose::Packets };
    let enough = now() + CONNECT;
    loop {
        let connected = TcpStream::connect_timeout(&address, CONNECT).and_then(|stream| {
            greet(&stream, &greeting)?;
            answer::<bool>(&stream, deadline, &mut go_on)?;
            Ok(stream)
        });
        match connected {
            Err(_) if now() < enough && go_on() => thread::sleep(PAUSE),
            connected => return connected,
        }
    }
}

/// Result of the rendezvous.
#[derive(Debug)]
pub struct Met {
    /// Lines: at rank 0 to all others, by rank; at any other rank to rank 0 alone.
    pub lines: Vec<TcpStream>,
    /// Members from rank 1 on, at rank 0.
    pub members: Vec<Member>,
    /// Listener for later connections.
    pub arrivals: Arrivals,
    /// Token of the run.
    pub token: String,
}

/// Performs the rendezvous. `near` is the path of the results, if it is known: the rendezvous file is beside
/// it.
pub fn meet(arguments: &Arguments, place: &Place, near: Option<&Path>, me: Member) -> Result<Met, Failure> {
    if place.rank == 0 { receive(arguments, place, near) } else { find(arguments, place, near, me) }
}

/// Rank 0's part: waits for all others.
fn receive(arguments: &Arguments, place: &Place, near: Option<&Path>) -> Result<Met, Failure> {
    let given = given_token()?;
    let token = given.clone().map_or_else(drawn_token, Ok)?;
    let listener = listen(arguments.rendezvous.as_deref(), place)?;
    let arrivals = Arrivals::at(listener, &token).map_err(Failure::run)?;
    let told = Meeting { address: arrivals.address, token: token.clone() };
    let mut file = None;
    let looked_for = match (&arguments.rendezvous, given, place.pmi) {
        (Some(address), Some(_), _) => format!("they look for {address}"),
        (_, _, Some(descriptor)) if arguments.rendezvous_file.is_none() => {
            let patience = arguments.patience();
            pmi::share(descriptor, Some(&told.to_text()), patience)
                .map_err(|error| refused_by_launcher(error, place, patience))?;
            format!("they look for {}", told.address)
        }
        _ => {
            let path = file_path(arguments, place, near);
            file = Some(told.write(&path)?);
            format!(
                "they look for {}, which must be in a folder that all machines share, and is named by --rendezvous-file",
                path.display()
            )
        }
    };
    let deadline = now() + arguments.patience();
    let mut others: Vec<Option<(TcpStream, Member)>> = (1..place.count).map(|_| None).collect();
    while others.iter().any(Option::is_none) {
        let Ok((rank, count, purpose, stream)) = arrivals.next(deadline) else {
            let missing: Vec<String> = (1..place.count)
                .filter(|rank| others[rank - 1].is_none())
                .map(|rank| rank.to_string())
                .collect();
            return Err(Failure::run(format!(
                "of {} ranks, {} {} not come within {} s: {looked_for}",
                place.count,
                list(&missing),
                if missing.len() == 1 { "has" } else { "have" },
                arguments.rendezvous_timeout
            )));
        };
        let Purpose::Line(member) = purpose else { continue };
        match others.get_mut(rank.wrapping_sub(1)) {
            Some(other) if other.is_none() && count == place.count && greet(&stream, &true).is_ok() => {
                *other = Some((stream, member));
            }
            // A rank of another run: refused, it retries until it finds its own.
            _ => drop(greet(&stream, &false)),
        }
    }
    drop(file);
    let (lines, members) = others.into_iter().flatten().unzip();
    Ok(Met { lines, members, arrivals, token })
}

/// Other ranks' part: finds rank 0 and connects to it.
fn find(arguments: &Arguments, place: &Place, near: Option<&Path>, me: Member) -> Result<Met, Failure> {
    let given = given_token()?;
    let fixed = match (&arguments.rendezvous, given, place.pmi) {
        (Some(text), Some(token), _) => {
            let (host, port) = host_and_port(text);
            if port == 0 {
                return Err(Failure::usage(format!(
                    "--rendezvous {text}: name a port too, as in {text}:7700, where {TOKEN} is set"
                )));
            }
            let address = addresses(&host, port)?;
            Some(Meeting { address, token })
        }
        (_, _, Some(descriptor)) if arguments.rendezvous_file.is_none() => {
            let patience = arguments.patience() + LONGER;
            let text = pmi::share(descriptor, None, patience).and_then(|text| {
                Meeting::parse(&text).ok_or_else(|| io::Error::other("it has another text"))
            });
            Some(text.map_err(|error| refused_by_launcher(error, place, patience))?)
        }
        _ => None,
    };
    let path = file_path(arguments, place, near);
    let deadline = now() + arguments.patience() + LONGER;
    let mut why = format!(
        "there is no {}: all machines must share its folder; --rendezvous-file names another file",
        path.display()
    );
    loop {
        let meeting = fixed.clone().map_or_else(|| Meeting::read(&path), Ok);
        // The file of another run may name an address that never answers.
        let stands =
            |meeting: &Meeting| fixed.is_some() || Meeting::read(&path).map_or(true, |told| told == *meeting);
        match meeting.and_then(|meeting| come(&meeting, place, &me, deadline, || stands(&meeting))) {
            Ok(met) => return Ok(met),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => why = error.to_string(),
        }
        if now() >= deadline {
            return Err(Failure::run(format!(
                "rank {} of {} on {} does not find rank 0: {why}",
                place.rank, place.count, me.host
            )));
        }
        thread::sleep(PAUSE);
    }
}

/// Connects to rank 0, and waits for its answer until `deadline`, as long as `stands` confirms the meeting.
fn come(
    meeting: &Meeting,
    place: &Place,
    me: &Member,
    deadline: Instant,
    stands: impl FnMut() -> bool,
) -> io::Result<Met> {
    let token = &meeting.token;
    let failed = |error| io::Error::other(format!("rank 0 at {} does not answer ({error})", meeting.address));
    let stream = TcpStream::connect_timeout(&meeting.address, CONNECT).map_err(failed)?;
    // Other ranks reach this one on the interface that leads to rank 0.
    let listener = TcpListener::bind((stream.local_addr()?.ip(), 0))?;
    let arrivals = Arrivals::at(listener, token)?;
    let member = Member { address: Some(arrivals.address), ..me.clone() };
    let (rank, count) = (place.rank, place.count);
    greet(&stream, &Greeting { token: token.clone(), rank, count, purpose: Purpose::Line(member) })
        .map_err(failed)?;
    if !answer::<bool>(&stream, deadline, stands).map_err(failed)? {
        return Err(io::Error::other(format!(
            "the run at {} has a rank {} already",
            meeting.address, place.rank
        )));
    }
    Ok(Met { lines: vec![stream], members: Vec::new(), arrivals, token: token.clone() })
}

fn refused_by_launcher(error: io::Error, place: &Place, patience: Duration) -> Failure {
    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        return Failure::run(format!(
            "of {} ranks, some have not come to the launcher's barrier within {} s: --rendezvous-timeout gives them longer",
            place.count,
            patience.as_secs()
        ));
    }
    Failure::run(format!(
        "the launcher's PMI does not work ({error}): name a file in a folder that all ranks share by --rendezvous-file"
    ))
}

fn given_token() -> Result<Option<String>, Failure> {
    match std::env::var(TOKEN) {
        Ok(token) if token.len() < TOKEN_LEN => Err(Failure::usage(format!(
            "{TOKEN} is shorter than {TOKEN_LEN} characters: give one that nobody guesses"
        ))),
        given => Ok(given.ok()),
    }
}

/// Draws a random token of 256 bits.
pub fn drawn_token() -> Result<String, Failure> {
    secret::drawn(32).map_err(Failure::run)
}

/// Binds rank 0's listener.
fn listen(named: Option<&str>, place: &Place) -> Result<TcpListener, Failure> {
    if let Some(text) = named {
        let (host, port) = host_and_port(text);
        let address = addresses(&host, port)?;
        if address.ip().is_unspecified() {
            return Err(Failure::usage(format!(
                "--rendezvous {text}: name the address at which others reach rank 0's machine"
            )));
        }
        return TcpListener::bind(address).map_err(|error| {
            Failure::usage(format!("--rendezvous {text}: {error}: name an address of rank 0's machine"))
        });
    }
    if place.on_one_machine != Some(false) {
        return TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Failure::run);
    }
    let name = super::roster::host_name();
    let usable = |address: &SocketAddr| !address.ip().is_loopback() && !address.ip().is_unspecified();
    let address = (name.as_str(), 0).to_socket_addrs().ok().and_then(|mut all| all.find(usable));
    let listener = address.and_then(|address| TcpListener::bind(address).ok());
    listener.ok_or_else(|| {
        Failure::usage(format!(
            "ranks are on several machines, and this one's name, {name}, leads to no address that others reach: name one of \
             rank 0's machine by --rendezvous"
        ))
    })
}

/// Splits HOST[:PORT]. The port is 0 if it is missing.
fn host_and_port(text: &str) -> (String, u16) {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return (address.ip().to_string(), address.port());
    }
    // An IPv6 address contains colons.
    match text.rsplit_once(':') {
        Some((host, port)) if text.parse::<IpAddr>().is_err() && !host.is_empty() => match port.parse() {
            Ok(port) => (host.to_owned(), port),
            Err(_) => (text.to_owned(), 0),
        },
        _ => (text.to_owned(), 0),
    }
}

fn addresses(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    let found = (host, port).to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| {
        Failure::usage(format!(
            "--rendezvous: '{host}' is no address and no name of a machine; give HOST or HOST:PORT"
        ))
    })
}

/// Returns the path of the rendezvous file. It is the same for all ranks of a job, and differs between jobs.
fn file_path(arguments: &Arguments, place: &Place, near: Option<&Path>) -> PathBuf {
    if let Some(path) = &arguments.rendezvous_file {
        return path.clone();
    }
    let job = place.job.clone().unwrap_or_else(|| {
        let mut hasher = Sha256::new();
        for argument in std::env::args_os().skip(1) {
            hasher.update(argument.as_encoded_bytes());
            hasher.update([0]);
        }
        hex(&hasher.finalize()[..8])
    });
    let job: String =
        job.chars().map(|c| if c.is_ascii_alphanumeric() || "-._@".contains(c) { c } else { '-' }).collect();
    let folder = near.and_then(Path::parent).filter(|parent| !parent.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).join(format!("{FILE}.{job}"))
}

/// Rendezvous file. Dropping the value removes it.
struct MeetingFile(PathBuf);

impl Drop for MeetingFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl Meeting {
    fn to_text(&self) -> String {
        format!("{}/{}", self.address, self.token)
    }

    fn parse(text: &str) -> Option<Meeting> {
        let (address, token) = text.trim_end().split_once('/')?;
        let address = address.parse().ok()?;
        (token.len() >= TOKEN_LEN).then(|| Meeting { address, token: token.to_owned() })
    }

    /// Writes the rendezvous file atomically, readable for this user only.
    fn write(&self, path: &Path) -> Result<MeetingFile, Failure> {
        let begun = path.with_extension(format!("{}.begun", std::process::id()));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let written = folder.map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&begun)?;
            file.write_all(self.to_text().as_bytes())?;
            fs::rename(&begun, path)
        });
        written.map_err(|error| {
            let _ = fs::remove_file(&begun);
            Failure::run(format!(
                "cannot write {}, by which ranks find each other: {error}; name another file by --rendezvous-file",
                path.display()
            ))
        })?;
        Ok(MeetingFile(path.to_owned()))
    }

    /// Reads a rendezvous file. A file that other users can write is rejected, since it could impersonate
    /// rank 0.
    fn read(path: &Path) -> io::Result<Meeting> {
        // Reading the folder makes a network file system look for new files.
        let _ = fs::read_dir(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")));
        let mut file = belljar_inputs::open(path)?;
        let status = file.metadata()?;
        if status.uid() != geteuid().as_raw() || status.mode() & 0o077 != 0 {
            return Err(io::Error::other(format!("{} is not this user's alone", path.display())));
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Meeting::parse(&text)
            .ok_or_else(|| io::Error::other(format!("{} has another content", path.display())))
    }
}

/// Joins ranks for a message.
fn list(ranks: &[String]) -> String {
    match ranks {
        [one] => format!("rank {one}"),
        [some @ .., last] => format!("ranks {} and {last}", some.join(", ")),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        let of = |text| host_and_port(text);
        assert_eq!(of("node1:70"), ("node1".into(), 70));
        assert_eq!(of("node1"), ("node1".into(), 0));
        assert_eq!(of("::1"), ("::1".into(), 0));
        assert_eq!(of("[::1]:70"), ("::1".into(), 70));
        assert_eq!(of("10.0.0.1:70"), ("10.0.0.1".into(), 70));
    }

    #[test]
    fn the_file_is_believed_only_if_nobody_else_could_have_written_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/.belljar-ranks.7");
        let meeting = Meeting { address: "127.0.0.1:7".parse().unwrap(), token: "0123456789abcdef".into() };
        let file = meeting.write(&path).unwrap();
        assert_eq!(Meeting::read(&path).unwrap(), meeting);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let error = Meeting::read(&path).unwrap_err().to_string();
        assert!(error.contains("not this user's alone"), "{error}");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "127.0.0.1:7/short").unwrap();
        assert!(Meeting::read(&path).unwrap_err().to_string().contains("another content"));
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn who_has_not_the_token_does_not_arrive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let arrivals = Arrivals::at(listener, "the right token").unwrap();
        let place = Place { rank: 3, count: 4, job: None, on_one_machine: None, pmi: None };
        let soon = || now() + Duration::from_secs(300);
        let mut tries = 0;
        let stranger = connect(arrivals.address, "the wrong token", &place, soon(), || {
            tries += 1;
            tries < 3
        });
        assert!(stranger.is_err() && tries >= 3, "{stranger:?}, {tries}");
        let _known = connect(arrivals.address, "the right token", &place, soon(), || true).unwrap();
        let (rank, _) = arrivals.packets(soon()).unwrap();
        assert_eq!(rank, 3);
        assert!(arrivals.packets(now() + Duration::from_millis(10)).is_none());
    }

    #[test]
    fn a_connection_that_is_refused_or_dropped_is_made_again() {
        let place = Place { rank: 3, count: 4, job: None, on_one_machine: None, pmi: None };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let token = "the right token";
        let other = thread::spawn(move || {
            // The listener drops the first connection, and the port is closed for a while.
            drop(listener.accept().unwrap());
            drop(listener);
            thread::sleep(Duration::from_millis(300));
            let arrivals = Arrivals::at(TcpListener::bind(address).unwrap(), token).unwrap();
            arrivals.packets(now() + Duration::from_secs(20)).map(|(rank, _)| rank)
        });
        connect(address, token, &place, now() + Duration::from_secs(20), || true).unwrap();
        assert_eq!(other.join().unwrap(), Some(3));
    }

    #[test]
    fn rank_0_may_take_its_time_to_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let meeting = Meeting { address: listener.local_addr().unwrap(), token: "0123456789abcdef".into() };
        let place = Place { rank: 1, count: 2, job: None, on_one_machine: None, pmi: None };
        let mut looks = 0;
        // The answer follows the second check of the file; a second connection of the rank would be refused.
        let (ask, asked) = channel();
        let first = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            greeting::<Greeting>(&stream).unwrap();
            asked.recv().unwrap();
            greet(&stream, &true).unwrap();
        });
        let met = come(&meeting, &place, &Member::this(), now() + Duration::from_secs(60), || {
            looks += 1;
            if looks == 2 {
                ask.send(()).unwrap();
            }
            true
        });
        assert!(met.is_ok() && looks >= 2, "{met:?}");
        first.join().unwrap();
        // A changed file ends the wait.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let meeting = Meeting { address: listener.local_addr().unwrap(), ..meeting };
        let gone = come(&meeting, &place, &Member::this(), now() + Duration::from_secs(60), || false);
        assert!(gone.unwrap_err().to_string().contains("does not answer"));
    }

    #[test]
    fn ranks_are_listed() {
        let of = |ranks: &[&str]| list(&ranks.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>());
        assert_eq!((of(&["2"]), of(&["1", "2", "5"])), ("rank 2".into(), "ranks 1, 2 and 5".into()));
    }
}
