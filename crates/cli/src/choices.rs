//! Choices of a run as files: `--record-choices` and `--choices`.

use crate::failure::Failure;
use belljar_base::choices::{ChoiceFile, ChoiceReport, Choices};
use belljar_base::hex;
use belljar_config::{Experiment, Overrides, PlacementSetting, StraceMode};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Options about the choices of a run.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Write all that is drawn to this file, one choice a line: its stream, its number in it, its value and its default
    #[arg(long, value_name = "FILE", env = "BELLJAR_RECORD_CHOICES")]
    record_choices: Option<PathBuf>,
    /// Force the choices in this file; all others are drawn as ever
    #[arg(long, value_name = "FILE", env = "BELLJAR_CHOICES")]
    choices: Option<PathBuf>,
}

impl Arguments {
    /// Lets the run of an experiment record and force choices as the options say.
    pub fn apply(&self, experiment: &mut Experiment, in_ranks: bool) -> Result<(), Failure> {
        let forced = match &self.choices {
            Some(path) => Some(read(path)?),
            None => None,
        };
        if forced.is_none() && self.record_choices.is_none() {
            return Ok(());
        }
        if in_ranks {
            return Err(Failure::usage(
                "choices are recorded and forced in one machine's processes: use --cells instead of ranks",
            ));
        }
        if let Some(path) = &self.record_choices {
            // A file that cannot be written is noticed before the run.
            fs::write(path, "").map_err(|error| unwritable(path, &error))?;
        }
        let made_for = forced.as_ref().and_then(|file| file.experiment.clone());
        if let (Some(path), Some(made_for)) = (&self.choices, made_for)
            && made_for != digest(experiment)
        {
            experiment.notes.push(format!(
                "the choices in {} are of another experiment, or of another version of this one",
                path.display()
            ));
        }
        experiment.choices = Choices::new(forced.unwrap_or_default(), self.record_choices.is_some());
        Ok(())
    }

    /// Writes the recorded choices of a run.
    pub fn write(&self, experiment: &Experiment, report: &ChoiceReport) -> Result<(), Failure> {
        let Some(path) = &self.record_choices else { return Ok(()) };
        let written = File::create(path).map(BufWriter::new).and_then(|mut file| {
            report.write(&digest(experiment), &mut file)?;
            file.flush()
        });
        written.map_err(|error| unwritable(path, &error))
    }
}

fn read(path: &Path) -> Result<ChoiceFile, Failure> {
    let shown = path.display();
    let text = belljar_inputs::read_text(path)
        .map_err(|error| Failure::usage(format!("the choices in {shown} cannot be read: {error}")))?;
    ChoiceFile::parse(&text)
        .map_err(|problem| Failure::usage(format!("{shown} is no file of choices: {problem}")))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::run(format!("{} cannot be written: {error}", path.display()))
}

/// Digest of an experiment without what makes no difference to its choices: workers, placement, output.
pub fn digest(experiment: &Experiment) -> String {
    let mut plain = experiment.clone();
    plain.apply_overrides(&Overrides {
        parallelism: Some(1),
        data_directory: Some(PathBuf::new()),
        progress: Some(false),
        pcap_enabled: Some(false),
        strace_logging_mode: Some(StraceMode::Off),
        placement: Some(PlacementSetting::Auto),
        ..Overrides::default()
    });
    plain.general.template_directory = None;
    hex(&Sha256::digest(plain.to_yaml().as_bytes())[..8])
}
