//! The operations that are counted, by layer.

mod data;
mod language;
mod node;
mod protocol;
mod reads;
mod scans;
mod storage;
mod transactions;
mod writes;

use crate::meter::{Counted, Meter};

/// An operation whose instructions are counted.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The name in the table of counts.
    pub name: &'static str,
    /// The number of operations that are counted together: enough that seeds of hash maps and
    /// growing buffers change the mean by less than 1 %.
    pub operations: u64,
    /// Prepares the data and performs the operations.
    pub run: fn(Meter) -> Counted,
}

const fn case(name: &'static str, operations: u64, run: fn(Meter) -> Counted) -> Case {
    Case { name, operations, run }
}

/// Returns all cases, in the order of the table.
pub fn all() -> Vec<Case> {
    let groups: [&[Case]; 7] = [
        language::CASES,
        writes::CASES,
        reads::CASES,
        scans::CASES,
        storage::CASES,
        transactions::CASES,
        protocol::CASES,
    ];
    groups.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cases check their results. Few operations suffice for that.
    #[test]
    fn every_case_performs_its_operations() {
        for case in all() {
            let operations = case.operations.min(200);
            println!("{}", case.name);
            (case.run)(Meter::new(operations));
        }
    }

    #[test]
    fn names_of_cases_are_unique() {
        let mut names: Vec<&str> = all().iter().map(|case| case.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
