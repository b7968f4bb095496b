//! Rewritten sites, and the translation between their stubs and the code that the kernel sees.

use super::stub::Stub;
use belljar_base::Map;
use std::ops::Range;

/// Rewritten sites and their stubs, by addresses in a common frame of reference.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// Patches by the address of the first rewritten byte.
    patches: Map<u64, Patch>,
    /// The start of each stub's site by the start of the stub.
    stubs: Map<u64, u64>,
}

/// A rewritten site.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The original bytes of the site.
    pub original: Vec<u8>,
    stub: u64,
    stub_len: u64,
    /// Pairs of (offset in the stub, address visible to the kernel), ascending by offset: each holds until
    /// the next one.
    places: Vec<(u64, u64)>,
    /// The addresses among them, behind the `syscall`, at which a thread may resume in the stub.
    displaced: Range<u64>,
}

/// A position in a stub as visible to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visible {
    /// The corresponding address in unmodified code.
    pub rip: u64,
    /// True if the call is still to be made, and also at the stub's last jump.
    pub before_call: bool,
    /// True if no instruction of the site has taken effect yet.
    pub at_start: bool,
}

impl Sites {
    /// Records that a site now jumps to its stub at `at`. `original` is its former content.
    pub fn insert(&mut self, stub: Stub, at: u64, original: Vec<u8>) {
        self.stubs.insert(at, stub.site);
        let stub_len = stub.code.len() as u64;
        let patch = Patch { original, stub: at, stub_len, places: stub.places, displaced: stub.displaced };
        self.patches.insert(stub.site, patch);
    }

    /// All patches, by the address of the first rewritten byte.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Patch)> {
        self.patches.iter().map(|(&site, patch)| (site, patch))
    }

    /// Retains the patches for which `keep` returns true.
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

    /// Removes the patches that share a byte with `range`, including those that begin before it.
    pub fn forget(&mut self, range: &Range<u64>) {
        self.retain(|site, patch| site >= range.end || site + patch.len() <= range.start);
    }

    /// Address in a stub at which a thread resumes that the kernel sees at `rip`; `None` if it resumes at
    /// `rip` itself.
    pub fn native(&self, rip: u64) -> Option<u64> {
        let (_, patch) = self.patches.range(..rip).next_back()?;
        if !patch.displaced.contains(&rip) {
            return None;
        }
        // The last match: several offsets at a stub's head represent the site's start.
        let place = patch.places.iter().rev().find(|place| place.1 == rip)?;
        Some(patch.stub + place.0)
    }

    /// Position visible to the kernel of a thread that exited at `rip`, if `rip` is in a stub.
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
    /// Number of rewritten bytes of the site.
    pub fn len(&self) -> u64 {
        self.original.len() as u64
    }
}
