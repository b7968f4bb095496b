use super::Run;
use crate::bits::PADDING;

impl Run<'_> {
    /// Updates checksums and puts the packet together again: its valid headers before its payload.
    pub fn deparse(&mut self) {
        self.update_checksums();
        let program = self.program;
        let headers = &mut self.scratch.headers;
        let mut len = 0;
        for header in &program.emit {
            if self.packet.phv.valid[*header as usize] {
                let bytes = self.packet.phv.len(program, *header) as usize;
                headers.resize(headers.len().max(len + bytes + PADDING), 0);
                self.packet.phv.emit(program, *header, &mut headers[len..]);
                len += bytes;
            }
        }
        let packet = &mut *self.packet;
        let parsed = packet.parsed;
        let payload = packet.data.len() - parsed;
        if len > parsed {
            packet.data.resize(len + payload, 0);
            packet.data.copy_within(parsed..parsed + payload, len);
        } else if len < parsed {
            packet.data.copy_within(parsed.., len);
            packet.data.truncate(len + payload);
        }
        packet.data[..len].copy_from_slice(&self.scratch.headers[..len]);
        packet.parsed = len;
        if let Some(longest) = packet.truncate {
            packet.data.truncate(longest as usize);
        }
    }
}
