//! Notes on files in the arguments of programs: relative names that are not found where the programs run, and
//! certificates that are not yet valid at the start of the hosts' clocks.

use crate::PathContext;
use crate::model::{Experiment, Host};
use belljar_base::Set;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::io::Read;
use std::path::Path;

/// Largest file that is read as a certificate, in bytes.
const LARGEST: u64 = 64 << 10;
/// Options before the name of a file that a program writes.
const WRITING: [&str; 4] = ["-o", "-O", "--output", "-out"];
/// Endings of certificates in PEM.
const CERTIFICATES: [&str; 4] = ["pem", "crt", "cer", "cert"];

/// Notes on the arguments of all programs, each once.
pub(super) fn notes(experiment: &Experiment, around: &PathContext) -> Vec<String> {
    let (mut notes, mut seen) = (Vec::new(), Set::new());
    let template = experiment.general.template_directory.as_deref();
    for host in experiment.hosts.iter().filter(|host| host.root.is_none() && host.machine.is_none()) {
        for process in &host.processes {
            let before = std::iter::once("").chain(process.args.iter().map(String::as_str));
            for (before, argument) in before.zip(&process.args) {
                if WRITING.contains(&before) || !seen.insert((host.name.as_str(), argument.as_str())) {
                    continue;
                }
                notes.extend(misplaced(host, argument, around, template));
                let not_before = certificate(argument).filter(|own| *own > experiment.belljar.start_date);
                if let Some(date) = not_before.and_then(|own| Timestamp::from_second(own as i64).ok()) {
                    notes.push(format!(
                        "host '{}': the certificate {argument} is valid from {date} on, after the start of its clock: write belljar: {{ start_date: ... }}",
                        host.name
                    ));
                }
            }
        }
    }
    notes
}

/// A note on a relative name of a file that is beside the experiment, but not where the host's programs run.
fn misplaced(host: &Host, argument: &str, around: &PathContext, template: Option<&Path>) -> Option<String> {
    let has_form = argument.contains(['.', '/']) && !argument.starts_with(['/', '-', '~']);
    let beside = around.base_dir.join(argument);
    let is_filled =
        || template.is_some_and(|template| template.join("hosts").join(&host.name).join(argument).exists());
    (has_form && beside.is_file() && !is_filled()).then(|| {
        format!(
            "host '{}': programs look for '{argument}' in their working directory hosts/{}: write {} for the file beside the experiment",
            host.name,
            host.name,
            beside.display()
        )
    })
}

/// Start of the validity of the first certificate in a file, in seconds since 1970.
fn certificate(argument: &str) -> Option<u64> {
    let path = Path::new(argument);
    let ending = path.extension().and_then(|ending| ending.to_str())?;
    if !path.is_absolute() || !CERTIFICATES.contains(&ending) || !path.is_file() {
        return None;
    }
    let mut text = String::new();
    belljar_inputs::open(path).ok()?.take(LARGEST).read_to_string(&mut text).ok()?;
    not_before(&text)
}

/// `notBefore` of a certificate in PEM: the first time in it (RFC 5280).
fn not_before(pem: &str) -> Option<u64> {
    let body = pem.split_once("-----BEGIN CERTIFICATE-----")?.1.split("-----").next()?;
    let der = decoded(body);
    // UTCTime, or GeneralizedTime from 2050 on, with their lengths.
    let found = der.windows(2).enumerate().find_map(|(at, head)| match head {
        [0x17, 13] => Some((at + 2, 13)),
        [0x18, 15] => Some((at + 2, 15)),
        _ => None,
    });
    let (at, len) = found?;
    let text = std::str::from_utf8(der.get(at..at + len)?).ok()?.strip_suffix('Z')?;
    // Two digits of the year are those of 1950 to 2049.
    let century = match (len, text.get(..2)? < "50") {
        (15, _) => "",
        (_, true) => "20",
        (_, false) => "19",
    };
    let time = DateTime::strptime("%Y%m%d%H%M%S", format!("{century}{text}")).ok()?;
    let stamp = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
    u64::try_from(stamp.as_second()).ok()
}

/// The bytes of base64 (RFC 4648). Other characters are skipped.
fn decoded(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for six in text.bytes().filter_map(value) {
        bits = (bits << 6) | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::not_before;

    #[test]
    fn start_of_a_certificate() {
        // A sequence of the times 2026-01-31 12:00:00 and 2036-01-29 12:00:00.
        let pem = "-----BEGIN CERTIFICATE-----\nMB4XDTI2MDEzMTEyMDAwMFoXDTM2MDEyOTEyMDAwMFo=\n-----END CERTIFICATE-----\n";
        assert_eq!(not_before(pem), Some(1_769_860_800));
        assert_eq!(not_before("-----BEGIN PRIVATE KEY-----\nAAAA\n"), None);
    }
}
