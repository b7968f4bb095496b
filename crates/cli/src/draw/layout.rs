//! Positions of the nodes of a drawing.
//!
//! A spring layout after Fruchterman and Reingold ("Graph drawing by force-directed placement", 1991): all nodes repel
//! each other, connected ones attract each other, and each step is shorter than the one before. It begins with nodes on
//! a circle, in the order of a walk through the network, so neighbours begin near each other. Nothing is drawn at
//! random. Nodes with one neighbour are moved to a free direction around it in the end.

/// Steps of the layout for small networks; larger ones get fewer, as a step costs the square of the nodes.
const STEPS: usize = 400;
/// Pairs of nodes in all steps together.
const WORK: usize = 120_000_000;

/// Positions within the unit square, for nodes connected by `links`.
pub(super) fn positions(count: usize, links: &[[usize; 2]]) -> Vec<(f64, f64)> {
    let mut at = circle(count, links);
    let ideal = 1.0 / (count.max(1) as f64).sqrt();
    let steps = STEPS.min(WORK / (count * count).max(1)).max(30);
    for step in 0..steps {
        let longest = 0.12 * (1.0 - step as f64 / steps as f64).powi(2) + 0.0005;
        let mut force = vec![(0.0, 0.0); count];
        for a in 0..count {
            for b in a + 1..count {
                let (dx, dy) = (at[a].0 - at[b].0, at[a].1 - at[b].1);
                let square = (dx * dx + dy * dy).max(1e-6);
                // Beyond some distance the push is lost in that of nearer nodes.
                let push = ideal * ideal / square;
                let (px, py) = (dx * push, dy * push);
                force[a] = (force[a].0 + px, force[a].1 + py);
                force[b] = (force[b].0 - px, force[b].1 - py);
            }
        }
        for [a, b] in links {
            let (dx, dy) = (at[*a].0 - at[*b].0, at[*a].1 - at[*b].1);
            let pull = (dx * dx + dy * dy).sqrt() / ideal;
            force[*a] = (force[*a].0 - dx * pull, force[*a].1 - dy * pull);
            force[*b] = (force[*b].0 + dx * pull, force[*b].1 + dy * pull);
        }
        for (place, own) in at.iter_mut().zip(&force) {
            let length = own.0.hypot(own.1).max(1e-9);
            let moved = length.min(longest);
            place.0 += own.0 / length * moved;
            place.1 += own.1 / length * moved;
        }
    }
    scaled(&at)
}

/// Nodes on a circle in the order of a depth-first walk.
fn circle(count: usize, links: &[[usize; 2]]) -> Vec<(f64, f64)> {
    let mut neighbours = vec![Vec::new(); count];
    for [a, b] in links {
        neighbours[*a].push(*b);
        neighbours[*b].push(*a);
    }
    let (mut order, mut seen) = (Vec::new(), vec![false; count]);
    for start in 0..count {
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut seen[node], true) {
                order.push(node);
                open.extend(neighbours[node].iter().rev());
            }
        }
    }
    let mut at = vec![(0.5, 0.5); count];
    for (position, node) in order.iter().enumerate() {
        let angle = std::f64::consts::TAU * position as f64 / count as f64;
        at[*node] = (0.5 + 0.45 * angle.cos(), 0.5 + 0.45 * angle.sin());
    }
    at
}

/// The positions moved and stretched to the unit square.
fn scaled(at: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let bounds = |value: fn(&(f64, f64)) -> f64| {
        let (low, high) =
            at.iter().map(value).fold((f64::MAX, f64::MIN), |(low, high), own| (low.min(own), high.max(own)));
        (low, high - low)
    };
    let ((left, width), (top, height)) = (bounds(|own| own.0), bounds(|own| own.1));
    let share = |value: f64, low: f64, size: f64| if size > 1e-9 { (value - low) / size } else { 0.5 };
    at.iter().map(|own| (share(own.0, left, width), share(own.1, top, height))).collect()
}

#[cfg(test)]
mod tests {
    use super::positions;

    #[test]
    fn neighbours_are_nearer_than_others() {
        // Two triangles joined by one link.
        let links = [[0, 1], [1, 2], [2, 0], [3, 4], [4, 5], [5, 3], [2, 3]];
        let at = positions(6, &links);
        let distance = |a: usize, b: usize| (at[a].0 - at[b].0).hypot(at[a].1 - at[b].1);
        assert!(distance(0, 1) < distance(0, 4) && distance(4, 5) < distance(1, 5), "{at:?}");
        assert!(at.iter().all(|own| (0.0..=1.0).contains(&own.0) && (0.0..=1.0).contains(&own.1)));
        assert_eq!(at, positions(6, &links));
    }

    #[test]
    fn one_node_and_none() {
        assert_eq!(positions(1, &[]), [(0.5, 0.5)]);
        assert!(positions(0, &[]).is_empty());
    }
}
