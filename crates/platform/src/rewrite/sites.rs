//! Rewritten sites, and the translation between their stubs and the code that the kernel sees.

use super::stub::Stub;
use belljar_base::Map;
use std::ops::Range;

/// Rewritten sites and their stubs, by addresses that mean the same in both.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// Patches by the address of the first rewritten byte.
    patches: Map<u64, Patch>,
    /// The start of each stub's site by the start of the stub.
    stubs: Map<u64, u64>,
}

/// Patch: a rewritten site.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The bytes that were there before.
    pub original: Vec<u8>,
    stub: u64,
    stub_len: u64,
    /// Pairs of (offset in the stub, address that the kernel sees), ascending: each holds until
    /// the next one.
    places: Vec<(u64, u64)>,
    /// The addresses among them, behind the `syscall`, at which a thread may go on in the stub.
    displaced: Range<u64>,
}

/// A place in a stub as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visible {
    /// The address in unmodified code.
    pub rip: u64,
    /// True if the call is still to be made (or, at a stub's end, the stub is just being left).
    pub before_call: bool,
    /// True if nothing of the site has been done yet.
    pub at_start: bool,
}

impl Sites {
    /// Notes that a site leads to its stub at `at` now. `original` is what it was before.
    pub fn insert(&mut self, stub: Stub, at: u64, original: Vec<u8>) {
        self.stubs.insert(at, stub.site);
        let stub_len = stub.code.len() as u64;
        let patch = Patch { original, stub: at, stub_len, places: stub.places, displaced: stub.displaced };
        self.patches.insert(stub.site, patch);
    }

    /// All of them, by the first rewritten byte.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Patch)> {
        self.patches.iter().map(|(&site, patch)| (site, patch))
    }

    /// Keeps those for which `keep` holds.
    pub fn retain(&mut self, keep: impl Fn(u64, &Patch) -> bool) {
        let Sites { patches, stubs } = self;
        patches.retain(|&site, patch| {
            let stays = keep(site, patch);
            if !stays {
                stubs.remove(&patch.stub);
            }
            stays
        });
    }

    /// Forgets those that share a byte with `range`: they may begin before it and reach into it.
    pub fn forget(&mut self, range: &Range<u64>) {
        self.retain(|site, patch| site >= range.end || site + patch.len() <= range.start);
    }

    /// Address at which a thread that the kernel sees at `rip` goes on, if that is in a stub.
    pub fn native(&self, rip: u64) -> Option<u64> {
        let (_, patch) = self.patches.range(..rip).next_back()?;
        if !patch.displaced.contains(&rip) {
            return None;
        }
        // The last match: several places of a stub's head stand for the site's start.
        let place = patch.places.iter().rev().find(|place| place.1 == rip)?;
        Some(patch.stub + place.0)
    }

    /// The place that the kernel sees of a thread that left the guest at `rip`, if that is in a stub.
    pub fn visible(&self, rip: u64) -> Option<Visible> {
        let (&stub, site) = self.stubs.range(..=rip).next_back()?;
        let patch = &self.patches[site];
        if rip >= stub + patch.stub_len {
            return None;
        }
        let place = patch.places.iter().rev().find(|place| stub + place.0 <= rip)?;
        let before_call = !patch.displaced.contains(&place.1);
        Some(Visible { rip: place.1, before_call, at_start: place.1 == *site })
    }
}

impl Patch {
    /// Bytes of the site that are rewritten.
    pub fn len(&self) -> u64 {
        self.original.len() as u64
    }
}
