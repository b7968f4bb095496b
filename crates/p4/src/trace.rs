use crate::phv::Phv;
use crate::program::Program;
use belljar_p4json::SourceInfo;

/// Trace of packets in plain text: parser states, tables with keys and actions, copies and drops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    text: String,
    /// The same line by line, each with the packet's state, if it is to be stepped through.
    steps: Option<Vec<Step>>,
}

/// Step: one line of a trace, and the packet's headers and metadata after what the line tells of.
#[derive(Clone, Debug)]
pub struct Step {
    /// Text of the line.
    pub line: String,
    /// Bytes and validity of all headers; `None` where the switch decides and not the program.
    state: Option<(Vec<u8>, Vec<bool>)>,
}

impl Step {
    /// The fields of valid headers and of the metadata: their names and values. None where the switch decides and not the
    /// program.
    pub fn fields(&self, program: &Program) -> Option<Vec<(String, String)>> {
        let (bytes, valid) = self.state.as_ref()?;
        let mut list = Vec::new();
        for (header, valid) in program.headers.iter().zip(valid) {
            let kind = &program.types[header.kind as usize];
            if !valid {
                continue;
            }
            for field in kind.fields.iter().filter(|field| field.width > 0) {
                let mut value = vec![0; field.width.div_ceil(8) as usize];
                crate::bits::get_bytes(bytes, header.at * 8 + field.offset, field.width, &mut value);
                list.push((format!("{}.{}", header.name, field.name), hex(&value)));
            }
        }
        Some(list)
    }
}

impl Trace {
    /// A trace that keeps the packet's state at each line.
    pub fn with_steps() -> Trace {
        Trace { steps: Some(Vec::new()), ..Trace::default() }
    }
    pub fn line(&mut self, line: String) {
        self.line_with(line, None);
    }
    /// A line that the program of a packet in this state causes.
    pub fn line_with(&mut self, line: String, phv: Option<&Phv>) {
        match &mut self.steps {
            None => {
                self.text.push_str(&line);
                self.text.push('\n');
            }
            Some(steps) => {
                let state = phv.map(|phv| (phv.bytes.clone(), phv.valid.clone()));
                steps.push(Step { line, state });
            }
        }
    }
    /// A line that only those want who step through a packet.
    pub fn step(&mut self, line: &str) {
        if self.steps.is_some() {
            self.line(line.to_owned());
        }
    }
    /// The last line has had this effect on its packet.
    pub fn effect(&mut self, phv: &Phv) {
        if let Some(step) = self.steps.as_mut().and_then(|steps| steps.last_mut()) {
            step.state = Some((phv.bytes.clone(), phv.valid.clone()));
        }
    }
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
    pub fn take_steps(&mut self) -> Vec<Step> {
        self.steps.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// `" (file.p4:12)"`, or nothing.
pub(crate) fn source(info: Option<&SourceInfo>) -> String {
    info.map_or_else(String::new, |info| {
        let file = info.filename.rsplit('/').next().unwrap_or_default();
        format!(" ({file}:{})", info.line)
    })
}

/// The text of a condition and its line in the source.
pub(crate) fn condition(info: &SourceInfo) -> String {
    format!("{}{}", info.source_fragment, source(Some(info)))
}

/// Hexadecimal digits after `0x`.
pub fn hex(bytes: &[u8]) -> String {
    format!("0x{}", belljar_base::hex(bytes))
}
