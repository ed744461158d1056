//! Searches sorted tokens.
//!
//! Tokens are hashes and so about evenly distributed: interpolation between the ends gives a near
//! position. From there the steps double until they are past the target, which a binary search then
//! locates. Few cache lines are accessed, whatever the number of tokens; and uneven tokens cost no
//! more than twice a plain binary search.

/// Returns how many of `tokens`, which ascend, are less than `token`.
pub(crate) fn count_less(tokens: &[i64], token: i64) -> usize {
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return 0 };
    if token <= *first {
        return 0;
    }
    if token > *last {
        return tokens.len();
    }
    // Here first < token <= last. The estimate is less than the length, rounding included: no
    // fraction exceeds 1.
    let share = |from: i64| token.wrapping_sub(from) as u64 as f64 / last.wrapping_sub(from) as u64 as f64;
    let guess = ((share(*first) * (tokens.len() - 1) as f64) as usize).min(tokens.len() - 1);
    // Loop invariant: tokens[low] < token <= tokens[high].
    let (mut low, mut high);
    let mut step = 4;
    if tokens[guess] < token {
        low = guess;
        loop {
            high = (low + step).min(tokens.len() - 1);
            if tokens[high] >= token {
                break;
            }
            low = high;
            step *= 2;
        }
    } else {
        high = guess;
        loop {
            low = high.saturating_sub(step);
            if tokens[low] < token {
                break;
            }
            high = low;
            step *= 2;
        }
    }
    low + 1 + tokens[low + 1..high].partition_point(|other| *other < token)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_place_is_found_as_a_plain_search_finds_it(
            mut tokens in prop::collection::vec(
                prop_oneof![any::<i64>(), -20..20i64, Just(i64::MIN), Just(i64::MAX)], 0..300),
            token in prop_oneof![any::<i64>(), -20..20i64, Just(i64::MIN), Just(i64::MAX)],
        ) {
            tokens.sort_unstable();
            let plain = |token| tokens.partition_point(|other| *other < token);
            prop_assert_eq!(count_less(&tokens, token), plain(token));
            for token in &tokens {
                prop_assert_eq!(count_less(&tokens, *token), plain(*token));
            }
        }
    }
}
