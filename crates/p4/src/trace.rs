use crate::json::SourceInfo;

/// Trace of packets in plain text: parser states, tables with keys and actions, copies and drops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    text: String,
}

impl Trace {
    pub fn line(&mut self, line: String) {
        self.text.push_str(&line);
        self.text.push('\n');
    }
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

/// `" (file.p4:12)"`, or nothing.
pub(crate) fn source(info: Option<&SourceInfo>) -> String {
    info.map_or_else(String::new, |info| {
        let file = info.filename.rsplit('/').next().unwrap_or_default();
        format!(" ({file}:{})", info.line)
    })
}

/// Hexadecimal digits after `0x`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}
