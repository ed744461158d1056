//! CQL's decimals, which are Java's: a whole number and a scale, printed, rounded and divided as
//! `BigDecimal` does. (No crate has these rules; `num_bigint` provides the digits.)

use std::cmp::Ordering;
use std::fmt::{self, Display, Formatter};

use num_bigint::{BigInt, BigUint, Sign};

use super::ArithmeticFailure;
use super::number::{double_to_text, parse_digits};

/// `unscaled × 10^-scale`. Two decimals of equal value can have different scales and texts: 1.5 and
/// 1.50.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// All digits, with the sign.
    pub unscaled: BigInt,
    /// The number of digits after the point; negative for omitted trailing zeros.
    pub scale: i32,
}

/// The rounding of a dropped digit that is exactly half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Away from zero.
    HalfUp,
    /// To the even neighbour.
    HalfEven,
    /// Truncates.
    Down,
}

/// The maximum number of digits that aligning the scales of operands may produce. A scale can
/// represent two thousand million digits; Cassandra, which rounds sums to 10,000 digits, does not
/// write so many either.
const ALIGNED_DIGITS_MAX: u32 = 30_000;

/// The digits to which Cassandra rounds sums, differences and products.
const PRECISION_MAX: u64 = 10_000;

impl Decimal {
    /// Zero, with scale 0.
    pub fn zero() -> Self {
        Self { unscaled: BigInt::ZERO, scale: 0 }
    }

    /// A whole number, with scale 0.
    pub fn whole(value: impl Into<BigInt>) -> Self {
        Self { unscaled: value.into(), scale: 0 }
    }

    /// Parses `-12.50e-3` and similar texts: an optional sign, digits with at most one point, an
    /// optional exponent.
    pub fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (negative, mantissa) = match mantissa.as_bytes().first()? {
            b'-' => (true, &mantissa[1..]),
            b'+' => (false, &mantissa[1..]),
            _ => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let magnitude = parse_digits(&digits)?;
        let scale = i64::try_from(fraction.len()).ok()? - i64::from(exponent);
        Some(Self {
            unscaled: if negative { -magnitude } else { magnitude },
            scale: i32::try_from(scale).ok()?,
        })
    }

    /// Returns the decimal with the double's text; `None` if it is not finite.
    pub fn from_double(value: f64) -> Option<Self> {
        Self::parse(&double_to_text(value))
    }

    /// Decodes a `decimal`: `i32` scale, then the digits in two's complement. `None` if the bytes
    /// are too short.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
        Some(Self { unscaled: BigInt::from_signed_bytes_be(unscaled), scale: i32::from_be_bytes(*scale) })
    }

    /// The bytes of the value.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.scale.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.unscaled.to_signed_bytes_be());
        bytes
    }

    /// Returns the number of digits: at least 1.
    pub fn precision(&self) -> u64 {
        digit_count(&self.unscaled)
    }

    /// Returns whether the value is zero.
    pub fn is_zero(&self) -> bool {
        self.unscaled.sign() == Sign::NoSign
    }

    /// The number with the opposite sign.
    pub fn negate(&self) -> Self {
        Self { unscaled: -&self.unscaled, scale: self.scale }
    }

    /// The number without its sign.
    pub fn abs(&self) -> Self {
        Self { unscaled: self.unscaled.magnitude().clone().into(), scale: self.scale }
    }

    /// The exact sum.
    pub fn add_exactly(&self, other: &Self) -> Result<Self, ArithmeticFailure> {
        let (left, right, scale) = self.aligned(other)?;
        Ok(Self { unscaled: left + right, scale })
    }

    /// The sum, rounded to 10,000 digits.
    pub fn add(&self, other: &Self) -> Result<Self, ArithmeticFailure> {
        Ok(self.add_exactly(other)?.rounded(PRECISION_MAX, Rounding::HalfUp))
    }

    /// The difference, rounded to 10,000 digits.
    pub fn subtract(&self, other: &Self) -> Result<Self, ArithmeticFailure> {
        self.add(&other.negate())
    }

    /// The product, rounded to 10,000 digits.
    pub fn multiply(&self, other: &Self) -> Result<Self, ArithmeticFailure> {
        let scale = narrow_scale(i64::from(self.scale) + i64::from(other.scale))?;
        let product = Self { unscaled: &self.unscaled * &other.unscaled, scale };
        Ok(product.rounded(PRECISION_MAX, Rounding::HalfUp))
    }

    /// Returns the quotient of CQL's `/`: at least 32 significant digits and 32 after the point
    /// (1,000 at most), rounded half up, without trailing zeros.
    pub fn divide(&self, other: &Self) -> Result<Self, ArithmeticFailure> {
        let digits_before_point = |number: &Self| number.precision() as i64 - i64::from(number.scale);
        let first_digit = digits_before_point(self) - digits_before_point(other);
        let scale = (32 - first_digit).max(i64::from(self.scale)).max(i64::from(other.scale)).clamp(32, 1000);
        let quotient = self.divide_to_scale(other, scale as i32, Rounding::HalfUp)?;
        Ok(quotient.without_trailing_zeros())
    }

    /// Returns the quotient with `scale` digits after the point.
    pub fn divide_to_scale(
        &self,
        other: &Self,
        scale: i32,
        rounding: Rounding,
    ) -> Result<Self, ArithmeticFailure> {
        if other.is_zero() {
            return Err(ArithmeticFailure("BigInteger divide by zero".to_owned()));
        }
        // self / other × 10^scale = self.unscaled × 10^shift / other.unscaled
        let shift = i64::from(scale) - i64::from(self.scale) + i64::from(other.scale);
        let power = power_of_ten(shift.unsigned_abs())?;
        let (dividend, divisor) = if shift >= 0 {
            (&self.unscaled * power, other.unscaled.clone())
        } else {
            (self.unscaled.clone(), &other.unscaled * power)
        };
        Ok(Self { unscaled: divide_rounded(&dividend, &divisor, rounding), scale })
    }

    /// Returns the remainder of the integer division; it has the sign of `self`.
    pub fn remainder(&self, other: &Self) -> Result<Self, ArithmeticFailure> {
        if other.is_zero() {
            // As Java's BigDecimal reports it.
            let what = if self.is_zero() { "undefined" } else { "by zero" };
            return Err(ArithmeticFailure(format!("Division {what}")));
        }
        let (left, right, scale) = self.aligned(other)?;
        let mut quotient = &left / &right;
        let remainder = Self { unscaled: &left - &quotient * &right, scale };
        // Java subtracts quotient × other, whose scale depends on how many zeros the quotient could
        // drop.
        let preferred = i64::from(self.scale) - i64::from(other.scale);
        let mut quotient_scale = preferred.max(0);
        if quotient.sign() == Sign::NoSign {
            quotient_scale = preferred;
        }
        quotient_scale -= strip_zeros(&mut quotient, quotient_scale - preferred);
        let wanted = narrow_scale((quotient_scale + i64::from(other.scale)).max(i64::from(self.scale)))?;
        remainder.with_scale(wanted, Rounding::Down)
    }

    /// Returns the number with `scale` digits after the point.
    pub fn with_scale(&self, scale: i32, rounding: Rounding) -> Result<Self, ArithmeticFailure> {
        let one = Self::whole(1);
        self.divide_to_scale(&one, scale, rounding)
    }

    /// Returns the number with at most `precision` digits.
    pub fn rounded(self, precision: u64, rounding: Rounding) -> Self {
        let mut number = self;
        // Rounding 99 up gives 100, which a second round shortens.
        loop {
            let excess = number.precision().saturating_sub(precision);
            let (Ok(exponent), Ok(scale)) =
                (u32::try_from(excess), narrow_scale(i64::from(number.scale) - excess as i64))
            else {
                return number;
            };
            if excess == 0 {
                return number;
            }
            let power = BigInt::from(10).pow(exponent);
            number = Self { unscaled: divide_rounded(&number.unscaled, &power, rounding), scale };
        }
    }

    /// Returns the same value with as few digits as possible; zero has scale 0.
    pub fn without_trailing_zeros(self) -> Self {
        if self.is_zero() {
            return Self::zero();
        }
        let mut number = self;
        let zeros = strip_zeros(&mut number.unscaled, i64::from(number.scale) - i64::from(i32::MIN));
        number.scale = i32::try_from(i64::from(number.scale) - zeros).unwrap_or(i32::MIN);
        number
    }

    /// The nearest double; infinite if there is none.
    pub fn to_double(&self) -> f64 {
        format!("{}e{}", self.unscaled, -i64::from(self.scale)).parse().unwrap_or(f64::NAN)
    }

    /// The nearest float; infinite if there is none.
    pub fn to_float(&self) -> f32 {
        format!("{}e{}", self.unscaled, -i64::from(self.scale)).parse().unwrap_or(f32::NAN)
    }

    /// Returns the digits before the point, or the low 64 bits of a number with too many digits to
    /// write.
    pub fn to_whole(&self) -> BigInt {
        if self.scale <= 0 {
            // From 10^64 on, all powers of ten are multiples of 2^64.
            let zeros = self.scale.unsigned_abs();
            return match power_of_ten(u64::from(zeros)) {
                Ok(power) => &self.unscaled * power,
                Err(_) => BigInt::ZERO,
            };
        }
        if u64::from(self.scale.unsigned_abs()) >= self.precision() {
            return BigInt::ZERO;
        }
        &self.unscaled / BigInt::from(10).pow(self.scale.unsigned_abs())
    }

    /// Returns both numbers' digits at the larger of the scales.
    fn aligned(&self, other: &Self) -> Result<(BigInt, BigInt, i32), ArithmeticFailure> {
        let scale = self.scale.max(other.scale);
        let at_scale = |number: &Self| {
            let shift = i64::from(scale) - i64::from(number.scale);
            Ok::<_, ArithmeticFailure>(match shift {
                0 => number.unscaled.clone(),
                _ => &number.unscaled * power_of_ten(shift as u64)?,
            })
        };
        Ok((at_scale(self)?, at_scale(other)?, scale))
    }
}

/// Compares by value, so that 1.5 and 1.50 are equal here though not `==`.
pub fn compare(a: &Decimal, b: &Decimal) -> Ordering {
    cassette_rows::types::DataType::Decimal.compare(&a.encode(), &b.encode())
}

/// Writes the same as `BigDecimal.toString`: without an exponent if no zeros are omitted and at
/// most six zeros follow the point before the first digit.
impl Display for Decimal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let digits = self.unscaled.magnitude().to_string();
        if self.unscaled.sign() == Sign::Minus {
            f.write_str("-")?;
        }
        let exponent = -i64::from(self.scale) + digits.len() as i64 - 1;
        if self.scale == 0 {
            return f.write_str(&digits);
        }
        if self.scale > 0 && exponent >= -6 {
            let scale = self.scale as usize;
            return match digits.len().checked_sub(scale) {
                Some(0) | None => write!(f, "0.{digits:0>scale$}"),
                Some(point) => write!(f, "{}.{}", &digits[..point], &digits[point..]),
            };
        }
        let (first, rest) = digits.split_at(1);
        f.write_str(first)?;
        if !rest.is_empty() {
            write!(f, ".{rest}")?;
        }
        if exponent != 0 { write!(f, "E{exponent:+}") } else { Ok(()) }
    }
}

fn digit_count(number: &BigInt) -> u64 {
    let magnitude = number.magnitude();
    match u64::try_from(magnitude) {
        Ok(small) => u64::from(small.checked_ilog10().unwrap_or(0)) + 1,
        Err(_) => {
            // The margin far exceeds the rounding error of the product: the estimate is never too
            // high, and at most one too low.
            let bits = magnitude.bits() as f64;
            let least = ((bits - 1.0) * std::f64::consts::LOG10_2 - 1e-3).floor() as u64 + 1;
            let power = u32::try_from(least).ok().map(|exponent| BigUint::from(10_u32).pow(exponent));
            least + u64::from(power.is_some_and(|power| *magnitude >= power))
        }
    }
}

/// Divides by ten while the remainder is zero, at most `max` times. Returns the number of
/// divisions.
fn strip_zeros(number: &mut BigInt, max: i64) -> i64 {
    // Each factor of ten contains a factor of two.
    let twos = number.trailing_zeros().and_then(|twos| i64::try_from(twos).ok()).unwrap_or(0);
    let max = twos.min(max);
    let mut stripped = 0;
    // Divides by large powers first, so that a few divisions remove any number of zeros.
    for exponent in (0..32_u32).rev().map(|n| 1_u32 << n) {
        if stripped + i64::from(exponent) > max {
            continue;
        }
        let power = BigInt::from(10).pow(exponent);
        if (&*number % &power).sign() == Sign::NoSign {
            *number /= power;
            stripped += i64::from(exponent);
        }
    }
    stripped
}

fn divide_rounded(dividend: &BigInt, divisor: &BigInt, rounding: Rounding) -> BigInt {
    let quotient = dividend / divisor;
    let remainder = dividend - &quotient * divisor;
    let twice = remainder.magnitude() * 2_u8;
    let away = match (rounding, twice.cmp(divisor.magnitude())) {
        (Rounding::Down, _) | (_, Ordering::Less) => false,
        (_, Ordering::Greater) | (Rounding::HalfUp, Ordering::Equal) => true,
        (Rounding::HalfEven, Ordering::Equal) => quotient.bit(0),
    };
    match (away, dividend.sign() == divisor.sign()) {
        (false, _) => quotient,
        (true, true) => quotient + 1,
        (true, false) => quotient - 1,
    }
}

fn power_of_ten(exponent: u64) -> Result<BigInt, ArithmeticFailure> {
    match u32::try_from(exponent) {
        Ok(exponent) if exponent <= ALIGNED_DIGITS_MAX => Ok(BigInt::from(10).pow(exponent)),
        _ => Err(ArithmeticFailure(format!("the scales of the decimals are {exponent} digits apart"))),
    }
}

fn narrow_scale(scale: i64) -> Result<i32, ArithmeticFailure> {
    i32::try_from(scale)
        .map_err(|_| ArithmeticFailure(if scale > 0 { "Underflow" } else { "Overflow" }.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn decimals_print_as_in_java() {
        for (text, printed) in [
            ("0", "0"),
            ("-0.00", "0.00"),
            ("1.50", "1.50"),
            (".5", "0.5"),
            ("5.", "5"),
            ("+7", "7"),
            ("1e3", "1E+3"),
            ("12e3", "1.2E+4"),
            ("-12.5e-3", "-0.0125"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1E-7"),
            ("0.00000012", "1.2E-7"),
            ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
            ("0e10", "0E+10"),
            ("1e-2147483647", "1E-2147483647"),
        ] {
            assert_eq!(decimal(text).to_string(), printed, "{text}");
        }
        for bad in ["", ".", "-", "1e", "1.2.3", " 1", "1_0", "0x1", "1e99999999999", "NaN", "1e-2147483648"]
        {
            assert_eq!(Decimal::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn decimals_divide_with_at_least_32_digits() {
        for (a, b, quotient) in [
            ("1", "3", "0.33333333333333333333333333333333"),
            ("10", "4", "2.5"),
            ("200", "0.5", "4E+2"),
            ("0", "7", "0"),
            ("-2", "3", "-0.66666666666666666666666666666667"),
        ] {
            assert_eq!(decimal(a).divide(&decimal(b)).unwrap().to_string(), quotient, "{a} / {b}");
        }
        assert!(decimal("1").divide(&decimal("0.0")).is_err());
    }

    #[test]
    fn remainders_have_the_sign_of_the_dividend_and_the_scale_that_java_gives() {
        for (a, b, remainder) in [
            ("5", "0.3", "0.2"),
            ("-5", "0.3", "-0.2"),
            ("50", "0.5", "0"),
            ("5.00", "3", "2.00"),
            ("0.7", "1", "0.7"),
            ("1e3", "7", "6"),
        ] {
            assert_eq!(decimal(a).remainder(&decimal(b)).unwrap().to_string(), remainder, "{a} % {b}");
        }
    }

    #[test]
    fn scales_that_would_take_too_many_digits_are_refused() {
        let (huge, tiny) = (decimal("1e2147483647"), decimal("1e-2147483647"));
        assert!(huge.add(&tiny).is_err() && tiny.remainder(&huge).is_err());
        assert_eq!(huge.to_whole(), BigInt::ZERO);
        assert_eq!(tiny.to_whole(), BigInt::ZERO);
        assert_eq!(huge.to_double(), f64::INFINITY);
    }

    #[test]
    fn precision_is_the_number_of_digits_around_powers_of_ten() {
        for digits in [1_usize, 19, 20, 100, 1_000, 4_321, 100_000] {
            assert_eq!(decimal(&"9".repeat(digits)).precision(), digits as u64);
            assert_eq!(decimal(&format!("1{}", "0".repeat(digits))).precision(), digits as u64 + 1);
        }
    }

    #[test]
    fn zeros_are_stripped_however_many_there_are() {
        for zeros in [0, 1, 7, 64, 99, 150_000] {
            let number = decimal(&format!("-12{}", "0".repeat(zeros))).without_trailing_zeros();
            assert_eq!((number.unscaled, number.scale), (BigInt::from(-12), -(zeros as i32)));
        }
        let least = Decimal { unscaled: BigInt::from(1000), scale: i32::MIN + 2 }.without_trailing_zeros();
        assert_eq!((least.unscaled, least.scale), (BigInt::from(10), i32::MIN));
    }

    #[test]
    fn products_of_long_numbers_are_rounded() {
        let long = decimal(&"7".repeat(100_000));
        assert_eq!(long.multiply(&long).unwrap().precision(), 10_000);
    }
}
