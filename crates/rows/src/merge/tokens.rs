//! The tokens of the partitions that the sources of a merge have reached.

/// Tokens in one block.
const BLOCK: usize = 8;

/// The token of each source, by its number. The least is found from the least of each block:
/// a merge of 64 SSTables compares 16 tokens for a partition.
#[derive(Debug)]
pub(super) struct Tokens {
    tokens: Vec<i64>,
    /// The least of each block.
    least: Vec<i64>,
}

impl Tokens {
    pub fn new(tokens: Vec<i64>) -> Self {
        let least = tokens.chunks(BLOCK).map(least).collect();
        Self { tokens, least }
    }

    /// Changes the token of source `i`.
    #[inline]
    pub fn set(&mut self, i: usize, token: i64) {
        self.tokens[i] = token;
        let start = i - i % BLOCK;
        self.least[i / BLOCK] = least(&self.tokens[start..self.tokens.len().min(start + BLOCK)]);
    }

    /// Returns the least token; `None` without sources.
    #[inline]
    pub fn least(&self) -> Option<i64> {
        self.least.iter().min().copied()
    }

    /// Returns the least token of the sources other than `i`; `None` if there are none.
    pub fn least_besides(&self, i: usize) -> Option<i64> {
        let blocks = self.least.iter().enumerate().filter(|(block, _)| *block != i / BLOCK);
        let start = i - i % BLOCK;
        let neighbors =
            self.tokens.iter().enumerate().skip(start).take(BLOCK).filter(|(other, _)| *other != i);
        blocks.chain(neighbors).map(|(_, token)| *token).min()
    }

    /// Returns the sources with the least token `least`, in ascending order.
    #[inline]
    pub fn with(&self, least: i64) -> impl Iterator<Item = usize> {
        let blocks = self.least.iter().enumerate().filter(move |(_, token)| **token == least);
        let starts = blocks.map(|(block, _)| block * BLOCK);
        let sources = starts.flat_map(|start| start..self.tokens.len().min(start + BLOCK));
        sources.filter(move |i| self.tokens[*i] == least)
    }
}

/// Returns the least of the tokens of a block.
#[inline]
fn least(block: &[i64]) -> i64 {
    block.iter().copied().fold(i64::MAX, i64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_tokens_are_those_of_a_search_of_all() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for count in [1, 2, 7, 8, 9, 16, 17, 64, 65] {
            let mut plain: Vec<i64> = (0..count).map(|_| random(9) as i64).collect();
            let mut tokens = Tokens::new(plain.clone());
            for _ in 0..200 {
                let least = *plain.iter().min().unwrap();
                assert_eq!(tokens.least(), Some(least));
                let expected: Vec<_> = (0..count).filter(|i| plain[*i] == least).collect();
                assert_eq!(tokens.with(least).collect::<Vec<_>>(), expected);
                let i = random(count as u64) as usize;
                let others = plain.iter().enumerate().filter(|(other, _)| *other != i);
                assert_eq!(tokens.least_besides(i), others.map(|(_, token)| *token).min());
                plain[i] = if random(5) == 0 { i64::MAX } else { plain[i].saturating_add(random(9) as i64) };
                tokens.set(i, plain[i]);
            }
        }
        assert_eq!(Tokens::new(Vec::new()).least(), None);
    }
}
