//! The clocks of agents, compared with the driver's.

use std::io;
use std::time::Duration;

use cassette_vfs::Clock;

/// The maximum difference between the clocks of an agent and of the driver, including the
/// uncertainty of its measurement. The start of a phase is corrected by the measured difference,
/// but clocks further apart are not synchronized: they may be set during a run, and logs of the
/// machines cannot be compared.
pub const DIFFERENCE_MAX: Duration = Duration::from_millis(100);

/// Number of round trips of a comparison.
const ROUND_TRIPS: usize = 9;

/// The difference between an agent's clock and the driver's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// How far the agent's clock is ahead, in microseconds.
    pub ahead_us: i64,
    /// Maximum error of that: half of the round trip.
    pub uncertainty_us: i64,
}

impl Difference {
    /// Measures the difference. `request` returns the time of the agent's clock.
    ///
    /// The agent's time lies somewhere within a round trip, so the shortest of several round trips
    /// gives the most precise difference.
    pub fn measure(clock: &dyn Clock, mut request: impl FnMut() -> io::Result<i64>) -> io::Result<Self> {
        let mut best: Option<Self> = None;
        for _ in 0..ROUND_TRIPS {
            let (sent_us, sent) = (clock.now_micros(), clock.monotonic());
            let agent_us = request()?;
            let round_trip = clock.monotonic().saturating_sub(sent);
            let uncertainty_us = round_trip.as_micros().div_ceil(2) as i64;
            let ahead_us = agent_us.saturating_sub(sent_us.saturating_add(uncertainty_us));
            if best.is_none_or(|best| uncertainty_us < best.uncertainty_us) {
                best = Some(Self { ahead_us, uncertainty_us });
            }
        }
        best.ok_or_else(|| io::Error::other("no round trip"))
    }

    /// Refuses clocks that may be further apart than [`DIFFERENCE_MAX`].
    pub fn check(&self) -> Result<(), String> {
        let worst_us = self.ahead_us.unsigned_abs().saturating_add(self.uncertainty_us.unsigned_abs());
        if u128::from(worst_us) <= DIFFERENCE_MAX.as_micros() {
            return Ok(());
        }
        let direction = if self.ahead_us < 0 { "behind" } else { "ahead of" };
        Err(format!(
            "its clock is {} ms {direction} the driver's (± {} ms), expected at most {} ms: synchronize the clocks of \
             all machines (NTP)",
            self.ahead_us.unsigned_abs() / 1000,
            self.uncertainty_us.unsigned_abs().div_ceil(1000),
            DIFFERENCE_MAX.as_millis()
        ))
    }
}

#[cfg(test)]
mod tests {
    use cassette_vfs::ManualClock;

    use super::*;

    #[test]
    fn the_shortest_round_trip_determines_the_difference() {
        let clock = ManualClock::at_micros(1_700_000_000_000_000);
        let mut trips = 0;
        let measured = Difference::measure(&clock, || {
            trips += 1;
            // The requests of all but one are slow.
            clock.advance(Duration::from_micros(if trips == 4 { 300 } else { 20_000 }));
            let now = clock.now_micros() + 3_600_000_000;
            clock.advance(Duration::from_micros(100));
            Ok(now)
        })
        .unwrap();
        assert_eq!(trips, ROUND_TRIPS);
        let expected = Difference { ahead_us: 3_600_000_100, uncertainty_us: 200 };
        assert_eq!(measured, expected, "100 us too much, which is within the uncertainty");
        assert!(Difference::measure(&clock, || Err(io::Error::other("lost"))).is_err());
    }

    #[test]
    fn clocks_within_the_bound_are_accepted_including_the_uncertainty() {
        let check = |ahead_us, uncertainty_us| Difference { ahead_us, uncertainty_us }.check();
        assert_eq!([check(0, 0), check(99_000, 1000), check(-99_000, 1000)], [Ok(()), Ok(()), Ok(())]);
        let error = check(-99_500, 1000).unwrap_err();
        assert!(error.contains("99 ms behind the driver's (± 1 ms)"), "{error}");
        assert!(check(2_500_000, 10).unwrap_err().contains("2500 ms ahead of"));
        assert!(check(0, 200_000).is_err(), "a slow connection hides the difference");
        assert!(check(i64::MIN, i64::MAX).is_err());
    }
}
