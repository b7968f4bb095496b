//! HTML page of a comparison: one self-contained file without external references.

use super::{Band, Judgement, Row};
use std::fmt::Write;

const STYLE: &str = "body{font:14px system-ui,sans-serif;margin:2em;max-width:75em}table{border-collapse:collapse;width:100%;\
margin-bottom:2em}th,td{text-align:left;padding:.25em .6em;border-bottom:1px solid #ddd}td.n{text-align:right;\
font-variant-numeric:tabular-nums;white-space:nowrap}.differs{color:#b00020;font-weight:bold}pre{white-space:pre-wrap}\
.a{stroke:#1f5fa8;fill:#1f5fa8}.b{stroke:#c7641a;fill:#c7641a}";
/// Width and height of a drawing of two bands.
const WIDTH: f64 = 220.0;
const HEIGHT: f64 = 26.0;

/// Renders the page.
pub fn page(rows: &[Row], names: [&str; 2], verdicts: &str, conclusion: &str) -> String {
    let mut body = String::new();
    let mut kind = None;
    for row in rows {
        if kind != Some(row.kind) {
            if kind.is_some() {
                body += "</table>";
            }
            kind = Some(row.kind);
            let _ = write!(
                body,
                "<h2>{}</h2><table><tr><th></th><th>{}</th><th>{}</th><th>difference</th><th>matters</th><th>spread</th></tr>",
                escaped(row.kind.heading()),
                names[0],
                names[1]
            );
        }
        let class = if row.judgement == Judgement::Differs { " class=differs" } else { "" };
        let _ = write!(
            body,
            "<tr><td>{}</td><td class=n>{}</td><td class=n>{}</td><td class=n>{}</td><td{class}>{}</td><td>{}</td></tr>",
            escaped(&row.name),
            row.bands[0].text(),
            row.bands[1].text(),
            row.difference(),
            row.judgement.text(),
            drawing(&row.bands)
        );
    }
    if kind.is_some() {
        body += "</table>";
    }
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>belljar compare</title><style>{STYLE}</style>\
         <h1>Runs side by side</h1><p>{}</p><p>Above <svg width=12 height=8><circle class=a cx=6 cy=4 r=3 /></svg> {}, \
         below <svg width=12 height=8><circle class=b cx=6 cy=4 r=3 /></svg> {}: a dot a run, the line from the least \
         to the greatest; the scale begins at 0.</p><pre>{}</pre>{body}</html>\n",
        escaped(conclusion),
        names[0],
        names[1],
        escaped(verdicts)
    )
}

/// Draws both bands on a common scale.
fn drawing(bands: &[Band; 2]) -> String {
    let most = bands.iter().filter_map(Band::ends).map(|(_, most)| most).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let x = |value: f64| 4.0 + (WIDTH - 8.0) * value.max(0.0) / most;
    let mut svg = format!("<svg width={WIDTH} height={HEIGHT}>");
    for (band, (class, y)) in bands.iter().zip([("a", 8.0), ("b", 18.0)]) {
        let Some((from, to)) = band.ends() else { continue };
        let _ = write!(svg, "<line class={class} x1={:.1} x2={:.1} y1={y} y2={y} />", x(from), x(to));
        for value in &band.values {
            let _ = write!(svg, "<circle class={class} cx={:.1} cy={y} r=3 />", x(*value));
        }
    }
    svg + "</svg>"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
