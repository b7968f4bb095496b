//! Keys in use: each is replaced by another after a number of uses.

use belljar_base::Stream;

/// Keys in use, with the number of their uses.
pub struct Keys {
    used: Vec<(i64, u32)>,
    most: u32,
    next: i64,
}

impl Keys {
    pub fn new(count: u32, most: u32) -> Keys {
        Keys { used: (0..i64::from(count)).map(|key| (key, 0)).collect(), most, next: i64::from(count) }
    }

    /// All keys in use.
    pub fn all(&self) -> impl Iterator<Item = i64> {
        self.used.iter().map(|(key, _)| *key)
    }

    /// Key that is drawn, without a use.
    pub fn any(&self, random: &mut Stream) -> i64 {
        self.used[self.draw(random)].0
    }

    /// Key that is drawn, with a use.
    pub fn used(&mut self, random: &mut Stream) -> i64 {
        self.written(random).0
    }

    /// Key that is drawn, with the number of its use, from 1.
    pub fn written(&mut self, random: &mut Stream) -> (i64, u32) {
        let index = self.draw(random);
        let (key, uses) = &mut self.used[index];
        *uses += 1;
        let drawn = (*key, *uses);
        if *uses >= self.most {
            self.used[index] = (self.next, 0);
            self.next += 1;
        }
        drawn
    }

    fn draw(&self, random: &mut Stream) -> usize {
        random.below(self.used.len() as u64) as usize
    }
}
