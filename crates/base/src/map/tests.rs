//! A `Map` beside a `BTreeMap`: both are driven by the same drawn operations.

use super::Map;
use crate::{Seed, Set};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Value large enough that chunks are short.
type Large = [u64; 40];

fn check<V: Clone + PartialEq + std::fmt::Debug>(map: &Map<u32, V>, reference: &BTreeMap<u32, V>) {
    for chunk in &map.chunks {
        assert!(!chunk.is_empty());
    }
    assert_eq!(map.len(), reference.len());
    assert_eq!(map.iter().len(), reference.len());
    assert_eq!(map.is_empty(), reference.is_empty());
    assert!(map.iter().eq(reference));
    assert!(map.iter().rev().eq(reference.iter().rev()));
    assert_eq!(map.first_key_value(), reference.first_key_value());
    assert_eq!(map.last_key_value(), reference.last_key_value());
}

/// Applies drawn operations on keys below `keys` to both maps.
fn drive<V: Clone + PartialEq + std::fmt::Debug>(
    seed: u64,
    keys: u32,
    operations: u32,
    value: impl Fn(u32) -> V,
) {
    let mut draws = Seed(seed).stream(&["map"]);
    let mut draw = move |below: u32| draws.below(u64::from(below)) as u32;
    let (mut map, mut reference) = (Map::new(), BTreeMap::new());
    for n in 0..operations {
        let key = draw(keys);
        match draw(19) {
            0..=6 => assert_eq!(map.insert(key, value(n)), reference.insert(key, value(n))),
            7..=9 => assert_eq!(map.remove(&key), reference.remove(&key)),
            10 => assert_eq!(map.remove_entry(&key), reference.remove_entry(&key)),
            11 => assert_eq!(map.entry(key).or_insert(value(n)), reference.entry(key).or_insert(value(n))),
            12 => {
                map.entry(key).and_modify(|v| *v = value(n));
                reference.entry(key).and_modify(|v| *v = value(n));
            }
            13 => assert_eq!(map.pop_first(), reference.pop_first()),
            14 => assert_eq!(map.pop_last(), reference.pop_last()),
            15 => {
                assert_eq!(map.get(&key), reference.get(&key));
                assert_eq!(map.contains_key(&key), reference.contains_key(&key));
                assert_eq!(map.get_key_value(&key), reference.get_key_value(&key));
            }
            16 => {
                let other = key + draw(keys - key);
                let bounds = [Bound::Included(key), Bound::Excluded(key), Bound::Unbounded];
                let ends = [Bound::Included(other), Bound::Excluded(other), Bound::Unbounded];
                let range = (bounds[draw(3) as usize], ends[draw(3) as usize]);
                if range == (Bound::Excluded(key), Bound::Excluded(key)) {
                    assert_eq!(map.range(range).count(), 0);
                    continue;
                }
                assert!(map.range(range).eq(reference.range(range)));
                assert!(map.range(range).rev().eq(reference.range(range).rev()));
                map.range_mut(range).for_each(|(_, v)| *v = value(n));
                reference.range_mut(range).for_each(|(_, v)| *v = value(n));
            }
            17 if draw(10) == 0 => {
                let (mut cut, mut cut_reference) = (map.split_off(&key), reference.split_off(&key));
                check(&cut, &cut_reference);
                check(&map, &reference);
                if draw(4) > 0 {
                    map.append(&mut cut);
                    reference.append(&mut cut_reference);
                }
            }
            18 if draw(20) == 0 => {
                map.retain(|k, _| k % 3 != key % 3);
                reference.retain(|k, _| k % 3 != key % 3);
            }
            _ => {
                let (first, expected) =
                    (map.first_entry().map(|e| *e.key()), reference.first_entry().map(|e| *e.key()));
                assert_eq!(first, expected);
            }
        }
        if n % 16 == 0 {
            check(&map, &reference);
            assert!(map.chunks.iter().all(|chunk| chunk.len() <= Map::<u32, V>::CAPACITY));
        }
    }
    check(&map, &reference);
    assert_eq!(map.clone(), map);
    assert!(map.clone().into_iter().eq(reference.clone()));
    assert!(map.clone().into_iter().rev().eq(reference.clone().into_iter().rev()));
    assert_eq!(format!("{map:?}"), format!("{reference:?}"));
}

#[test]
fn drawn_operations_give_what_a_btreemap_gives() {
    for seed in 0..12 {
        for keys in [3, 30, 300, 3_000] {
            drive(seed, keys, 2_000, |n| n);
        }
        drive(seed, 300, 1_000, |n| [u64::from(n); 40] as Large);
        drive(seed, 100, 1_000, |_| ());
    }
}

#[test]
fn ascending_keys_leave_full_chunks() {
    let map: Map<u32, u32> = (0..1_000).map(|n| (n, n)).collect();
    assert_eq!(map.chunks.len(), 1_000usize.div_ceil(Map::<u32, u32>::CAPACITY));
}

#[test]
fn chunks_of_a_large_map_grow() {
    let mut draws = Seed(2).stream(&["map"]);
    let entries: Vec<(u32, Large)> = (0..20_000).map(|n| (draws.below(1 << 30) as u32, [n; 40])).collect();
    let mut map: Map<u32, Large> = entries.iter().copied().collect();
    let mut reference: BTreeMap<u32, Large> = entries.iter().copied().collect();
    check(&map, &reference);
    assert!(map.chunks.iter().any(|chunk| chunk.len() > 2 * Map::<u32, Large>::CAPACITY));
    assert!(map.chunks.len() < 2_000, "{} chunks", map.chunks.len());
    for (n, (key, _)) in entries.iter().enumerate() {
        assert_eq!(map.remove(key), reference.remove(key));
        assert_eq!(map.pop_first(), reference.pop_first());
        if n % 2_000 == 0 {
            check(&map, &reference);
        }
    }
    assert!(map.is_empty() && map.chunks.is_empty());
}

#[test]
fn a_map_that_shrinks_has_few_chunks() {
    let mut map: Map<u32, u32> = (0..10_000).map(|n| (n, n)).collect();
    for key in 0..10_000 {
        if key % 50 != 0 {
            map.remove(&key);
        }
    }
    assert_eq!(map.len(), 200);
    assert!(map.chunks.len() <= 200 * 8 / Map::<u32, u32>::CAPACITY, "{} chunks", map.chunks.len());
}

#[test]
fn equal_maps_are_equal_however_they_came_about() {
    let up: Map<u32, u32> = (0..500).map(|n| (n, n)).collect();
    let down: Map<u32, u32> = (0..500).rev().map(|n| (n, n)).collect();
    assert_eq!(up, down);
    assert_eq!(up.cmp(&down), std::cmp::Ordering::Equal);
    assert!(up < (1..500).map(|n| (n, n)).collect());
}

#[test]
fn sets_give_what_a_btreeset_gives() {
    let mut draws = Seed(1).stream(&["set"]);
    let mut draw = || (0..60).map(|_| draws.below(100) as u32).collect::<Vec<_>>();
    for _ in 0..50 {
        let (a, b) = (draw(), draw());
        let (one, other): (Set<u32>, Set<u32>) = (a.iter().copied().collect(), b.iter().copied().collect());
        let (first, second): (BTreeSet<u32>, BTreeSet<u32>) =
            (a.into_iter().collect(), b.into_iter().collect());
        assert!(one.iter().eq(&first));
        assert!(one.union(&other).eq(first.union(&second)));
        assert!(one.difference(&other).eq(first.difference(&second)));
        assert!(one.intersection(&other).eq(first.intersection(&second)));
        assert!(one.range(20..70).eq(first.range(20..70)));
        assert_eq!(one.is_subset(&other), first.is_subset(&second));
        assert_eq!(one.is_disjoint(&other), first.is_disjoint(&second));
        assert_eq!(format!("{one:?}"), format!("{first:?}"));
    }
}
