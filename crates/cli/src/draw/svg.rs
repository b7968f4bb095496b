//! The drawing as SVG. Text and lines have the colour of the surrounding page where the picture is part of one.

use super::formats::{Drawing, escaped};
use super::layout;
use std::fmt::Write;

/// Size of the drawing for few nodes, and the margins that leave room for names.
const SIZE: (f64, f64) = (900.0, 560.0);
const MARGIN: (f64, f64) = (110.0, 40.0);
/// Largest numbers of nodes with names, and of edges with labels.
const NAMED: usize = 400;
const LABELLED: usize = 120;

/// Colours by the kind of node, as in `belljar report`.
fn fill(kind: &str) -> &'static str {
    match kind {
        "host" => "#2f6fde",
        "switch" | "P4 switch" => "#2a9d6f",
        "router" => "#e8833a",
        "simulator" => "#8259d6",
        "gateway" => "#c0436b",
        "radio" => "#a98f12",
        _ => "#8a8f98",
    }
}

/// Draws the network.
pub(super) fn svg(drawing: &Drawing, has_labels: bool) -> String {
    let count = drawing.nodes.len();
    // Space grows with the nodes, so that names stay apart.
    let scale = (count as f64 / 40.0).sqrt().max(1.0);
    let (width, height) = (SIZE.0 * scale, SIZE.1 * scale);
    let links: Vec<[usize; 2]> = drawing.edges.iter().map(|edge| edge.ends).filter(|[a, b]| a != b).collect();
    let place = |own: (f64, f64)| {
        (MARGIN.0 + own.0 * (width - 2.0 * MARGIN.0), MARGIN.1 + own.1 * (height - 2.0 * MARGIN.1))
    };
    let at: Vec<(f64, f64)> = layout::positions(count, &links).into_iter().map(place).collect();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" font-size=\"11\" color=\"#222222\" role=\"img\" aria-label=\"Network of {count} nodes\">\n"
    );
    for edge in &drawing.edges {
        let [(x1, y1), (x2, y2)] = edge.ends.map(|end| at[end]);
        let title = [edge.name.clone().unwrap_or_default(), edge.label()].join(" ");
        let dash = if edge.is_attachment { " stroke-dasharray=\"3 3\"" } else { "" };
        let _ = writeln!(
            out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"currentColor\" stroke-opacity=\"0.45\"{dash}><title>{}</title></line>",
            escaped(title.trim())
        );
    }
    if has_labels && drawing.edges.len() <= LABELLED {
        for edge in &drawing.edges {
            let [(x1, y1), (x2, y2)] = edge.ends.map(|end| at[end]);
            let label = edge.label();
            if !label.is_empty() {
                let (x, y) = beside((x1, y1), (x2, y2), 5.2 * label.chars().count() as f64);
                let _ = writeln!(
                    out,
                    "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"9\" fill=\"currentColor\" stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
                    y + 3.0,
                    escaped(&label)
                );
            }
        }
    }
    let size = if count <= NAMED { 6.0 } else { 3.5 };
    // Directions of the links of each node.
    let mut leave: Vec<Vec<(f64, f64)>> = vec![Vec::new(); count];
    for [a, b] in &links {
        let (dx, dy) = (at[*b].0 - at[*a].0, at[*b].1 - at[*a].1);
        let length = dx.hypot(dy).max(1.0);
        leave[*a].push((dx / length, dy / length));
        leave[*b].push((-dx / length, -dy / length));
    }
    for ((node, (x, y)), leave) in drawing.nodes.iter().zip(&at).zip(&leave) {
        let title = [&[format!("{} ({})", node.name, node.kind)], &node.addresses[..]].concat().join(" ");
        let (colour, title) = (fill(&node.kind), escaped(&title));
        let _ = match node.kind == "host" {
            true => writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{size}\" fill=\"{colour}\"><title>{title}</title></circle>"
            ),
            false => writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{2}\" height=\"{2}\" rx=\"2\" fill=\"{colour}\"><title>{title}</title></rect>",
                x - size,
                y - size,
                2.0 * size
            ),
        };
        if count <= NAMED {
            let room = width - x - size - 3.0 - 6.2 * node.name.chars().count() as f64;
            let (dx, dy, anchor) = match side(leave, room > 0.0) {
                Side::Right => (size + 3.0, 4.0, "start"),
                Side::Left => (-size - 3.0, 4.0, "end"),
                Side::Above => (0.0, -size - 4.0, "middle"),
                Side::Below => (0.0, size + 12.0, "middle"),
            };
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"currentColor\" stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
                x + dx,
                y + dy,
                escaped(&node.name)
            );
        }
    }
    legend(&mut out, drawing, height);
    out.push_str("</svg>\n");
    out
}

/// Side of a node on which its name stands.
#[derive(Clone, Copy)]
enum Side {
    Right,
    Left,
    Above,
    Below,
}

/// The side that is farthest from the directions of all links, preferably right or left.
fn side(leave: &[(f64, f64)], fits_right: bool) -> Side {
    const SIDES: [(Side, (f64, f64), f64); 4] = [
        (Side::Right, (1.0, 0.0), 0.0),
        (Side::Left, (-1.0, 0.0), 0.0),
        (Side::Below, (0.0, 1.0), 0.3),
        (Side::Above, (0.0, -1.0), 0.3),
    ];
    let struck = |(own, (x, y), cost): &(Side, (f64, f64), f64)| {
        let nearest = leave.iter().map(|(dx, dy)| dx * x + dy * y).fold(-1.0, f64::max);
        let beyond = if matches!(own, Side::Right) && !fits_right { 10.0 } else { 0.0 };
        nearest + cost + beyond
    };
    let best = SIDES.iter().min_by(|a, b| struck(a).total_cmp(&struck(b)));
    best.map_or(Side::Right, |(own, ..)| *own)
}

/// Centre of a text of 9 px with this width, close to the middle of a line and above it, so that the line does not strike
/// through it.
fn beside((x1, y1): (f64, f64), (x2, y2): (f64, f64), width: f64) -> (f64, f64) {
    let (dx, dy) = (x2 - x1, y2 - y1);
    let length = dx.hypot(dy).max(1.0);
    let (mut across, mut down) = (-dy / length, dx / length);
    if down > 0.0 {
        (across, down) = (-across, -down);
    }
    let apart = width / 2.0 * across.abs() + 5.0 * down.abs() + 3.0;
    ((x1 + x2) / 2.0 + apart * across, (y1 + y2) / 2.0 + apart * down)
}

/// The kinds of nodes with their colours.
fn legend(out: &mut String, drawing: &Drawing, height: f64) {
    let mut kinds: Vec<&str> = Vec::new();
    for node in &drawing.nodes {
        if !kinds.contains(&&*node.kind) {
            kinds.push(&node.kind);
        }
    }
    if kinds.len() < 2 {
        return;
    }
    let mut x = 10.0;
    for kind in kinds {
        let y = height - 12.0;
        let _ = writeln!(
            out,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"9\" height=\"9\" rx=\"2\" fill=\"{}\"/>",
            y - 8.0,
            fill(kind)
        );
        let name = if kind == "graph" { "node of the graph" } else { kind };
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{y:.0}\" font-size=\"10\" fill=\"currentColor\">{}</text>",
            x + 13.0,
            escaped(name)
        );
        x += 28.0 + 6.2 * name.chars().count() as f64;
    }
}
