//! Properties common to a direction of a link and the event `link_change`, including the impairments: loss,
//! reordering, duplication, corruption.

use super::{queues, values};
use crate::error::Problem;
use crate::load::events_values::probability;
use crate::yaml::{Node, Section, Value, section};
use belljar_net::link::LinkOverrides;
use belljar_net::{GilbertElliott, Loss, Reordering};

/// The specified properties of a direction.
pub(crate) fn line_change(s: &Section) -> Result<LinkOverrides, Problem> {
    Ok(LinkOverrides {
        rate: s.read("rate", values::rate)?,
        loss: s.read("packet_loss", loss)?,
        reordering: s.read("reordering", reordering)?,
        duplication: s.read("duplication", probability)?,
        corruption: s.read("corruption", probability)?,
        queue: s.read("queue", |node, _| queues::queue(node))?,
        token_bucket: s.read("token_bucket", queues::token_bucket)?,
    })
}

/// `0.01`, or `{ gilbert_elliott: { to_bad: 0.01, to_good: 0.3 } }`.
fn loss(node: &Node, key: &str) -> Result<Loss, Problem> {
    if !matches!(node.value, Value::Mapping(_)) {
        return probability(node, key).map(Loss::Independent);
    }
    const EXAMPLE: &str = "gilbert_elliott: { to_bad: 0.01, to_good: 0.3 }";
    let s = Section::new(node, "'packet_loss'", &["gilbert_elliott"], false)?;
    let model = s.required("gilbert_elliott", EXAMPLE)?;
    let keys = ["to_bad", "to_good", "loss_bad", "loss_good"];
    let s = Section::new(model, "'gilbert_elliott'", &keys, false)?;
    Ok(Loss::GilbertElliott(GilbertElliott {
        to_bad: probability(s.required("to_bad", "to_bad: 0.01")?, "to_bad")?,
        to_good: probability(s.required("to_good", "to_good: 0.3")?, "to_good")?,
        loss_bad: s.read("loss_bad", probability)?.unwrap_or(1.0),
        loss_good: s.read("loss_good", probability)?.unwrap_or(0.0),
    }))
}

/// `{ probability: 0.01, delay: 1 ms }`, or `none`.
fn reordering(node: &Node, key: &str) -> Result<Option<Reordering>, Problem> {
    if section::string(node, key).is_ok_and(|text| text == "none") {
        return Ok(None);
    }
    let s = Section::new(node, "'reordering'", &["probability", "delay"], false)?;
    let share = probability(s.required("probability", "probability: 0.01")?, "probability")?;
    let delay = section::duration(s.required("delay", "delay: 1 ms")?, "delay")?;
    Ok(Some(Reordering { probability: share, delay }))
}
