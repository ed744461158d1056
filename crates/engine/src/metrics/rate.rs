//! Events a second, as moving averages.

use std::time::Duration;

use parking_lot::Mutex;

use super::counter::Counter;

/// Counts events and their rate.
#[derive(Debug, Default)]
pub struct Meter {
    counter: Counter,
    recent: RecentRate,
}

/// The rate of events that are counted elsewhere.
#[derive(Debug, Default)]
pub struct RecentRate(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    /// The monotonic time of the last tick, and the count at that time.
    last: Option<(Duration, u64)>,
    rates: Option<Rates>,
}

impl RecentRate {
    /// Returns the events a second, as of the last tick; `None` before the second one.
    pub fn rates(&self) -> Option<Rates> {
        self.0.lock().rates
    }

    /// Updates the rates. `now` is monotonic time, `count` the number of events until then.
    pub fn tick(&self, now: Duration, count: u64) {
        let mut recent = self.0.lock();
        if let Some((at, counted)) = recent.last {
            let (new, elapsed) = (count.saturating_sub(counted), now.saturating_sub(at));
            let is_first = recent.rates.is_none();
            recent.rates = Some(recent.rates.unwrap_or_default().after(new, elapsed, is_first));
        }
        recent.last = Some((now, count));
    }
}

impl Meter {
    /// Adds `n` events.
    pub fn add(&self, n: u64) {
        self.counter.add(n);
    }

    /// Returns the number of events.
    pub fn get(&self) -> u64 {
        self.counter.get()
    }

    /// Returns the events a second, as of the last tick.
    pub fn rates(&self) -> Rates {
        self.recent.rates().unwrap_or_default()
    }

    /// Updates the rates. `now` is monotonic time.
    pub fn tick(&self, now: Duration) {
        self.recent.tick(now, self.counter.get());
    }
}

/// Events a second, as exponential moving averages like the load averages of `uptime`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Over a minute.
    pub one_minute: f64,
    /// Over five minutes.
    pub five_minutes: f64,
    /// Over fifteen minutes.
    pub fifteen_minutes: f64,
}

impl Rates {
    /// Returns the averages after `events` more in `elapsed`; the first ones are the rate of that
    /// time.
    pub(super) fn after(self, events: u64, elapsed: Duration, is_first: bool) -> Self {
        let seconds = elapsed.as_secs_f64();
        if seconds <= 0.0 {
            return self;
        }
        let now = events as f64 / seconds;
        let blend = |before: f64, minutes: f64| {
            if is_first { now } else { before + (now - before) * (1.0 - (-seconds / (60.0 * minutes)).exp()) }
        };
        Self {
            one_minute: blend(self.one_minute, 1.0),
            five_minutes: blend(self.five_minutes, 5.0),
            fifteen_minutes: blend(self.fifteen_minutes, 15.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_follow_what_happens_the_short_one_first() {
        let step = Duration::from_secs(5);
        let mut rates = Rates::default().after(50, step, true);
        assert_eq!(rates.fifteen_minutes, 10.0);
        for _ in 0..12 {
            rates = rates.after(0, step, false);
        }
        assert!((rates.one_minute - 10.0 / std::f64::consts::E).abs() < 1e-9, "{rates:?}");
        assert!(rates.one_minute < rates.five_minutes && rates.five_minutes < rates.fifteen_minutes);
    }
}
