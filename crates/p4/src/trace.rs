use crate::phv::Phv;
use crate::program::Program;
use belljar_p4json::SourceInfo;

/// Packet trace in plain text: parser states, tables with keys and actions, copies and drops.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    text: String,
    /// Trace lines with packet states, if recorded for stepping.
    steps: Option<Vec<Step>>,
}

/// Step: a trace line with the packet's headers and metadata after the traced operation.
#[derive(Clone, Debug)]
pub struct Step {
    /// Text of the line.
    pub line: String,
    /// Bytes and validity of all headers; `None` for decisions of the switch itself.
    state: Option<(Vec<u8>, Vec<bool>)>,
}

impl Step {
    /// Names and values of the fields of valid headers and metadata; `None` for decisions of the switch
    /// itself.
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
    /// Creates a trace that records the packet state at each line.
    pub fn with_steps() -> Trace {
        Trace { steps: Some(Vec::new()), ..Trace::default() }
    }
    pub fn line(&mut self, line: String) {
        self.line_with(line, None);
    }
    /// Adds a line for an operation of the program on a packet with this state.
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
    /// Adds a line that appears only in traces for stepping.
    pub fn step(&mut self, line: &str) {
        if self.steps.is_some() {
            self.line(line.to_owned());
        }
    }
    /// Records the packet state after the operation of the last line.
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

/// Formats `" (file.p4:12)"`; empty without source information.
pub(crate) fn source(info: Option<&SourceInfo>) -> String {
    info.map_or_else(String::new, |info| {
        let file = info.filename.rsplit('/').next().unwrap_or_default();
        format!(" ({file}:{})", info.line)
    })
}

/// Text of a condition with its source line.
pub(crate) fn condition(info: &SourceInfo) -> String {
    format!("{}{}", info.source_fragment, source(Some(info)))
}

/// Hexadecimal digits after `0x`.
pub fn hex(bytes: &[u8]) -> String {
    format!("0x{}", belljar_base::hex(bytes))
}
