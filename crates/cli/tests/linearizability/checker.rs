//! Checks whether a concurrent history is linearizable: the search of Wing and Gong with Lowe's
//! cache of visited states.
//!
//! An operation takes effect at one moment between its call and its return. One without an answer
//! takes effect at some moment after its call, or never.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// A sequential object.
pub trait Object {
    type State: Clone + Eq + Hash + Debug;
    type Input: Clone + Debug;
    type Output: Clone + PartialEq + Debug;

    fn initial() -> Self::State;

    /// Applies an operation to a state: returns the state after it and the answer.
    fn step(state: &Self::State, input: &Self::Input) -> (Self::State, Self::Output);
}

/// One operation of a history.
#[derive(Debug, Clone)]
pub struct Operation<O: Object> {
    pub input: O::Input,
    /// The answer; `None` if it was lost.
    pub output: Option<O::Output>,
    /// The time of the call, by a clock that all clients share and that never returns the same time
    /// twice.
    pub called: u64,
    /// The time of the answer.
    pub returned: u64,
}

/// Searches for an order of the operations that explains all answers.
pub fn is_linearizable<O: Object>(history: &[Operation<O>]) -> bool {
    let mut operations: Vec<&Operation<O>> = history.iter().collect();
    operations.sort_by_key(|operation| operation.called);
    let answered = operations.iter().filter(|operation| operation.output.is_some()).count();
    let start = Place { done: vec![0; operations.len().div_ceil(64)], answered: 0, state: O::initial() };
    let mut seen = HashSet::from([(start.done.clone(), start.state.clone())]);
    let mut places = vec![start];
    while let Some(place) = places.pop() {
        if place.answered == answered {
            return true;
        }
        // An operation can be next unless another one, not yet in the order, had returned before it
        // was called.
        let open = || operations.iter().enumerate().filter(|(index, _)| !place.has(*index));
        let first_return = open()
            .filter(|(_, operation)| operation.output.is_some())
            .map(|(_, operation)| operation.returned)
            .min()
            .unwrap_or(u64::MAX);
        for (index, operation) in open().take_while(|(_, operation)| operation.called < first_return) {
            let (state, output) = O::step(&place.state, &operation.input);
            if operation.output.as_ref().is_some_and(|answer| *answer != output) {
                continue;
            }
            let next = place.with(index, state, operation.output.is_some());
            if seen.insert((next.done.clone(), next.state.clone())) {
                places.push(next);
            }
        }
    }
    false
}

/// A prefix of an order: its operations, and the state after them.
struct Place<S> {
    done: Vec<u64>,
    answered: usize,
    state: S,
}

impl<S> Place<S> {
    fn has(&self, index: usize) -> bool {
        self.done[index / 64] >> (index % 64) & 1 == 1
    }

    fn with(&self, index: usize, state: S, is_answered: bool) -> Self {
        let mut done = self.done.clone();
        done[index / 64] |= 1 << (index % 64);
        Self { done, answered: self.answered + usize::from(is_answered), state }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register with compare-and-set.
    #[derive(Debug, Clone)]
    struct Register;

    #[derive(Debug, Clone)]
    enum Input {
        Read,
        Set(u8, u8),
    }

    impl Object for Register {
        type State = u8;
        type Input = Input;
        type Output = (bool, u8);

        fn initial() -> u8 {
            0
        }

        fn step(state: &u8, input: &Input) -> (u8, (bool, u8)) {
            match input {
                Input::Read => (*state, (true, *state)),
                Input::Set(expected, new) if state == expected => (*new, (true, *state)),
                Input::Set(..) => (*state, (false, *state)),
            }
        }
    }

    /// When it was called, when it returned, the input, the answer.
    type Call = (u64, u64, Input, Option<(bool, u8)>);

    fn check(operations: &[Call]) -> bool {
        let history = operations.iter().map(|(called, returned, input, output)| {
            let (called, returned, input, output) = (*called, *returned, input.clone(), *output);
            Operation::<Register> { input, output, called, returned }
        });
        is_linearizable(&history.collect::<Vec<_>>())
    }

    use Input::{Read, Set};

    #[test]
    fn a_read_sees_every_write_that_returned_before_it_was_called() {
        let write = (1, 2, Set(0, 1), Some((true, 0)));
        assert!(check(&[write.clone(), (3, 4, Read, Some((true, 1)))]));
        assert!(!check(&[write, (3, 4, Read, Some((true, 0)))]), "a stale read");
    }

    #[test]
    fn a_read_beside_a_write_sees_the_value_before_or_after_it() {
        let write = (1, 9, Set(0, 1), Some((true, 0)));
        for value in [0, 1] {
            assert!(check(&[write.clone(), (2, 3, Read, Some((true, value)))]));
        }
        let new_then_old = [write, (2, 3, Read, Some((true, 1))), (4, 5, Read, Some((true, 0)))];
        assert!(!check(&new_then_old), "a value that came and went");
    }

    #[test]
    fn two_writes_cannot_replace_the_same_value() {
        let both = [(1, 5, Set(0, 1), Some((true, 0))), (2, 6, Set(0, 2), Some((true, 0)))];
        assert!(!check(&both));
        assert!(check(&[both[0].clone(), (2, 6, Set(0, 2), Some((false, 1)))]));
    }

    #[test]
    fn a_write_without_an_answer_takes_effect_at_any_later_time_or_never() {
        let unknown = (1, 2, Set(0, 1), None);
        assert!(check(std::slice::from_ref(&unknown)));
        for (first, second) in [(0, 0), (0, 1), (1, 1)] {
            let reads = [(3, 4, Read, Some((true, first))), (5, 6, Read, Some((true, second)))];
            assert!(check(&[std::slice::from_ref(&unknown), &reads].concat()), "{first} {second}");
        }
        let back = [(3, 4, Read, Some((true, 1))), (5, 6, Read, Some((true, 0)))];
        assert!(!check(&[std::slice::from_ref(&unknown), &back].concat()));
        let before = [(1, 2, Read, Some((true, 1))), (3, 4, Set(0, 1), None)];
        assert!(!check(&before), "an effect before the call");
    }
}
