//! Clients: send requests at a rate, note each operation as a history, and read at the end.
//!
//! Clients have a node each, and one operation at a time. One whose operation has no known outcome gives way to a new
//! client, as in Jepsen: its process number is higher by the number of clients.

mod history;
mod worker;

use crate::cli::Client;
use crate::clock::Clock;
use crate::message::Message;
use crate::post::{self, Receiver, Sender};
use crate::services::drawn_seed;
use crate::workload::Generator;
use belljar_base::Stream;
use history::{Counts, History};
use std::process::ExitCode;
use std::time::Duration;
use worker::Worker;

/// All clients, and what they share.
struct Clients<'a> {
    options: &'a Client,
    workers: Vec<Worker>,
    generator: Generator,
    history: History,
    sender: Sender,
    receiver: Receiver,
    clock: Clock,
    random: Stream,
}

/// Runs the clients of a workload.
///
/// # Errors
/// A node answers in another form than the protocol's, fewer requests succeed than are to, or the history cannot be written.
pub fn run(options: &Client) -> Result<ExitCode, String> {
    let clock = Clock::start();
    let (sender, receiver) = post::open("localhost", clock)?;
    let count = options.concurrency.unwrap_or(options.nodes.len() as u32);
    let workers = (0..count).map(|index| {
        let node = &options.nodes[index as usize % options.nodes.len()];
        Worker::new(index.into(), count.into(), node)
    });
    let mut clients = Clients {
        options,
        workers: workers.collect(),
        generator: Generator::new(options),
        history: History::create(&options.history, clock)?,
        sender,
        receiver,
        clock,
        random: drawn_seed()?.stream(&["maelstrom", "client"]),
    };
    clients.work()?;
    clients.rest()?;
    clients.read_at_last()?;
    report(clients.history.counts, options.availability)
}

/// Prints the numbers of operations, and holds them to the share that must succeed.
fn report(counts: Counts, availability: Option<f64>) -> Result<ExitCode, String> {
    let Counts { ok, fail, info } = counts;
    let all = ok + fail + info;
    println!("operations: {all}, ok: {ok}, failed: {fail}, unknown: {info}");
    let share = if all == 0 { 0.0 } else { ok as f64 / all as f64 };
    match availability {
        Some(least) if share < least => Err(format!(
            "{:.1} % of the requests succeeded, fewer than {:.1} %",
            share * 100.0,
            least * 100.0
        )),
        _ => Ok(ExitCode::SUCCESS),
    }
}

impl Clients<'_> {
    /// Sends requests at the rate until the time limit.
    fn work(&mut self) -> Result<(), String> {
        let end = Duration::from_secs_f64(self.options.time_limit);
        let mut due = self.gap();
        while self.clock.now() < end {
            let now = self.clock.now();
            let free: Vec<usize> =
                (0..self.workers.len()).filter(|&one| self.workers[one].is_free()).collect();
            if now >= due && !free.is_empty() {
                let one = free[self.random.below(free.len() as u64) as usize];
                let operation = self.generator.operation(&mut self.workers[one].position, &mut self.random);
                self.invoke(one, operation, false)?;
                due = due.max(now) + self.gap();
                continue;
            }
            // Without a free client, only a reply or a time-out goes on.
            let next = if free.is_empty() { end } else { due.min(end) };
            self.wait(next)?;
        }
        Ok(())
    }

    /// Time between two requests: uniform, twice the mean at most.
    fn gap(&mut self) -> Duration {
        Duration::from_secs_f64(2.0 * self.random.unit() / self.options.rate)
    }

    /// Waits for open operations, and for the system to recover.
    fn rest(&mut self) -> Result<(), String> {
        let end = self.clock.now() + Duration::from_secs_f64(self.options.recovery.max(0.0));
        while self.clock.now() < end || self.workers.iter().any(|worker| !worker.is_free()) {
            let far = Duration::from_secs(3600);
            let next = if self.clock.now() < end { end } else { self.clock.now() + far };
            self.wait(next)?;
        }
        Ok(())
    }

    /// Lets each client carry out its operations of the end.
    fn read_at_last(&mut self) -> Result<(), String> {
        loop {
            let mut is_busy = false;
            for one in 0..self.workers.len() {
                let worker = &mut self.workers[one];
                if worker.is_free() {
                    let step = worker.final_steps;
                    worker.final_steps += 1;
                    let Some(operation) = self.generator.last(&mut worker.position, step) else { continue };
                    self.invoke(one, operation, true)?;
                }
                is_busy = true;
            }
            if !is_busy {
                return Ok(());
            }
            self.wait(self.clock.now() + Duration::from_secs(3600))?;
        }
    }

    fn invoke(
        &mut self,
        one: usize,
        operation: crate::workload::Operation,
        is_final: bool,
    ) -> Result<(), String> {
        let timeout = Duration::from_millis(self.options.timeout);
        let worker = &mut self.workers[one];
        self.history.invoke(worker.process, &operation, is_final)?;
        let message = worker.request(operation, self.clock.now() + timeout);
        self.sender.send(&message)
    }

    /// Waits for a message, a time-out or a time, whichever is first.
    fn wait(&mut self, until: Duration) -> Result<(), String> {
        let deadlines = self.workers.iter().filter_map(Worker::deadline);
        let next = deadlines.min().map_or(until, |deadline| deadline.min(until));
        let wait = next.saturating_sub(self.clock.now());
        if let Some(message) = self.receiver.receive(Some(wait))? {
            self.arrived(&message)?;
        }
        let now = self.clock.now();
        for worker in &mut self.workers {
            if worker.deadline().is_some_and(|deadline| deadline <= now) {
                worker.timed_out(&mut self.history)?;
            }
        }
        Ok(())
    }

    fn arrived(&mut self, message: &Message) -> Result<(), String> {
        match self.workers.iter_mut().find(|worker| worker.awaits(message)) {
            Some(worker) => worker.answered(message, &mut self.history),
            // The client has given up on it.
            None => Ok(()),
        }
    }
}
