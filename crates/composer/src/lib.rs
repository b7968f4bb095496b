//! Test templates of Antithesis: commands in `/opt/antithesis/test/v1/TEMPLATE`, which say by their names when they may run.
//!
//! [`main`] is the program `belljar-composer`, an ordinary Linux program: it draws a template and runs its commands for a time, one composition a run. It does
//! not know whether its host is simulated.
//!
//! | module | content |
//! |---|---|
//! | `template` | templates: the commands in a folder, by their kinds |
//! | `course` | the course of a run: which commands start when |
//! | `clock` | the clock of the host |
#![forbid(unsafe_code)]

mod clock;
mod course;
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
    let mut random = drawn_seed()?.stream(&["composer"]);
    let names = template::names(&options.tests)?;
    let name = match &options.template {
        Some(name) if names.contains(name) => name,
        Some(name) => {
            return Err(format!(
                "{} has no template {name}, but {}",
                options.tests.display(),
                names.join(", ")
            ));
        }
        None => &names[random.below(names.len() as u64) as usize],
    };
    let template = template::Template::read(&options.tests.join(name))?;
    println!("template {name}");
    let pace = course::Pace {
        time: Duration::from_secs_f64(options.time),
        parallel: options.parallel as usize,
        pause: options.pause,
    };
    let failed = course::Course::new(&template, pace, random).run()?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Random seed from the host, which a simulation derives from its own.
fn drawn_seed() -> Result<Seed, String> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .map_err(|error| format!("/dev/urandom cannot be read: {error}"))?;
    Ok(Seed(u64::from_le_bytes(bytes)))
}
