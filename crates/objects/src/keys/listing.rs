//! `/proc/keys` and `/proc/key-users`.

use super::search::{Found, VIEW};
use super::*;
use std::fmt::Write;

impl KeyCaller<'_> {
    /// Text of `/proc/keys`: the keys that the thread may view, in order of serial number.
    pub fn list(&self) -> String {
        let mut text = String::new();
        for (serial, entry) in &self.table.keys {
            let possessed =
                entry.perm & KEY_POS_VIEW != 0 && self.table.is_possessed(*serial, self.rings, self.who);
            if self.table.check_right(Found { key: *serial, possessed }, self.who, VIEW).is_err() {
                continue;
            }
            let flag = |on: bool, letter: char| if on { letter } else { '-' };
            let _ = write!(
                text,
                "{serial:08x} I{}-{}-{}{} {:5} {:>4} {:08x} {:5} {:5} {:<9.9} ",
                flag(entry.revoked_at.is_some(), 'R'),
                flag(entry.in_quota, 'Q'),
                flag(entry.state.is_err(), 'N'),
                flag(entry.invalidated, 'i'),
                entry.users,
                remaining(entry.expiry, self.now),
                entry.perm,
                entry.uid,
                entry.gid,
                entry.kind.name(),
            );
            text.push_str(&String::from_utf8_lossy(&entry.description));
            let _ = match (entry.state, entry.kind) {
                (Err(_), _) => Ok(()),
                (Ok(()), KeyType::Keyring) if entry.links.is_empty() => write!(text, ": empty"),
                (Ok(()), KeyType::Keyring) => write!(text, ": {}", entry.links.len()),
                (Ok(()), KeyType::BigKey) => write!(text, ": {} [buff]", entry.payload.len()),
                (Ok(()), _) => write!(text, ": {}", entry.payload.len()),
            };
            text.push('\n');
        }
        text
    }

    /// Text of `/proc/key-users`: the usage and quota of each user.
    pub fn list_users(&self) -> String {
        let mut counts: Map<u32, u64> = Map::new();
        for entry in self.table.keys.values() {
            *counts.entry(entry.payer).or_default() += 1;
        }
        let mut text = String::new();
        for (uid, keys) in counts {
            let used = self.table.quotas.get(&uid).copied().unwrap_or_default();
            let (max_keys, max_bytes) = self.table.quota_of(uid);
            let _ = writeln!(
                text,
                "{uid:5}: {keys:5} {keys}/{keys} {}/{max_keys} {}/{max_bytes}",
                used.keys, used.bytes
            );
        }
        text
    }
}

/// Time to expiry in at most four characters.
fn remaining(expiry: Option<i64>, now: i64) -> String {
    let Some(expiry) = expiry else { return "perm".into() };
    match expiry - now {
        ..=0 => "expd".into(),
        left @ 1..60 => format!("{left}s"),
        left @ 60..3_600 => format!("{}m", left / 60),
        left @ 3_600..86_400 => format!("{}h", left / 3_600),
        left @ 86_400..604_800 => format!("{}d", left / 86_400),
        left => format!("{}w", left / 604_800),
    }
}
