//! Damaged files cause errors, never panics, and an error's position lies within its file.

use super::*;
use belljar_base::{Seed, Stream};

/// `text` with up to four pieces removed, duplicated, moved or replaced.
fn damage(text: &str, stream: &mut Stream) -> String {
    const SCRAPS: &[&str] = &[
        "",
        "\n",
        "\t",
        "  ",
        ":",
        "-",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "'",
        "#",
        "&a",
        "*a",
        "<<: ",
        "|",
        ">",
        "!!str ",
        "~",
        "0",
        "-1",
        "99999999999999999999",
        "é",
        "\u{feff}",
        "\0",
        "---\n",
        "%",
        "@",
        "edge [",
        "node [ id 1 ]",
        "1.5",
    ];
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=stream.below(4) {
        let start = stream.below(chars.len() as u64 + 1) as usize;
        let end = (start + stream.below(12) as usize).min(chars.len());
        let piece: Vec<char> = match stream.below(3) {
            0 => SCRAPS[stream.below(SCRAPS.len() as u64) as usize].chars().collect(),
            1 => chars[start..end].repeat(2),
            _ => {
                let from = stream.below(chars.len() as u64 + 1) as usize;
                chars[from..(from + 20).min(chars.len())].to_vec()
            }
        };
        chars.splice(start..end, piece);
    }
    chars.into_iter().collect()
}

#[test]
fn damaged_files_give_errors_with_a_place() {
    let around = around();
    let mut good = 0;
    for seed in 0..4_000 {
        let text = damage(SHADOW, &mut Seed(seed).stream(&["damage"]));
        match Experiment::parse_in("test.yaml", &text, &around) {
            Ok(experiment) => {
                good += 1;
                let again = Experiment::parse_in("again", &experiment.to_yaml(), &PathContext::default());
                let mut again = again.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
                again.notes.clone_from(&experiment.notes);
                assert_eq!(again, experiment, "seed {seed}");
            }
            Err(error) => {
                assert!(!error.message.is_empty() && !error.to_string().is_empty());
                if let Some((line, column)) = error.position {
                    let lines = text.split('\n').count() as u32;
                    assert!(line >= 1 && column >= 1 && line <= lines + 1, "seed {seed}: {error}");
                }
            }
        }
    }
    assert!((50..2_000).contains(&good), "{good} of 4,000 still load: the damage is not of the right size");
}
