//! Axes of charts: positions of values, and round values as ticks.

/// About the number of parts between ticks.
const TICKS: f64 = 4.0;

/// A linear or logarithmic axis between two positions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    /// Distance of the ticks; `None` if it is logarithmic.
    step: Option<f64>,
}

impl Axis {
    /// Creates a linear axis for values from `low` to `high`, extended to round values.
    pub fn linear((low, high): (f64, f64), (start, end): (f64, f64)) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        let step = step(high - low);
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        Self { low, high, start, end, step: Some(step) }
    }

    /// Creates a logarithmic axis for values from `low` to `high`, both above 0, extended to round
    /// values.
    pub fn logarithmic((low, high): (f64, f64), (start, end): (f64, f64)) -> Self {
        let low = low.max(f64::MIN_POSITIVE);
        let high = high.max(low);
        let below =
            [5.0, 2.0, 1.0].map(|factor| factor * power_of_ten(low)).into_iter().find(|at| *at <= low);
        let above = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power_of_ten(high));
        let above = above.into_iter().find(|at| *at >= high && *at > low);
        let (low, high) = (below.unwrap_or(low), above.unwrap_or(high * 2.0));
        Self { low, high, start, end, step: None }
    }

    /// Returns the position of a value. Values beyond the axis are at its ends.
    pub fn at(&self, value: f64) -> f64 {
        let share = if self.step.is_none() {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Returns the values to mark, ascending.
    pub fn ticks(&self) -> Vec<f64> {
        if let Some(step) = self.step {
            let count = ((self.high - self.low) / step).round() as usize;
            return (0..=count).map(|number| self.low + number as f64 * step).collect();
        }
        let decades = (self.high / self.low).log10();
        let factors: &[f64] = if decades < TICKS / 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let mut power = power_of_ten(self.low);
        let mut ticks = Vec::new();
        while power <= self.high {
            ticks.extend(factors.iter().map(|factor| factor * power).filter(|tick| {
                // Products of powers of ten are not exact.
                *tick >= self.low * 0.999 && *tick <= self.high * 1.001
            }));
            power *= 10.0;
        }
        ticks
    }
}

fn power_of_ten(value: f64) -> f64 {
    10_f64.powf(value.log10().floor())
}

/// Returns the distance of ticks: one, two or five times a power of ten.
fn step(range: f64) -> f64 {
    let least = range / TICKS;
    let power = power_of_ten(least);
    [1.0, 2.0, 5.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power)
}

/// Formats the value of a tick: 12k instead of 12,000.
pub(super) fn tick(value: f64) -> String {
    let (value, unit) = match value.abs() {
        large if large >= 1e9 => (value / 1e9, "G"),
        large if large >= 1e6 => (value / 1e6, "M"),
        large if large >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{unit}", if text == "-0" { "0" } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_axes_contain_their_values_and_have_round_ticks() {
        let axis = Axis::linear((0.0, 2765.0), (100.0, 0.0));
        assert_eq!(axis.ticks(), [0.0, 1000.0, 2000.0, 3000.0]);
        assert_eq!((axis.at(0.0), axis.at(3000.0), axis.at(1500.0)), (100.0, 0.0, 50.0));
        let axis = Axis::linear((-19.6, 34.8), (0.0, 60.0));
        assert_eq!(axis.ticks(), [-20.0, 0.0, 20.0, 40.0]);
        assert_eq!((axis.at(0.0), axis.at(500.0), axis.at(-500.0)), (20.0, 60.0, 0.0));
        assert_eq!(Axis::linear((0.0, 0.0), (0.0, 1.0)).ticks(), [0.0, 0.5, 1.0]);
    }

    #[test]
    fn logarithmic_axes_contain_their_values_and_have_round_ticks() {
        let axis = Axis::logarithmic((63.6, 37_000.0), (0.0, 100.0));
        assert_eq!(axis.ticks(), [100.0, 1000.0, 10_000.0]);
        assert!(axis.at(63.6) > 0.0 && axis.at(37_000.0) < 100.0);
        let axis = Axis::logarithmic((120.0, 450.0), (0.0, 100.0));
        assert_eq!(axis.ticks(), [100.0, 200.0, 500.0]);
        assert_eq!((axis.at(100.0), axis.at(500.0), axis.at(0.0)), (0.0, 100.0, 0.0));
        assert!(Axis::logarithmic((7.0, 7.0), (0.0, 100.0)).ticks().len() >= 2);
    }

    #[test]
    fn ticks_are_short() {
        let texts = [0.0, -0.0, 0.25, 500.0, 2_500.0, 12_500.0, 3e6, -40.0].map(tick);
        assert_eq!(texts, ["0", "0", "0.25", "500", "2500", "12.5k", "3M", "-40"]);
    }
}
