//! First process of a host (init): it makes the host's root, and starts and reaps its processes. The host
//! ends with it.

use crate::attach::{self, Answer, Order, Streams};
use crate::clock::monotonic_ns;
use crate::error::{Doing, Error, Result};
use crate::files::Files;
use crate::freeze;
use crate::protocol::{self, Freezing, HostSetup, News, ProcessStart, Request};
use belljar_base::Map;
use belljar_plan::CLEAN_ENVIRONMENT;
use belljar_platform::dilate::places;
use nix::errno::Errno;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{AccessFlags, Pid, User, access};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Shell of every host, which finds attached programs.
const SHELL: &str = "/bin/sh";
/// Last process id to be skipped, so that the first process has the same id as in a simulation.
const LAST_PID: &str = "999";

/// State shared by both threads; the lock holder may write to the socket.
struct Shared {
    socket: Mutex<UnixStream>,
    /// Signalled when a process has been started.
    started: Condvar,
    /// Signalled when no process is left.
    idle: Condvar,
    /// Clients that wait for the end of a program that they have attached, by its process id.
    attached: Mutex<Map<i32, UnixStream>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, UnixStream> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn attached(&self) -> MutexGuard<'_, Map<i32, UnixStream>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn tell(&self, news: &News) {
        // Sending fails once the emulation is over, and this process is killed with it.
        let _ = protocol::send(&*self.lock(), news);
    }
}

/// Runs a host, which receives its setup and requests on standard input.
pub fn main() -> Result<()> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().doing("taking the connection")?;
    let socket = UnixStream::from(socket);
    let mut requests = BufReader::new(socket.try_clone().doing("sharing the connection")?);
    let shared = Arc::new(Shared {
        socket: Mutex::new(socket),
        started: Condvar::new(),
        idle: Condvar::new(),
        attached: Mutex::default(),
    });
    let Some(setup) = protocol::receive::<HostSetup>(&mut requests) else {
        return Err(Error::new("a host was told nothing"));
    };
    // No thread has been started, and the path is invisible after the change of the root.
    let clients = attach::listen(&setup.scratch);
    let mut group = None;
    match setup.dilated.as_ref().map(|dilated| &dilated.freezing) {
        Some(Freezing::Signals) => {
            let orders = std::io::stdout().as_fd().try_clone_to_owned().doing("taking the orders")?;
            std::thread::spawn(move || freeze::obey(orders.into()));
        }
        // The path is invisible after the change of the root.
        Some(Freezing::Group(members)) => {
            group = Some(File::options().write(true).open(members).doing("opening a control group")?);
        }
        _ => {}
    }
    let files = match prepare(&setup, &shared) {
        Ok(files) => files,
        Err(error) => {
            shared.tell(&News::Unfit(format!("host '{}': {error}", setup.name)));
            return Ok(());
        }
    };
    let of_reaper = shared.clone();
    std::thread::spawn(move || reap(&of_reaper));
    let group = Arc::new(group);
    match clients {
        Ok(clients) => {
            let host = (Arc::new(setup.clone()), group.clone(), shared.clone());
            std::thread::spawn(move || serve_clients(&clients, &host));
        }
        Err(error) => {
            shared.tell(&News::Warning(format!("host '{}': nothing can be attached: {error}", setup.name)));
        }
    }
    // A kernel without support for it assigns a low id to the first process.
    let _ = fs::write("/proc/sys/kernel/ns_last_pid", LAST_PID);
    shared.tell(&News::Ready);
    while let Some(request) = protocol::receive::<Request>(&mut requests) {
        match request {
            Request::Start(process) => start(&setup, &process, (*group).as_ref(), &shared),
            Request::Signal { pid, signal } => {
                if let Ok(signal) = Signal::try_from(signal) {
                    let _ = kill(Pid::from_raw(pid), signal);
                }
            }
            Request::Crash => drop(end_all(&shared)),
            Request::Boot => files.boot(),
            Request::Finish => {
                drop(end_all(&shared));
                if let Err(error) = files.finish() {
                    shared.tell(&News::Warning(format!("host '{}': {error}", setup.name)));
                }
                let usage = getrusage(UsageWho::RUSAGE_CHILDREN).doing("asking for the time used")?;
                let time = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
                shared.tell(&News::Finished { cpu_seconds: time as f64 / 1e6 });
                return Ok(());
            }
        }
    }
    Ok(())
}

fn prepare(setup: &HostSetup, shared: &Shared) -> Result<Files> {
    nix::unistd::sethostname(&setup.name).doing("setting the host's name")?;
    let (files, notes) = Files::enter(setup)?;
    for note in notes {
        shared.tell(&News::Warning(note));
    }
    for (name, value) in &setup.sysctls {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        if let Err(error) = fs::write(&path, value) {
            let why = if path.exists() {
                error.to_string()
            } else {
                "this kernel has no such setting for hosts".into()
            };
            shared.tell(&News::Warning(format!("sysctl '{name}' was not set: {why}")));
        }
    }
    Ok(files)
}

/// Kills all processes and waits until they have been reaped.
fn end_all(shared: &Shared) -> MutexGuard<'_, UnixStream> {
    let mut held = shared.lock();
    loop {
        // The signal does not reach the calling process itself.
        match kill(Pid::from_raw(-1), Signal::SIGKILL) {
            Err(Errno::ESRCH) => return held,
            _ => {
                let waited = shared.idle.wait_timeout(held, std::time::Duration::from_millis(20));
                held = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// Reaps processes for ever.
fn reap(shared: &Shared) {
    loop {
        // The process is left waitable at first: `start`, which may hold the lock, itself waits for a child
        // that failed to execute its program.
        let looked = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
        let at = monotonic_ns();
        let held = shared.lock();
        if looked == Err(Errno::ECHILD) {
            shared.idle.notify_all();
            drop(shared.started.wait_timeout(held, std::time::Duration::from_millis(100)));
            continue;
        }
        let (pid, exited, signaled) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => (pid, Some(code), None),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, None, Some(signal as i32)),
            _ => continue,
        };
        let _ = protocol::send(&*held, &News::Ended { pid: pid.as_raw(), exited, signaled, at });
        if let Some(client) = shared.attached().remove(&pid.as_raw()) {
            let _ = attach::send(&client, &Answer::Ended { exited, signaled }, &[]);
        }
    }
}

/// Starts a process. Its end cannot be reported before its start, as both require the lock.
fn start(setup: &HostSetup, process: &ProcessStart, group: Option<&File>, shared: &Shared) {
    let held = shared.lock();
    let at = monotonic_ns();
    let result = spawn(setup, process, group);
    let number = process.number;
    let news = match result {
        Ok(pid) => News::Started { number, pid, at },
        Err(reason) => News::Failed { number, reason, at },
    };
    let _ = protocol::send(&*held, &news);
    shared.started.notify_all();
}

fn spawn(
    setup: &HostSetup,
    process: &ProcessStart,
    group: Option<&File>,
) -> std::result::Result<i32, String> {
    // The files are renamed once the process id is known.
    let temporary = |stream: &str| setup.directory.join(format!(".{}.{stream}", process.number));
    let open = |stream: &str| -> std::result::Result<(PathBuf, File), String> {
        let path = temporary(stream);
        let file = File::create(&path).map_err(|e| format!("its {stream} cannot be written: {e}"))?;
        Ok((path, file))
    };
    let (out_path, out) = open("stdout")?;
    let (err_path, err) = open("stderr")?;
    let (arg0, args) = process.args.split_first().ok_or("it has no name")?;
    let mut command = match &setup.dilated {
        None => {
            let mut command = Command::new(&process.path);
            command.arg0(arg0);
            command
        }
        Some(_) => {
            // The shim could report the error only on the program's own standard error.
            access(&*process.path, AccessFlags::X_OK)
                .map_err(|e| format!("'{}' cannot be started: {}", process.path, e.desc()))?;
            let shim = Path::new(places::FOLDER).join(places::PROGRAM);
            let mut command = match group {
                None => Command::new(shim),
                Some(_) => {
                    let mut command = Command::new("/proc/self/exe");
                    command.arg(freeze::JOIN_COMMAND).arg("--").arg(shim);
                    command
                }
            };
            command.arg(&process.path).arg(arg0);
            command
        }
    };
    command.args(args).env_clear().envs(process.environment.iter().map(|(k, v)| (k, v)));
    command.current_dir(&setup.working_directory).process_group(0);
    let members = group.map(File::try_clone).transpose();
    let members = members.map_err(|error| format!("its control group cannot be entered: {error}"))?;
    command.stdin(members.map_or_else(Stdio::null, Stdio::from)).stdout(out).stderr(err);
    if let Some(name) = &process.user {
        let user = find_user(name)?;
        if !process.environment.iter().any(|(name, _)| name == "HOME") {
            command.env("HOME", &user.dir);
        }
        if user.uid.as_raw() != 0 {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
    }
    let child = command.spawn();
    let name = |stream: &str, pid: u32| setup.directory.join(format!("{}.{pid}.{stream}", process.program));
    match child {
        Ok(child) => {
            let _ = fs::rename(&out_path, name("stdout", child.id()));
            let _ = fs::rename(&err_path, name("stderr", child.id()));
            Ok(child.id() as i32)
        }
        Err(error) => {
            let _ = fs::remove_file(&out_path);
            let _ = fs::remove_file(&err_path);
            Err(format!("'{}' cannot be started: {error}", process.path))
        }
    }
}

/// What every client's program needs: setup of the host, its control group, if any, and the shared state.
type HostOf = (Arc<HostSetup>, Arc<Option<File>>, Arc<Shared>);

/// Serves the clients that attach programs, each on a thread of its own.
fn serve_clients(clients: &UnixListener, host: &HostOf) {
    for client in clients.incoming().map_while(std::result::Result::ok) {
        let host = host.clone();
        std::thread::spawn(move || serve_client(client, &host));
    }
}

fn serve_client(client: UnixStream, host: &HostOf) {
    let shared = &host.2;
    // A client that sends something else, or nothing, has no claim to an answer.
    let Ok(Some((order, fds))) = attach::receive::<Order>(&client) else { return };
    match start_attached(&client, &order, fds, host) {
        Ok(pid) => attach::end_with(client, pid, || shared.attached().contains_key(&pid)),
        Err(reason) => drop(attach::send(&client, &Answer::Failed(reason), &[])),
    }
}

/// Starts a client's program, and answers that it has started.
fn start_attached(
    client: &UnixStream,
    order: &Order,
    fds: Vec<OwnedFd>,
    (setup, group, shared): &HostOf,
) -> std::result::Result<i32, String> {
    let streams = Streams::new(order, fds).map_err(|error| error.to_string())?;
    let waiter = client.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(attach::ENTER_COMMAND);
    command.args(streams.master.iter().map(|_| "--terminal"));
    command.args((**group).iter().map(|_| "--group")).arg("--");
    if setup.dilated.is_some() {
        // The shim takes the path of the program before its arguments.
        command.arg(Path::new(places::FOLDER).join(places::PROGRAM)).arg(SHELL);
    }
    command.args([SHELL, "-c", "exec \"$@\"", "sh"]).args(&order.command);
    command.env_clear().envs(CLEAN_ENVIRONMENT).envs(order.environment.iter().map(|(k, v)| (k, v)));
    command.current_dir(&setup.working_directory);
    let Streams { standard: [input, output, error], master } = streams;
    command.stdin(input).stdout(output).stderr(error);
    let held = shared.lock();
    let at = monotonic_ns();
    let child = command.spawn().map_err(|error| format!("the program cannot be started: {error}"))?;
    let pid = child.id() as i32;
    if let Some(Err(error)) = (**group).as_ref().map(|group| attach::move_to(group, child.id())) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        return Err(format!("the control group of the host cannot be entered: {error}"));
    }
    let masters: Vec<_> = master.iter().map(AsFd::as_fd).collect();
    let started = attach::send(client, &Answer::Started, &masters);
    // The end of the program is reported after its start, since the reaper needs the lock.
    shared.attached().insert(pid, waiter);
    let _ = protocol::send(&*held, &News::Attended { pid, title: order.title.clone(), at });
    shared.started.notify_all();
    drop(started);
    Ok(pid)
}

fn find_user(name: &str) -> std::result::Result<User, String> {
    let found = match name.parse() {
        Ok(id) => User::from_uid(nix::unistd::Uid::from_raw(id)),
        Err(_) => User::from_name(name),
    };
    found.ok().flatten().ok_or_else(|| format!("there is no user '{name}'"))
}
