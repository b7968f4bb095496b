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
                // The label has a background of the page's colour, so that the link does not strike through it.
                let _ = writeln!(
                    out,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"9\" fill=\"currentColor\" stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
                    (x1 + x2) / 2.0,
                    (y1 + y2) / 2.0 + 3.0,
                    escaped(&label)
                );
            }
        }
    }
    let size = if count <= NAMED { 6.0 } else { 3.5 };
    // Mean direction of the links of each node to the right.
    let mut leans = vec![0.0; count];
    for [a, b] in &links {
        leans[*a] += at[*b].0 - at[*a].0;
        leans[*b] += at[*a].0 - at[*b].0;
    }
    for ((node, (x, y)), lean) in drawing.nodes.iter().zip(&at).zip(&leans) {
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
            // Names stand on the side with fewer links, within the picture.
            let is_beyond = x + size + 3.0 + 6.2 * node.name.chars().count() as f64 > width;
            let (dx, anchor) =
                if *lean > 0.0 || is_beyond { (-size - 3.0, "end") } else { (size + 3.0, "start") };
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"currentColor\" stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
                x + dx,
                y + 4.0,
                escaped(&node.name)
            );
        }
    }
    legend(&mut out, drawing, height);
    out.push_str("</svg>\n");
    out
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
