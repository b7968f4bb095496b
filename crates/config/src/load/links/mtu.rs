//! Agreement of the MTUs of links: switches pass frames of any length.

use super::ends::Draft;
use super::{Kind, Station};
use crate::error::Problem;
use belljar_base::DisjointSets;

/// Refuses a link between switches with a smaller MTU than a link of the same network at a station: the station's
/// packets would pass it all the same.
pub(super) fn check(stations: &[Station], drafts: &[Draft]) -> Result<(), Problem> {
    let passes = |draft: &Draft, end: usize| {
        let end = &draft.ends[end];
        let station = &stations[end.station];
        station.kind == Kind::Switch && station.joins(&end.interface)
    };
    let mut networks = DisjointSets::new(stations.len());
    for draft in drafts.iter().filter(|draft| passes(draft, 0) && passes(draft, 1)) {
        networks.join(draft.ends[0].station, draft.ends[1].station);
    }
    let mut longest: Vec<Option<&Draft>> = vec![None; stations.len()];
    for draft in drafts {
        let ([true, false] | [false, true]) = [passes(draft, 0), passes(draft, 1)] else { continue };
        let end = usize::from(passes(draft, 1));
        let own = &mut longest[networks.smallest(draft.ends[end].station)];
        if own.is_none_or(|other| other.mtu < draft.mtu) {
            *own = Some(draft);
        }
    }
    for draft in drafts.iter().filter(|draft| passes(draft, 0) && passes(draft, 1)) {
        let other = longest[networks.smallest(draft.ends[0].station)];
        if let Some(other) = other.filter(|other| other.mtu > draft.mtu) {
            let message = format!(
                "link '{}' between switches has an mtu of {}, and link '{}' of the same network one of {}",
                draft.name, draft.mtu, other.name, other.mtu
            );
            return Err(Problem::at(draft.mtu_span.unwrap_or(draft.ends[0].span), message)
                .help("give them the same mtu, or put a router between them"));
        }
    }
    Ok(())
}
