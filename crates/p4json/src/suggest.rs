/// Name most similar to a misspelt one, if any is similar enough. The last component of a dotted name also
/// matches.
pub fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let score = |name: &str| strsim::jaro_winkler(&wrong.to_lowercase(), &name.to_lowercase());
    let tail = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let best =
        names.map(|name| (score(name).max(score(tail(name))), name)).filter(|(score, _)| *score > 0.75);
    best.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, name)| name)
}
