//! A cache of file blocks with a limit. The least recently used block goes first.

use std::collections::{BTreeMap, HashMap};

/// The identity of a block: the file's index, and the block's number in the file.
pub type Key = (u32, u64);

/// One block in the cache.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Its bytes. Behind the end of the file they are zeros.
    pub bytes: Vec<u8>,
    /// Whether it differs from the disk.
    pub changed: bool,
}

/// A bounded cache of blocks.
#[derive(Debug)]
pub struct Cache {
    blocks: HashMap<Key, (u64, Block)>,
    by_age: BTreeMap<u64, Key>,
    clock: u64,
    limit: usize,
}

impl Cache {
    /// A cache of at most `limit` blocks. It always holds at least one.
    pub fn new(limit: usize) -> Self {
        Self { blocks: HashMap::new(), by_age: BTreeMap::new(), clock: 0, limit: limit.max(1) }
    }

    /// The block, which becomes the most recently used.
    pub fn get(&mut self, key: Key) -> Option<&mut Block> {
        let (age, block) = self.blocks.get_mut(&key)?;
        self.by_age.remove(age);
        self.clock += 1;
        *age = self.clock;
        self.by_age.insert(self.clock, key);
        Some(block)
    }

    /// Whether the block is there. Its age does not change.
    pub fn holds(&self, key: Key) -> bool {
        self.blocks.contains_key(&key)
    }

    /// Inserts a block as the most recently used. Returns the block that it evicted, if any.
    pub fn put(&mut self, key: Key, block: Block) -> Option<(Key, Block)> {
        self.clock += 1;
        if let Some((age, _)) = self.blocks.insert(key, (self.clock, block)) {
            self.by_age.remove(&age);
        }
        self.by_age.insert(self.clock, key);
        if self.blocks.len() <= self.limit {
            return None;
        }
        let (_, oldest) = self.by_age.pop_first()?;
        self.blocks.remove(&oldest).map(|(_, block)| (oldest, block))
    }

    /// The blocks of a file that differ from the disk, in the file's order.
    pub fn changed(&self, file: u32) -> Vec<u64> {
        let changed =
            |(key, (_, block)): (&Key, &(u64, Block))| (key.0 == file && block.changed).then_some(key.1);
        let mut numbers: Vec<u64> = self.blocks.iter().filter_map(changed).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The block, to be written back. Its age does not change.
    pub fn peek(&mut self, key: Key) -> Option<&mut Block> {
        self.blocks.get_mut(&key).map(|(_, block)| block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8, changed: bool) -> Block {
        Block { bytes: vec![byte], changed }
    }

    #[test]
    fn the_longest_unused_goes_first() {
        let mut cache = Cache::new(2);
        assert_eq!(cache.put((0, 0), block(0, false)), None);
        assert_eq!(cache.put((0, 1), block(1, true)), None);
        assert!(cache.get((0, 0)).is_some());
        assert_eq!(cache.put((0, 2), block(2, false)), Some(((0, 1), block(1, true))));
        assert!(cache.holds((0, 0)) && cache.holds((0, 2)) && !cache.holds((0, 1)));
        assert_eq!(cache.by_age.len(), 2);
    }

    #[test]
    fn a_block_that_is_put_again_replaces_itself() {
        let mut cache = Cache::new(2);
        cache.put((0, 0), block(0, false));
        cache.put((0, 1), block(1, false));
        assert_eq!(cache.put((0, 0), block(9, false)), None);
        assert_eq!(cache.get((0, 0)).unwrap().bytes, [9]);
        assert_eq!(cache.put((0, 2), block(2, false)).unwrap().0, (0, 1));
    }

    #[test]
    fn changed_blocks_are_listed_in_order() {
        let mut cache = Cache::new(9);
        for number in [5, 1, 3] {
            cache.put((1, number), block(number as u8, true));
        }
        cache.put((2, 0), block(0, true));
        cache.put((1, 2), block(0, false));
        assert_eq!(cache.changed(1), [1, 3, 5]);
        cache.peek((1, 3)).unwrap().changed = false;
        assert_eq!(cache.changed(1), [1, 5]);
        assert_eq!(cache.changed(2), [0]);
    }

    #[test]
    fn there_is_room_for_one_block_at_least() {
        let mut cache = Cache::new(0);
        assert_eq!(cache.put((0, 0), block(0, false)), None);
        assert!(cache.put((0, 1), block(1, false)).is_some());
    }
}
