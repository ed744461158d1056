//! The proleptic Gregorian calendar over all years of timestamps (±292 million), which exceeds the
//! range of calendar crates. The algorithms are Howard Hinnant's `days_from_civil` and
//! `civil_from_days`.

/// Milliseconds of a day.
pub const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// A day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Civil {
    /// Astronomical: 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
}

impl Civil {
    /// Returns the day `days` days after 1970-01-01.
    pub fn from_days(days: i64) -> Self {
        // Years start in March here, so that a leap day is the last of its year; an era is 400
        // years.
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * month + 2) / 5 + 1) as u8;
        let month = (if month < 10 { month + 3 } else { month - 9 }) as u8;
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self { year, month, day }
    }

    /// Returns the number of days since 1970-01-01.
    pub fn to_days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month = i64::from(self.month) + if self.month > 2 { -3 } else { 9 };
        let day_of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    /// Returns the same day `months` months later, or the last one of that month.
    pub fn plus_months(self, months: i64) -> Self {
        let month = self.year * 12 + i64::from(self.month) - 1 + months;
        let (year, month) = (month.div_euclid(12), month.rem_euclid(12) as u8 + 1);
        Self { year, month, day: self.day.min(days_in_month(year, month)) }
    }
}

/// The length of a month.
pub fn days_in_month(year: i64, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_turn_into_each_other() {
        for (days, year, month, day) in [
            (0, 1970, 1, 1),
            (-1, 1969, 12, 31),
            (11_016, 2000, 2, 29),
            (-719_528, 0, 1, 1),
            (-719_529, -1, 12, 31),
            (2_147_483_647, 5_881_580, 7, 11),
            (-2_147_483_648, -5_877_641, 6, 23),
        ] {
            let civil = Civil { year, month, day };
            assert_eq!(Civil::from_days(days), civil);
            assert_eq!(civil.to_days(), days);
        }
    }

    #[test]
    fn a_month_later_is_never_in_the_month_after() {
        let january = Civil { year: 2023, month: 1, day: 31 };
        assert_eq!(january.plus_months(1), Civil { year: 2023, month: 2, day: 28 });
        assert_eq!(january.plus_months(13), Civil { year: 2024, month: 2, day: 29 });
        assert_eq!(january.plus_months(-2), Civil { year: 2022, month: 11, day: 30 });
    }
}
