//! The process management interface of MPICH's launcher, PMI-1: lines of `key=value` words over an inherited
//! socket. Its only use here is that rank 0 distributes a secret text to all other ranks.

use belljar_channel::inherited_socket;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Key of the text in the launcher's store.
const KEY: &str = "belljar";

/// Connection of a process to its launcher.
struct Pmi {
    stream: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Pmi {
    /// Sends a command. Returns the words of the reply, which must be the command `answer`.
    fn ask(&mut self, command: &str, answer: &str) -> io::Result<Vec<(String, String)>> {
        self.stream.write_all(format!("cmd={command}\n").as_bytes())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let words = line.split_whitespace().filter_map(|word| word.split_once('='));
        let words: Vec<(String, String)> = words.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let has = |key: &str, value: &str| words.iter().any(|(k, v)| k == key && v == value);
        let failed = words.iter().any(|(k, v)| k == "rc" && v != "0");
        if failed || !has("cmd", answer) {
            let command = command.split(' ').next().unwrap_or_default();
            return Err(io::Error::other(format!("the launcher answers '{}' to {command}", line.trim_end())));
        }
        Ok(words)
    }
}

/// Distributes rank 0's `text`, a word without '=', to all ranks. All ranks must call this function; `text`
/// is set at rank 0 only. `patience` is the timeout for each reply of the launcher, of which the barrier's
/// takes longest.
pub fn share(descriptor: i32, text: Option<&str>, patience: Duration) -> io::Result<String> {
    share_over(inherited_socket(descriptor)?, text, patience)
}

fn share_over(stream: UnixStream, text: Option<&str>, patience: Duration) -> io::Result<String> {
    // A timeout of zero is an error.
    stream.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
    let mut pmi = Pmi { answers: BufReader::new(stream.try_clone()?), stream };
    let value = |words: Vec<(String, String)>, key: &str| {
        let found = words.into_iter().find(|(k, _)| k == key).map(|(_, value)| value);
        found.ok_or_else(|| io::Error::other(format!("the launcher's answer has no {key}")))
    };
    pmi.ask("init pmi_version=1 pmi_subversion=1", "response_to_init")?;
    let store = value(pmi.ask("get_my_kvsname", "my_kvsname")?, "kvsname")?;
    if let Some(text) = text {
        pmi.ask(&format!("put kvsname={store} key={KEY} value={text}"), "put_result")?;
    }
    pmi.ask("barrier_in", "barrier_out")?;
    let shared = value(pmi.ask(&format!("get kvsname={store} key={KEY}"), "get_result")?, "value")?;
    // The launcher treats a process as failed if it has initialized and does not finalize.
    pmi.ask("finalize", "finalize_ack")?;
    Ok(shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Launcher for one process that replies like MPICH's, except for the command `refused`.
    fn launcher(refused: &'static str) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut store = String::new();
            let lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            for line in lines.map_while(Result::ok) {
                let command = line.split(' ').next().unwrap().strip_prefix("cmd=").unwrap();
                let answer = match command {
                    _ if command == refused => "cmd=response_to_init rc=-1".to_owned(),
                    "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
                    "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_7_0".to_owned(),
                    "put" => {
                        assert!(line.contains("kvsname=kvs_7_0 key=belljar "), "{line}");
                        store = line.split("value=").nth(1).unwrap().to_owned();
                        "cmd=put_result rc=0 msg=success".to_owned()
                    }
                    // The other ranks have not entered the barrier.
                    "barrier_in" if refused == "never" => continue,
                    "barrier_in" => "cmd=barrier_out".to_owned(),
                    "get" => format!("cmd=get_result rc=0 msg=success value={store}"),
                    "finalize" => "cmd=finalize_ack".to_owned(),
                    _ => panic!("{line}"),
                };
                writeln!(&theirs, "{answer}").unwrap();
            }
        });
        ours
    }

    #[test]
    fn a_text_comes_to_all() {
        let patience = Duration::from_secs(60);
        assert_eq!(share_over(launcher(""), Some("127.0.0.1:7/abc"), patience).unwrap(), "127.0.0.1:7/abc");
        let error = share_over(launcher("init"), None, patience).unwrap_err().to_string();
        assert!(error.contains("rc=-1' to init"), "{error}");
        let error = share_over(launcher("never"), None, Duration::from_millis(200)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
