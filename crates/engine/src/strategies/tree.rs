//! The input and output of strategies.

use super::options::MAX_LEVELS;

/// A table's SSTables at one moment, with the properties that strategies use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tree {
    /// All SSTables, including those that are being compacted.
    pub sstables: Vec<Candidate>,
    /// Seconds since 1970.
    pub now: u64,
    /// The average size of a flush in bytes.
    pub flush_size: u64,
}

/// The properties of an SSTable.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Candidate {
    /// Bytes of Data on disk.
    pub size: u64,
    /// The token of the first key.
    pub first: i64,
    /// The token of the last key.
    pub last: i64,
    /// The level in its Statistics.
    pub level: u32,
    /// The maximum write timestamp.
    pub max_timestamp: i64,
    /// When it was written, seconds since 1970.
    pub created: u64,
    /// Reads a second for each key.
    pub hotness: f64,
    /// The fraction of its cells that could be dropped without overlaps.
    pub droppable_ratio: f64,
    /// Whether compacting it alone would drop enough tombstones; see
    /// [`tombstones`](super::tombstones).
    pub worth_dropping_tombstones: bool,
    /// Whether it has expired completely and covers nothing elsewhere.
    pub is_expired: bool,
    /// Whether it is being compacted.
    pub compacting: bool,
    /// Whether it was found corrupt: never compacted.
    pub suspect: bool,
}

impl Candidate {
    /// Whether it can be compacted now.
    pub fn is_free(&self) -> bool {
        !self.compacting && !self.suspect
    }

    /// Whether its tokens overlap the range from `first` to `last`.
    pub fn meets(&self, (first, last): (i64, i64)) -> bool {
        self.first <= last && first <= self.last
    }
}

/// A compaction to execute.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Indexes of the inputs.
    pub inputs: Vec<usize>,
    /// The result for the inputs.
    pub outcome: Outcome,
    /// Whether it is done only for tombstones.
    pub for_tombstones: bool,
}

/// The result of a compaction for its inputs.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// They are merged into new SSTables of this level.
    Merged {
        /// The level; 0 for strategies without levels.
        level: u32,
        /// The boundaries between outputs.
        cut: Cut,
    },
    /// The level of the only input is changed; its rows are not rewritten.
    Relabeled {
        /// The level.
        level: u32,
    },
}

/// The boundaries between outputs of a compaction. Always between partitions.
#[derive(Debug, Clone, PartialEq)]
pub enum Cut {
    /// None.
    Never,
    /// When an output has more than `size` bytes on disk; or half of them, where an SSTable of the
    /// next level ends.
    AtSize {
        /// Bytes of an output.
        size: u64,
        /// The last tokens of the SSTables of the level after that of the outputs, ascending.
        ends: Vec<i64>,
    },
    /// When an output has more than `size` bytes on disk; outputs fill L1, then L2, and so on, each
    /// up to its capacity.
    IntoLevels {
        /// Bytes of an output.
        size: u64,
        /// The ratio of the sizes of consecutive levels.
        fanout: u32,
    },
    /// When an output has its fraction of these bytes: a half, a quarter, and so on.
    Halving(u64),
    /// After these tokens, ascending.
    Shards(Vec<i64>),
}

impl Task {
    /// Returns a merge into one SSTable.
    pub fn merge(inputs: Vec<usize>) -> Self {
        Self { inputs, outcome: Outcome::Merged { level: 0, cut: Cut::Never }, for_tombstones: false }
    }
}

impl Tree {
    /// Returns the indexes of SSTables that can be compacted now.
    pub fn free(&self) -> impl Iterator<Item = usize> {
        (0..self.sstables.len()).filter(|i| self.sstables[*i].is_free())
    }

    /// Returns the total bytes of some SSTables.
    pub fn bytes(&self, sstables: impl IntoIterator<Item = usize>) -> u64 {
        sstables.into_iter().map(|i| self.sstables[i].size).sum()
    }

    /// Returns the range of tokens of some SSTables; `None` without any.
    pub fn span(&self, sstables: impl IntoIterator<Item = usize>) -> Option<(i64, i64)> {
        sstables
            .into_iter()
            .map(|i| (self.sstables[i].first, self.sstables[i].last))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Returns the SSTables by level. An SSTable above L0 that shares tokens with a previous one
    /// counts as one of L0: it may come from another strategy, or from elsewhere.
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

    /// Returns a tree, and the names of its SSTables by index.
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

    /// Formats a task: `a b c -> L1 at 160/49/99`, where outputs may also end at tokens 49 and 99.
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
