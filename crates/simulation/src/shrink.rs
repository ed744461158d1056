//! Shortens a failing run.

use crate::operation::Operation;
use crate::profile::Profile;
use crate::{Failure, run};

/// Returns the shortest failing run found, and its failure. Omits half of the operations at a time,
/// then a quarter, and so on. The result may fail for a different reason than the whole run.
pub fn shrink(
    profile: &Profile,
    operations: &[Operation],
    failure: Box<Failure>,
) -> (Vec<Operation>, Box<Failure>) {
    let mut shortest = operations[..failure.steps.min(operations.len())].to_vec();
    let mut failure = failure;
    let mut part = shortest.len().div_ceil(2);
    while part > 0 {
        let mut start = 0;
        while start < shortest.len() {
            let end = (start + part).min(shortest.len());
            let shorter: Vec<Operation> = shortest[..start].iter().chain(&shortest[end..]).copied().collect();
            match run(profile, &shorter) {
                Err(still) => {
                    shortest = shorter;
                    shortest.truncate(still.steps);
                    failure = still;
                }
                Ok(_) => start = end,
            }
        }
        part /= 2;
    }
    (shortest, failure)
}
