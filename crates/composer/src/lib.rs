//! Test templates of Antithesis: commands in `/opt/antithesis/test/v1/TEMPLATE`, which say by their names when they may run.
//!
//! [`main`] is the program `belljar-composer`, an ordinary Linux program: it draws a template and runs its commands for a time, one composition a run. It does
//! not know whether its host is simulated.
//!
//! | module | content |
//! |---|---|
//! | `template` | templates: the commands in a folder, by their kinds |
//! | `course` | the course of a run: which commands start when |
//! | `fleet` | the commands that run, on all hosts |
//! | `runner` | the commands that run on this host |
//! | `group` | the other hosts of the run, as the first one leads them |
//! | `member` | a host that is led |
//! | `link` | the exchange between two hosts: each order and report once, whatever the network does |
//! | `message` | the datagrams |
//! | `clock` | the clock of the host |
#![forbid(unsafe_code)]

mod clock;
mod course;
mod fleet;
mod group;
mod link;
mod member;
mod message;
mod runner;
mod template;

use belljar_base::Seed;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the commands of a test template: first_, parallel_driver_, serial_driver_, singleton_driver_, anytime_, eventually_ and finally_.
///
/// The template, the commands and their times are drawn from the host's random numbers. Faults should end before the time does, because commands
/// eventually_ expect a system that recovers.
#[derive(Parser)]
#[command(name = "belljar-composer", version)]
struct Cli {
    /// Folder of the templates
    #[arg(long, default_value = "/opt/antithesis/test/v1")]
    tests: PathBuf,
    /// Template; one is drawn if it is left out
    #[arg(long)]
    template: Option<String>,
    /// Seconds during which drivers are started
    #[arg(long, default_value_t = 30.0, value_parser = seconds)]
    time: f64,
    /// Largest number of parallel drivers at a time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    parallel: u64,
    /// Mean seconds between the starts of two commands
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    pause: f64,
    /// Hosts that run one template together, such as a,b,c: each has a belljar-composer, and the first decides for all
    #[arg(long, value_delimiter = ',', num_args = 1)]
    hosts: Vec<String>,
    /// UDP port between them
    #[arg(long, default_value_t = 7018, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1e6).contains(number) && *number > 0.0);
    number.ok_or_else(|| "a number of seconds above 0 is needed".to_owned())
}

/// The program `belljar-composer`.
pub fn main() -> ExitCode {
    run(&Cli::parse()).unwrap_or_else(|error| {
        eprintln!("belljar-composer: {error}");
        ExitCode::FAILURE
    })
}

fn run(options: &Cli) -> Result<ExitCode, String> {
    let clock = clock::Clock::start();
    let mut random = drawn_seed()?.stream(&["composer"]);
    let failed = match role(&options.hosts)? {
        Role::First => lead(options, clock, random)?,
        Role::Other(first) => {
            let incarnation = random.next_u64().max(1);
            member::Member::new(&options.tests, options.port, incarnation, clock)?.run(first)?
        }
    };
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Part of this host in a run.
enum Role<'a> {
    /// It decides.
    First,
    /// It follows the named one.
    Other(&'a str),
}

fn role(hosts: &[String]) -> Result<Role<'_>, String> {
    let Some(first) = hosts.first() else { return Ok(Role::First) };
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_err(|error| format!("the name of this host cannot be read: {error}"))?;
    let name = name.trim();
    if let Some(twice) =
        hosts.iter().enumerate().find_map(|(at, host)| hosts.get(..at)?.contains(host).then_some(host))
    {
        return Err(format!("--hosts names {twice} twice"));
    }
    if !hosts.iter().any(|host| host == name) {
        return Err(format!("--hosts names {}, but not this host, {name}", hosts.join(", ")));
    }
    Ok(if first == name { Role::First } else { Role::Other(first) })
}

/// Runs a template on this host, and on those that it leads; gives the number of commands of this host that have failed.
fn lead(options: &Cli, clock: clock::Clock, mut random: belljar_base::Stream) -> Result<usize, String> {
    let mut group = None;
    if let Some(others) = options.hosts.get(1..).filter(|others| !others.is_empty()) {
        let epoch = random.next_u64().max(1);
        group = Some(group::Group::new(others, options.port, epoch, clock)?);
    }
    let chosen = choose(options, &mut random, group.as_mut());
    let (name, template) = match chosen {
        Ok(chosen) => chosen,
        Err(problem) => {
            group.iter_mut().for_each(group::Group::leave);
            return Err(problem);
        }
    };
    println!("template {name}");
    let pace = course::Pace {
        time: Duration::from_secs_f64(options.time),
        parallel: options.parallel as usize,
        pause: options.pause,
    };
    let own = runner::Runner::new(&options.tests.join(&name));
    let names = if group.is_some() { options.hosts.as_slice() } else { &[] };
    let mut fleet = fleet::Fleet::new(own, group, names, clock);
    let done = course::Course::new(&template, pace, random, &mut fleet).run();
    fleet.leave();
    done.map(|()| fleet.failed())
}

/// Draws a template of the hosts, and reads it.
fn choose(
    options: &Cli,
    random: &mut belljar_base::Stream,
    mut group: Option<&mut group::Group>,
) -> Result<(String, template::Template), String> {
    let mut names = template::names(&options.tests)?;
    if let Some(group) = &mut group {
        names.extend(group.templates()?);
        names.sort();
        names.dedup();
    }
    let drawn = match &options.template {
        Some(name) => names.iter().find(|known| *known == name),
        None => names.get(random.below(names.len() as u64) as usize),
    };
    let Some(name) = drawn else {
        let wanted = options.template.as_deref().unwrap_or_default();
        return Err(format!(
            "{} has no template {wanted}, but {}",
            options.tests.display(),
            names.join(", ")
        ));
    };
    let (mut template, folder) = (template::Template::default(), options.tests.join(name));
    if folder.is_dir() {
        template.add(0, &template::commands(&folder)?);
    }
    if let Some(group) = group {
        for (host, commands) in group.commands(name)?.iter().enumerate() {
            template.add(host + 1, commands);
        }
    }
    if !template.has_work() {
        return Err(format!(
            "{} has no driver: a name such as parallel_driver_write makes one",
            folder.display()
        ));
    }
    Ok((name.clone(), template))
}

/// Random seed from the host, which a simulation derives from its own.
fn drawn_seed() -> Result<Seed, String> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .map_err(|error| format!("/dev/urandom cannot be read: {error}"))?;
    Ok(Seed(u64::from_le_bytes(bytes)))
}
