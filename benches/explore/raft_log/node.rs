//! A node of async-raft whose log is a file, synced after each change.
//!
//!     raft_log NUMBER HOSTS... [--together]
//!
//! A connection has one line of JSON each way. With --together a deletion waits for the entries that follow it, and what agrees stays on the disk.

use anyhow::Result;
use async_raft::raft::{Entry, EntryPayload, MembershipConfig};
use async_raft::raft::{AppendEntriesRequest, AppendEntriesResponse, ClientWriteRequest};
use async_raft::raft::{InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest, VoteResponse};
use async_raft::storage::{CurrentSnapshotData, HardState, InitialState};
use async_raft::{AppData, AppDataResponse, Config, NodeId, Raft, RaftNetwork, RaftStorage, SnapshotPolicy};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Value(u64);
impl AppData for Value {}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Done;
impl AppDataResponse for Done {}

#[derive(Serialize, Deserialize)]
enum Request {
    Append(AppendEntriesRequest<Value>),
    Vote(VoteRequest),
    Write(u64),
    Read,
}

/// The log, in memory and as lines of a file.
struct Log {
    entries: Vec<Entry<Value>>,
    /// Term of each entry in the file, and the position of its end
    stored: Vec<(u64, u64)>,
    file: File,
}

impl Log {
    fn open() -> Log {
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open("log").expect("a log");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("a text");
        let mut log = Log { entries: Vec::new(), stored: Vec::new(), file };
        let mut end = 0;
        for line in text.lines() {
            let Ok(entry) = serde_json::from_str::<Entry<Value>>(line) else { break };
            end += line.len() as u64 + 1;
            log.stored.push((entry.term, end));
            log.entries.push(entry);
        }
        log
    }

    /// Makes the file what the memory is.
    fn store(&mut self) -> Result<()> {
        let same = self.entries.iter().zip(&self.stored).take_while(|(entry, stored)| entry.term == stored.0).count();
        let mut end = if same == 0 { 0 } else { self.stored[same - 1].1 };
        if same < self.stored.len() {
            self.stored.truncate(same);
            self.file.set_len(end)?;
        }
        self.file.seek(SeekFrom::Start(end))?;
        for entry in &self.entries[same..] {
            let line = serde_json::to_string(entry)? + "\n";
            self.file.write_all(line.as_bytes())?;
            end += line.len() as u64;
            self.stored.push((entry.term, end));
        }
        Ok(self.file.sync_all()?)
    }

    fn cut(&mut self, from: u64) {
        self.entries.retain(|entry| entry.index < from);
    }
}

struct Store {
    id: NodeId,
    together: bool,
    log: Mutex<Log>,
}

impl Store {
    fn add(&self, entries: &[Entry<Value>]) -> Result<()> {
        let mut log = self.log.lock().expect("no panic");
        if let Some(first) = entries.first() {
            log.cut(first.index);
        }
        log.entries.extend_from_slice(entries);
        log.store()
    }

    fn membership(&self) -> MembershipConfig {
        let log = self.log.lock().expect("no panic");
        let found = log.entries.iter().rev().find_map(|entry| match &entry.payload {
            EntryPayload::ConfigChange(change) => Some(change.membership.clone()),
            _ => None,
        });
        found.unwrap_or_else(|| MembershipConfig::new_initial(self.id))
    }
}

#[async_trait::async_trait]
impl RaftStorage<Value, Done> for Store {
    type Snapshot = Cursor<Vec<u8>>;
    type ShutdownError = std::io::Error;

    async fn get_membership_config(&self) -> Result<MembershipConfig> {
        Ok(self.membership())
    }

    async fn get_initial_state(&self) -> Result<InitialState> {
        let mut state = InitialState::new_initial(self.id);
        if let Ok(text) = std::fs::read("state") {
            state.hard_state = serde_json::from_slice(&text)?;
        }
        state.membership = self.membership();
        if let Some(last) = self.log.lock().expect("no panic").entries.last() {
            (state.last_log_index, state.last_log_term) = (last.index, last.term);
        }
        Ok(state)
    }

    async fn save_hard_state(&self, state: &HardState) -> Result<()> {
        let mut file = File::create("state.new")?;
        file.write_all(&serde_json::to_vec(state)?)?;
        file.sync_all()?;
        std::fs::rename("state.new", "state")?;
        Ok(File::open(".")?.sync_all()?)
    }

    async fn get_log_entries(&self, start: u64, stop: u64) -> Result<Vec<Entry<Value>>> {
        let log = self.log.lock().expect("no panic");
        Ok(log.entries.iter().filter(|entry| (start..stop).contains(&entry.index)).cloned().collect())
    }

    async fn delete_logs_from(&self, start: u64, stop: Option<u64>) -> Result<()> {
        assert!(stop.is_none());
        let mut log = self.log.lock().expect("no panic");
        log.cut(start);
        if self.together { Ok(()) } else { log.store() }
    }

    async fn append_entry_to_log(&self, entry: &Entry<Value>) -> Result<()> {
        self.add(std::slice::from_ref(entry))
    }

    async fn replicate_to_log(&self, entries: &[Entry<Value>]) -> Result<()> {
        self.add(entries)
    }

    async fn apply_entry_to_state_machine(&self, _: &u64, _: &Value) -> Result<Done> {
        Ok(Done)
    }

    async fn replicate_to_state_machine(&self, _: &[(&u64, &Value)]) -> Result<()> {
        Ok(())
    }

    async fn do_log_compaction(&self) -> Result<CurrentSnapshotData<Self::Snapshot>> {
        anyhow::bail!("there are no snapshots")
    }

    async fn create_snapshot(&self) -> Result<(String, Box<Self::Snapshot>)> {
        anyhow::bail!("there are no snapshots")
    }

    async fn finalize_snapshot_installation(&self, _: u64, _: u64, _: Option<u64>, _: String, _: Box<Self::Snapshot>) -> Result<()> {
        anyhow::bail!("there are no snapshots")
    }

    async fn get_current_snapshot(&self) -> Result<Option<CurrentSnapshotData<Self::Snapshot>>> {
        Ok(None)
    }
}

struct Network(Vec<String>);

impl Network {
    async fn ask<T: DeserializeOwned>(&self, target: NodeId, request: Request) -> Result<T> {
        let exchange = async {
            let mut stream = TcpStream::connect((self.0[target as usize - 1].as_str(), 7050)).await?;
            stream.write_all((serde_json::to_string(&request)? + "\n").as_bytes()).await?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).await?;
            Ok(serde_json::from_str(&line)?)
        };
        tokio::time::timeout(Duration::from_secs(1), exchange).await?
    }
}

#[async_trait::async_trait]
impl RaftNetwork<Value> for Network {
    async fn append_entries(&self, target: NodeId, rpc: AppendEntriesRequest<Value>) -> Result<AppendEntriesResponse> {
        self.ask(target, Request::Append(rpc)).await
    }

    async fn install_snapshot(&self, _: NodeId, _: InstallSnapshotRequest) -> Result<InstallSnapshotResponse> {
        anyhow::bail!("there are no snapshots")
    }

    async fn vote(&self, target: NodeId, rpc: VoteRequest) -> Result<VoteResponse> {
        self.ask(target, Request::Vote(rpc)).await
    }
}

type Node = Raft<Value, Done, Network, Store>;

async fn serve(node: &Node, store: &Store, stream: TcpStream) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let mut answer = match serde_json::from_str(&line)? {
        Request::Append(rpc) => serde_json::to_string(&node.append_entries(rpc).await?)?,
        Request::Vote(rpc) => serde_json::to_string(&node.vote(rpc).await?)?,
        Request::Write(value) => {
            node.client_write(ClientWriteRequest::new(Value(value))).await?;
            "true".to_owned()
        }
        Request::Read => {
            node.client_read().await?;
            let log = store.log.lock().expect("no panic");
            let values = log.entries.iter().filter_map(|entry| match &entry.payload {
                EntryPayload::Normal(entry) => Some(entry.data.0),
                _ => None,
            });
            serde_json::to_string(&values.collect::<Vec<u64>>())?
        }
    };
    answer.push('\n');
    Ok(stream.write_all(answer.as_bytes()).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let together = arguments.iter().any(|argument| argument == "--together");
    arguments.retain(|argument| argument != "--together");
    let id: NodeId = arguments.remove(0).parse()?;
    let config = Config::build("bench".to_owned())
        .heartbeat_interval(100)
        .election_timeout_min(500)
        .election_timeout_max(1000)
        .snapshot_policy(SnapshotPolicy::LogsSinceLast(u64::MAX));
    let store = Arc::new(Store { id, together, log: Mutex::new(Log::open()) });
    let members = (1..=arguments.len() as u64).collect();
    let node = Arc::new(Node::new(id, Arc::new(config.validate()?), Arc::new(Network(arguments)), store.clone()));
    // It is one already after a crash.
    let _ = node.initialize(members).await;
    let listener = TcpListener::bind(("0.0.0.0", 7050)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (node, store) = (node.clone(), store.clone());
        tokio::spawn(async move { serve(&node, &store, stream).await });
    }
}
