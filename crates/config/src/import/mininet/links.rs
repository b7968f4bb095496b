//! Links of a Mininet script with the options of TCLink, and the events of `configLinkStatus`.

use super::{has, seconds};
use crate::error::Problem;
use crate::import::draft::{Cable, Draft};
use crate::import::interface_name;
use crate::import::record::{get, line, of_line, text};
use crate::yaml::Node;
use crate::yaml::section::{self, mapping};
use belljar_base::Map;
use belljar_net::units;

/// Options that are converted, and options without an effect on what packets see.
const CONVERTED: [&str; 5] = ["bw", "delay", "jitter", "loss", "max_queue_size"];
const INNER: [&str; 8] = ["use_htb", "use_hfsc", "use_tbf", "latency_ms", "txo", "rxo", "fast", "speedup"];

pub(super) fn add(
    draft: &mut Draft,
    link: &Node,
    number: usize,
    names: &Map<String, String>,
) -> Result<(), Problem> {
    let at = line(link)?;
    let end = |key: &str| -> Result<String, Problem> {
        let own = get(link, key);
        let [node, interface] = section::list(&own, key)? else {
            return Err(own.problem("an end has two parts"));
        };
        let (node, interface) = (section::string(node, "node")?, section::string(interface, "interface")?);
        let name =
            names.get(node).ok_or_else(|| Problem::at(of_line(at), format!("there is no node '{node}'")))?;
        Ok(format!("{name}:{}", interface_name(interface)))
    };
    let mut cable = Cable::between(end("first")?, end("second")?);
    cable.name = Some(format!("link{number}"));
    let (there, back) = (properties(&get(link, "there"), at)?, properties(&get(link, "back"), at)?);
    if there != back {
        let written: Vec<String> = back.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        let missing = there.iter().filter(|(key, _)| !back.iter().any(|(own, _)| own == key));
        let neutral = missing.filter_map(|(key, _)| match *key {
            "latency" => Some("latency: 1 ns".to_owned()),
            "packet_loss" => Some("packet_loss: 0".to_owned()),
            "jitter" => Some("jitter: 0".to_owned()),
            _ => None,
        });
        let all: Vec<String> = written.into_iter().chain(neutral).collect();
        cable.settings = there;
        cable.settings.push(("reverse", format!("{{{}}}", all.join(", "))));
        if !all.is_empty() {
            draft.cables.push(cable);
            note(draft, link, at)?;
            return Ok(());
        }
        cable.settings.pop();
    } else {
        cable.settings = there;
    }
    draft.cables.push(cable);
    note(draft, link, at)
}

/// Properties of one direction.
fn properties(options: &Node, at: usize) -> Result<Vec<(&'static str, String)>, Problem> {
    let wrong = |message: String| Problem::at(of_line(at), message);
    let value = |key: &str| has(options, key).then(|| text(options, key)).transpose();
    let number = |key: &str| -> Result<Option<f64>, Problem> {
        let text = value(key)?;
        let number = |text: String| {
            let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
            number.ok_or_else(|| wrong(format!("'{key}' of this link is '{text}', which is no number")))
        };
        text.map(number).transpose()
    };
    let mut all = Vec::new();
    if let Some(rate) = number("bw")?.filter(|rate| *rate > 0.0) {
        all.push(("rate", format!("{} Kbit", (rate * 1000.0).round() as u64)));
    }
    for (key, own) in [("latency", "delay"), ("jitter", "jitter")] {
        let Some(text) = value(own)?.filter(|text| !text.trim().is_empty()) else { continue };
        // tc(8) reads a number without a unit as microseconds.
        let written = if text.trim().parse::<f64>().is_ok() {
            format!("{} us", text.trim())
        } else {
            text.trim().to_owned()
        };
        let duration = units::parse_duration(&written);
        let duration = duration.map_err(|error| wrong(format!("'{own}' of this link: {}", error.message)))?;
        if key == "jitter" || duration.as_nanos() > 0 {
            all.push((key, units::format_duration(duration)));
        }
    }
    if let Some(loss) = number("loss")?.filter(|loss| *loss > 0.0) {
        all.push(("packet_loss", (loss / 100.0).min(1.0).to_string()));
    }
    if let Some(packets) = number("max_queue_size")?.filter(|packets| *packets >= 1.0) {
        all.push(("queue", format!("{{packets: {packets}}}")));
    }
    Ok(all)
}

/// Notes the options that are not converted.
fn note(draft: &mut Draft, link: &Node, at: usize) -> Result<(), Problem> {
    for side in ["there", "back"] {
        for entry in mapping(&get(link, side), "options")? {
            let key = entry.key.as_str();
            if !CONVERTED.contains(&key) && !INNER.contains(&key) {
                draft.note_at(at, format!("option '{key}' of this link is not taken over"));
            }
        }
    }
    Ok(())
}

/// A link that is taken down or up, or whose properties change in the direction from one node.
pub(super) fn event(draft: &mut Draft, event: &Node, names: &Map<String, String>) -> Result<(), Problem> {
    let (at, link, status) = (seconds(event)?, text(event, "link")?, text(event, "status")?);
    match &*status {
        "up" | "down" => draft.events.push(format!("{{at: {at} s, link_{status}: link{link}}}")),
        "change" => {
            let line = line(event)?;
            let from = names.get(&text(event, "from")?).cloned().unwrap_or_default();
            let changes = properties(&get(event, "options"), line)?;
            let changes: Vec<String> =
                changes.iter().map(|(key, value)| format!(", {key}: {value}")).collect();
            match changes.is_empty() {
                true => draft.note_at(line, "this change of an interface is not taken over"),
                false => draft.events.push(format!(
                    "{{at: {at} s, link_change: {{link: link{link}, from: {from}}}{}}}",
                    changes.concat()
                )),
            }
        }
        other => {
            return Err(Problem::at(of_line(line(event)?), format!("'{other}' is not a status of a link")));
        }
    }
    Ok(())
}
