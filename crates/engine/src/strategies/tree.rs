//! What strategies are shown of a table, and what they answer.

use super::options::MAX_LEVELS;

/// A table's SSTables at one moment, as far as strategies care.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tree {
    /// All of them, those that are being compacted too.
    pub sstables: Vec<Candidate>,
    /// Seconds since 1970.
    pub now: u64,
    /// Bytes that a flush gives, on average.
    pub flush_size: u64,
}

/// What strategies know of an SSTable.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Candidate {
    /// Bytes of Data on disk.
    pub size: u64,
    /// The token of the first key.
    pub first: i64,
    /// The token of the last key.
    pub last: i64,
    /// The level that its Statistics say.
    pub level: u32,
    /// The greatest write timestamp in it.
    pub max_timestamp: i64,
    /// When it was written, seconds since 1970.
    pub created: u64,
    /// Reads a second per key.
    pub hotness: f64,
    /// The share of its cells that could be dropped if nothing overlapped.
    pub droppable_ratio: f64,
    /// Whether compacting it alone would drop enough tombstones; see
    /// [`tombstones`](super::tombstones).
    pub worth_dropping_tombstones: bool,
    /// Whether all of it has expired and covers nothing elsewhere.
    pub is_expired: bool,
    /// Whether a compaction has it.
    pub compacting: bool,
    /// Whether it was met corrupt: never compacted.
    pub suspect: bool,
}

impl Candidate {
    /// Whether it can be compacted now.
    pub fn is_free(&self) -> bool {
        !self.compacting && !self.suspect
    }

    /// Whether tokens of it lie from `first` to `last`.
    pub fn meets(&self, (first, last): (i64, i64)) -> bool {
        self.first <= last && first <= self.last
    }
}

/// A compaction to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Indexes of the inputs.
    pub inputs: Vec<usize>,
    /// What becomes of them.
    pub outcome: Outcome,
    /// Whether it is done for tombstones alone.
    pub for_tombstones: bool,
}

/// What becomes of a compaction's inputs.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// They are merged into new SSTables of this level.
    Merged {
        /// The level; 0 where levels mean nothing.
        level: u32,
        /// Where one output ends and the next begins.
        cut: Cut,
    },
    /// The only one is called one of this level from now on; its rows stay where they are.
    Relabeled {
        /// The level.
        level: u32,
    },
}

/// Where one output of a compaction ends and the next begins. Always between partitions.
#[derive(Debug, Clone, PartialEq)]
pub enum Cut {
    /// Nowhere.
    Never,
    /// When an output has more than so many bytes on disk; or half of them, where one of the next
    /// level ends.
    AtSize {
        /// Bytes of an output.
        size: u64,
        /// The last tokens of the SSTables of the level after the outputs', ascending.
        ends: Vec<i64>,
    },
    /// When an output has more than so many bytes on disk, and outputs fill L1, then L2, and so on,
    /// each up to its capacity.
    IntoLevels {
        /// Bytes of an output.
        size: u64,
        /// How many times larger each level is than the one above it.
        fanout: u32,
    },
    /// When an output has this share of so many bytes: a half, a quarter, and so on.
    Halving(u64),
    /// After these tokens, ascending.
    Shards(Vec<i64>),
}

impl Task {
    /// A merge into one SSTable.
    pub fn merge(inputs: Vec<usize>) -> Self {
        Self { inputs, outcome: Outcome::Merged { level: 0, cut: Cut::Never }, for_tombstones: false }
    }
}

impl Tree {
    /// The indexes of those that can be compacted now.
    pub fn free(&self) -> impl Iterator<Item = usize> {
        (0..self.sstables.len()).filter(|i| self.sstables[*i].is_free())
    }

    /// Bytes of some SSTables together.
    pub fn bytes(&self, sstables: impl IntoIterator<Item = usize>) -> u64 {
        sstables.into_iter().map(|i| self.sstables[i].size).sum()
    }

    /// From the least to the greatest token of some SSTables; `None` of none.
    pub fn span(&self, sstables: impl IntoIterator<Item = usize>) -> Option<(i64, i64)> {
        sstables
            .into_iter()
            .map(|i| (self.sstables[i].first, self.sstables[i].last))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The SSTables by level. Below L0 an SSTable that shares tokens with one before it counts as
    /// one of L0: it may come from another strategy, or from elsewhere.
    pub fn levels(&self) -> Vec<Vec<usize>> {
        let mut levels = vec![Vec::new(); MAX_LEVELS];
        for (i, sstable) in self.sstables.iter().enumerate() {
            let level = usize::try_from(sstable.level).ok().filter(|level| *level < MAX_LEVELS);
            levels[level.unwrap_or(0)].push(i);
        }
        let mut strays = Vec::new();
        for level in &mut levels[1..] {
            level.sort_by_key(|i| (self.sstables[*i].first, self.sstables[*i].last));
            let mut end: Option<i64> = None;
            level.retain(|i| {
                let sstable = &self.sstables[*i];
                let fits = end.is_none_or(|end| end < sstable.first);
                if fits {
                    end = Some(sstable.last)
                } else {
                    strays.push(*i)
                }
                fits
            });
        }
        levels[0].extend(strays);
        levels
    }
}

/// Trees drawn in text, for tests: an SSTable a word, levels by line.
///
/// ```text
/// L0: a=10[0-99]  b=10[20-50]@7
/// L1: c=100[0-40]* d=100[41-99]
/// ```
///
/// A word is a name, MiB on disk, tokens from and to; then `@` with the greatest timestamp, `~`
/// with hotness, `%` with the droppable share in hundredths (worth dropping if a `!` follows), `+`
/// with the second of creation, `x` if it has expired, `*` if it is being compacted, `?` if it is
/// suspect. Lines may go without a level, and words without tokens.
#[cfg(test)]
pub mod picture {
    use super::*;

    /// A tree, and the names of its SSTables by index.
    pub fn tree(text: &str) -> (Tree, Vec<String>) {
        let mut tree = Tree { now: 1_000_000, flush_size: 100 << 20, ..Tree::default() };
        let mut names = Vec::new();
        for line in text.lines() {
            let line = line.trim();
            let (level, words) = match line.split_once(':') {
                Some((level, words)) => (level.trim_start_matches('L').parse().unwrap(), words),
                None => (0, line),
            };
            for word in words.split_whitespace() {
                let (name, candidate) = sstable(word, level);
                names.push(name);
                tree.sstables.push(candidate);
            }
        }
        (tree, names)
    }

    fn sstable(word: &str, level: u32) -> (String, Candidate) {
        let (name, rest) = word.split_once('=').unwrap_or((word, word));
        let split = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (size, mut rest) = rest.split_at(split);
        let mut candidate = Candidate {
            size: size.parse::<u64>().unwrap() << 20,
            first: 0,
            last: 99,
            level,
            ..Candidate::default()
        };
        if let Some(tokens) = rest.strip_prefix('[') {
            let (tokens, after) = tokens.split_once(']').unwrap();
            let (first, last) = tokens.split_once('-').unwrap();
            (candidate.first, candidate.last) = (first.parse().unwrap(), last.parse().unwrap());
            rest = after;
        }
        while let Some(mark) = rest.chars().next() {
            let body = &rest[1..];
            let end = body.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(body.len());
            let (number, after) = body.split_at(end);
            match mark {
                '@' => candidate.max_timestamp = number.parse().unwrap(),
                '~' => candidate.hotness = number.parse().unwrap(),
                '+' => candidate.created = number.parse().unwrap(),
                '%' => candidate.droppable_ratio = number.parse::<f64>().unwrap() / 100.0,
                '!' => candidate.worth_dropping_tombstones = true,
                'x' => candidate.is_expired = true,
                '*' => candidate.compacting = true,
                '?' => candidate.suspect = true,
                other => panic!("{other} in {word}"),
            }
            rest = after;
        }
        (name.to_owned(), candidate)
    }

    /// A task in words: `a b c -> L1 at 160/49/99`, where outputs may also end at tokens 49 and 99.
    pub fn task(task: &Option<Task>, names: &[String]) -> String {
        let Some(task) = task else { return "nothing".into() };
        let mut inputs: Vec<_> = task.inputs.iter().map(|i| names[*i].as_str()).collect();
        inputs.sort_unstable();
        let outcome = match &task.outcome {
            Outcome::Relabeled { level } => format!("relabeled L{level}"),
            Outcome::Merged { level, cut } => match cut {
                Cut::Never => format!("L{level}"),
                Cut::AtSize { size, ends } => {
                    let ends: String = ends.iter().map(|end| format!("/{end}")).collect();
                    format!("L{level} at {}{ends}", size >> 20)
                }
                Cut::IntoLevels { size, fanout } => format!("levels of {} by {fanout}", size >> 20),
                Cut::Halving(total) => format!("halves of {}", total >> 20),
                Cut::Shards(ends) => format!("{} shards", ends.len() + 1),
            },
        };
        let why = if task.for_tombstones { " (tombstones)" } else { "" };
        format!("{} -> {outcome}{why}", inputs.join(" "))
    }
}
