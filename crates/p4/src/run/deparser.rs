use super::Run;
use crate::bits::PADDING;

impl Run<'_> {
    /// Updates checksums, runs the deparser's statements, and reassembles the packet: valid headers, then payload.
    pub fn deparse(&mut self) {
        self.update_checksums();
        let program = self.program;
        if !program.deparser.is_empty() {
            self.code(program.deparser.start, program.deparser.end);
        }
        let packet = &mut *self.packet;
        let valid = || program.emit.iter().filter(|header| packet.phv.valid[**header as usize]);
        let len = valid().map(|header| packet.phv.len(program, *header) as usize).sum::<usize>();
        let parsed = packet.parsed;
        let payload = packet.data.len() - parsed;
        if len > parsed {
            packet.data.resize(len + payload, 0);
            packet.data.copy_within(parsed..parsed + payload, len);
        } else if len < parsed {
            packet.data.copy_within(parsed.., len);
            packet.data.truncate(len + payload);
        }
        let mut at = 0;
        for header in valid() {
            let bytes = packet.phv.len(program, *header) as usize;
            if program.kind_of(*header).variable.is_none() {
                packet.phv.emit(program, *header, &mut packet.data[at..at + bytes]);
            } else {
                // Bit copies work on words and may extend past the header.
                let scratch = &mut self.scratch.headers;
                scratch.clear();
                scratch.resize(bytes + PADDING, 0);
                packet.phv.emit(program, *header, scratch);
                packet.data[at..at + bytes].copy_from_slice(&scratch[..bytes]);
            }
            at += bytes;
        }
        packet.parsed = len;
        if let Some(longest) = packet.truncate {
            packet.data.truncate(longest as usize);
        }
    }
}
