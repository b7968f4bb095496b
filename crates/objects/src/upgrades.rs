//! Upgrades of a host: processes of the experiment, by index, that others have replaced.

use belljar_base::Map;

/// Upgrades of a host, also through its crashes.
#[derive(Debug, Default)]
pub struct Upgrades {
    /// Processes that replace others.
    replaced: Map<usize, usize>,
    /// Processes that are to end, with those that start then.
    waiting: Vec<(usize, usize)>,
}

impl Upgrades {
    /// Replaces a process by another one. A process that has been replaced by that one is back.
    pub fn replace(&mut self, from: usize, to: usize) {
        if self.replaced.get(&to) == Some(&from) {
            self.replaced.remove(&to);
        } else {
            self.replaced.insert(from, to);
        }
    }
    /// Process that starts as `spec`: the one that has replaced it, or itself.
    pub fn current(&self, spec: usize) -> usize {
        // As many steps as there are entries: events may make a circle.
        let mut current = spec;
        for _ in 0..self.replaced.len() {
            match self.replaced.get(&current) {
                Some(next) if *next != spec => current = *next,
                _ => break,
            }
        }
        current
    }
    /// Lets a process start at the end of another one.
    pub fn wait(&mut self, from: usize, to: usize) {
        self.waiting.push((from, to));
    }
    /// Lets `to` start in place of `from`, if that still waits for the end of another one. False if it does not.
    pub fn redirect(&mut self, from: usize, to: usize) -> bool {
        let waiting = self.waiting.iter_mut().find(|(_, next)| *next == from);
        waiting.map(|(_, next)| *next = to).is_some()
    }
    /// True if a process is to end.
    pub fn is_to_end(&self, spec: usize) -> bool {
        self.waiting.iter().any(|(from, _)| *from == spec)
    }
    /// Notes the end of a process. Returns the one that starts then.
    pub fn ended(&mut self, spec: usize) -> Option<usize> {
        let at = self.waiting.iter().position(|(from, _)| *from == spec)?;
        Some(self.waiting.remove(at).1)
    }
    /// Forgets the processes that are to end.
    pub fn crashed(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrades_follow_each_other_and_are_undone() {
        let mut upgrades = Upgrades::default();
        upgrades.replace(0, 1);
        upgrades.replace(1, 2);
        assert_eq!([0, 1, 2, 3].map(|spec| upgrades.current(spec)), [2, 2, 2, 3]);
        upgrades.replace(2, 1);
        assert_eq!(upgrades.current(0), 1);
        upgrades.replace(1, 0);
        assert_eq!(upgrades.current(0), 0);
        upgrades.wait(0, 1);
        assert!(upgrades.is_to_end(0) && !upgrades.is_to_end(1));
        assert_eq!((upgrades.redirect(1, 0), upgrades.redirect(1, 2)), (true, false));
        assert_eq!((upgrades.ended(0), upgrades.ended(0)), (Some(0), None));
    }
}
