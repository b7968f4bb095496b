//! HTML report of a run: a single page that contains data, style and script. It works offline and loads
//! nothing.

mod bins;
mod data;
mod links;

use crate::read::{ReadError, Results};

const PAGE: &str = include_str!("page.html");
/// Style of drawings of a network; it has the colours of the page's variables.
pub const DRAWING_STYLE: &str = include_str!("drawing.css");
const STYLE: &str = include_str!("page.css");
/// Script that draws a network, from the JSON of [`Topology`](crate::Topology): other pages include it before theirs.
pub const DRAWING_SCRIPT: &str = concat!(include_str!("drawing.js"), "\n", include_str!("topology.js"));
const SCRIPTS: [&str; 4] =
    [DRAWING_SCRIPT, include_str!("charts.js"), include_str!("radio.js"), include_str!("page.js")];

/// The HTML page.
pub fn report(results: &Results) -> Result<String, ReadError> {
    let data = serde_json::to_string(&data::data(results)?).expect("plain data can be serialised");
    // A script must not contain "</script>" or "<!--".
    let data = data.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    let name =
        results.path().file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // The data is inserted last: the output of programs must not be taken for a placeholder.
    Ok(PAGE
        .replace("{{title}}", &escaped(&name))
        .replace("{{style}}", &[DRAWING_STYLE, STYLE].concat())
        .replace("{{script}}", &SCRIPTS.join("\n"))
        .replacen("{{data}}", &data, 1))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('{', "&#123;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;
    use crate::{HostStatistics, Statistics};
    use belljar_base::Map;

    #[test]
    fn what_programs_have_written_cannot_leave_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("<b>{{data}}");
        std::fs::create_dir_all(root.join("hosts/alice")).unwrap();
        let hosts = Map::from([("alice".to_owned(), HostStatistics::default())]);
        let statistics = Statistics { hosts, ..Statistics::default() };
        std::fs::write(root.join(names::STATISTICS), statistics.to_json()).unwrap();
        std::fs::write(root.join("hosts/alice/p.1.stdout"), "</script><script>alert(1)//{{style}}").unwrap();
        let page = report(&Results::open(&root).unwrap()).unwrap();
        assert_eq!(page.matches("</script>").count(), 2, "the page's own two");
        assert!(!page.contains("<b>") && page.contains("\\u003c/script>"));
        assert!(page.contains("//{{style}}"), "output is shown as it is");
        assert!(!page.contains("src=") && !page.contains("href=\"http"), "nothing is fetched");
    }
}
