//! `belljar draw`: the network of an experiment as a picture, for Graphviz or as GraphML.

mod formats;
mod layout;
mod svg;

use crate::failure::Failure;
use belljar_config::{Experiment, Setting};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Largest number of nodes of a picture. Other formats have all nodes.
const MOST_NODES: usize = 1_000;
/// Programs that make a PNG of an SVG on standard input, with their arguments.
const RASTERISERS: [(&str, &[&str]); 4] = [
    ("rsvg-convert", &["--zoom", "2", "--background-color", "white"]),
    ("convert", &["-density", "192", "svg:-", "png:-"]),
    ("magick", &["-density", "192", "svg:-", "png:-"]),
    (
        "python3",
        &[
            "-c",
            "import sys, cairosvg; sys.stdout.buffer.write(cairosvg.svg2png(bytestring=sys.stdin.buffer.read(), scale=2, background_color='white'))",
        ],
    ),
];

/// Draws the network of an experiment: nodes, links with their latency and rate, and hosts on the graph. The drawing
/// depends on the experiment alone, so it is the same each time.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  belljar draw examples/routers.yaml -o routers.svg\n  belljar draw examples/routers.yaml --format dot | dot -Tpdf -o routers.pdf\n  belljar draw examples/routers.yaml -o routers.graphml"
)]
pub struct Arguments {
    /// The experiment file (`-` reads standard input)
    file: PathBuf,
    /// Set a value of the experiment, whatever the file says, as `belljar run` does
    #[arg(long, value_name = "KEY=VALUE", value_parser = Setting::parse)]
    set: Vec<Setting>,
    /// The file to write; standard output if left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format, if the name of the file does not show it
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Leave out the latency and rate of links
    #[arg(long)]
    no_labels: bool,
}

/// Format of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A picture for documents and web pages
    Svg,
    /// A picture in pixels, by rsvg-convert, ImageMagick or Python's cairosvg
    Png,
    /// The language of Graphviz
    Dot,
    /// The graph with its properties as attributes
    Graphml,
}

impl Format {
    fn of(path: &Path) -> Option<Format> {
        match path.extension()?.to_str()? {
            "svg" => Some(Format::Svg),
            "png" => Some(Format::Png),
            "dot" | "gv" => Some(Format::Dot),
            "graphml" | "xml" => Some(Format::Graphml),
            _ => None,
        }
    }
}

/// Draws the experiment.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let format = match (arguments.format, &arguments.output) {
        (Some(format), _) => format,
        (None, None) => Format::Svg,
        (None, Some(path)) => Format::of(path).ok_or_else(|| {
            Failure::input(format!(
                "error: the name of {} shows no format\n = help: end it in .svg, .png, .dot or .graphml, or add --format",
                path.display()
            ))
        })?,
    };
    let experiment = Experiment::load_network(&arguments.file, &arguments.set).map_err(Failure::input)?;
    let is_picture = matches!(format, Format::Svg | Format::Png);
    let most = if is_picture { MOST_NODES } else { usize::MAX };
    let network = crate::topology::topology_of(&experiment, most, usize::MAX);
    let drawing = formats::Drawing::new(&network);
    if is_picture && (network.omitted_nodes > 0 || drawing.nodes.len() > MOST_NODES) {
        return Err(Failure::input(format!(
            "error: this network has more than {MOST_NODES} nodes, too many for a picture\n = help: write --format dot or --format graphml for a program that draws large graphs"
        )));
    }
    let content = match format {
        Format::Svg => svg::svg(&drawing, !arguments.no_labels).into_bytes(),
        Format::Png => png(&svg::svg(&drawing, !arguments.no_labels))?,
        Format::Dot => drawing.dot(!arguments.no_labels).into_bytes(),
        Format::Graphml => drawing.graphml().into_bytes(),
    };
    let written = match &arguments.output {
        Some(path) => std::fs::write(path, content),
        None => std::io::stdout().write_all(&content),
    };
    let name =
        arguments.output.as_ref().map_or("standard output".to_owned(), |path| path.display().to_string());
    written.map_err(|error| Failure::input(format!("error: {name} cannot be written: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Converts a picture by the first program that is there and can.
fn png(svg: &str) -> Result<Vec<u8>, Failure> {
    for (program, arguments) in RASTERISERS {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { continue };
        if let Some(mut pipe) = child.stdin.take() {
            // A program that cannot read it fails.
            let _ = pipe.write_all(svg.as_bytes());
        }
        let done = child.wait_with_output().map_err(Failure::run)?;
        if done.status.success() && done.stdout.starts_with(b"\x89PNG") {
            return Ok(done.stdout);
        }
    }
    Err(Failure::input(
        "error: there is no program that makes a PNG\n = help: install rsvg-convert (Debian: librsvg2-bin), ImageMagick or Python's cairosvg, or write .svg",
    ))
}
