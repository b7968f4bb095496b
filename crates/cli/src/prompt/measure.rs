//! Pings between hosts and throughput, with the hosts' own programs.

use super::commands::Commands;
use crate::failure::Failure;
use std::io::Write as _;

/// Exit status of shells for a program that is not there.
const NOT_FOUND: u8 = 127;
/// Seconds of a measurement of throughput.
const SECONDS: u32 = 5;

/// Pings that were sent and answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pings {
    /// Number sent.
    pub sent: u64,
    /// Number answered.
    pub received: u64,
}

impl Pings {
    /// Last line of Mininet's results.
    fn summary(self) -> String {
        let lost = 100.0 * (self.sent - self.received) as f64 / (self.sent.max(1)) as f64;
        let lost = if lost.fract() == 0.0 { format!("{lost:.0}") } else { format!("{lost:.2}") };
        format!("*** Results: {lost}% dropped ({}/{} received)", self.received, self.sent)
    }
}

/// Pings from each of the hosts to each other one.
pub fn ping_all(commands: &Commands, hosts: &[String]) -> Result<Pings, Failure> {
    println!("*** Ping: testing ping reachability");
    let mut all = Pings::default();
    for from in hosts {
        print!("{from} -> ");
        let _ = std::io::stdout().flush();
        for to in hosts.iter().filter(|to| *to != from) {
            let address = commands.address(to)?;
            let (status, text) = commands.capture(from, &format!("ping -c 1 -W 1 {address}"))?;
            if status == NOT_FOUND {
                println!();
                return Err(Failure::run(
                    "there is no program 'ping' on the hosts: install it (iputils-ping)",
                ));
            }
            if status == crate::tty::LEFT {
                println!();
                return Err(Failure::run("interrupted"));
            }
            let received = u64::from(status == 0 && text.contains("1 received"));
            all = Pings { sent: all.sent + 1, received: all.received + received };
            print!("{} ", if received == 1 { to } else { "X" });
            let _ = std::io::stdout().flush();
        }
        println!();
    }
    println!("{}", all.summary());
    Ok(all)
}

/// Throughput of TCP from one host to another.
pub fn iperf(commands: &Commands, from: &str, to: &str) -> Result<(), Failure> {
    let address = commands.address(to)?;
    println!("*** Iperf: testing TCP bandwidth between {from} and {to}");
    let (status, _) = commands.capture(to, "command -v iperf3")?;
    if status != 0 {
        return Err(Failure::run("there is no program 'iperf3' on the hosts: install it"));
    }
    // The server serves one client.
    commands.start(to, "iperf3 -s -1 >/dev/null 2>&1")?;
    let client = format!("sleep 0.5; iperf3 -f m -t {SECONDS} -c {address}");
    let (status, text) = commands.capture(from, &client)?;
    match rates(&text) {
        Some([sent, received]) if status == 0 => println!("*** Results: ['{sent}', '{received}']"),
        _ => {
            let why =
                text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it has said nothing");
            return Err(Failure::run(format!("iperf3 on {from} failed: {}", why.trim())));
        }
    }
    Ok(())
}

/// Rates of sender and receiver in the output of iperf3.
fn rates(text: &str) -> Option<[String; 2]> {
    let of = |side: &str| {
        let line = text.lines().find(|line| line.trim_end().ends_with(side))?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let unit = words.iter().position(|word| word.ends_with("bits/sec"))?;
        Some(format!("{} {}", words.get(unit.checked_sub(1)?)?, words[unit]))
    };
    Some([of("sender")?, of("receiver")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_as_mininet_prints_them() {
        assert_eq!(Pings { sent: 6, received: 6 }.summary(), "*** Results: 0% dropped (6/6 received)");
        assert_eq!(Pings { sent: 6, received: 4 }.summary(), "*** Results: 33.33% dropped (4/6 received)");
        assert_eq!(Pings::default().summary(), "*** Results: 0% dropped (0/0 received)");
    }

    #[test]
    fn rates_are_those_of_both_sides() {
        let text = "[  5]   0.00-5.00   sec  5.88 MBytes  9.86 Mbits/sec    0            sender\n\
                    [  5]   0.00-5.04   sec  5.62 MBytes  9.35 Mbits/sec                  receiver\n";
        assert_eq!(rates(text), Some(["9.86 Mbits/sec".to_owned(), "9.35 Mbits/sec".to_owned()]));
        assert_eq!(rates("iperf3: error - unable to connect"), None);
    }
}
