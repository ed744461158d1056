//! Exponentials and logarithms of decimals, with as many digits as the number but at least 32,
//! rounded half to even.
//!
//! Computed with fixed-point numbers of some more digits, by series that gain more than a digit per
//! term:
//!
//! ```text
//! exp x = 2^n (exp r/2^8)^(2^8)                              with r = x - n ln 2, below 1/2
//! ln x  = ln m + n ln 2, ln m = 2 artanh((m - 1)/(m + 1))    with x = m 2^n and m between 1/2 and 1
//! ```

use num_bigint::{BigInt, Sign};

use super::ArithmeticFailure;
use super::decimal::{Decimal, Rounding};

/// Cassandra's minimum of digits of a result.
const DIGITS_MIN: u64 = 32;
const DIGITS_MAX: u64 = 10_000;

/// Greater exponents are rejected: e^x has about x/2.3 digits, all of which are computed to find
/// the leading ones.
const EXPONENT_MAX: f64 = 100_000.0;

/// Each saves terms of the power series and costs a squaring.
const HALVINGS: u32 = 8;

fn digits_of(value: &Decimal) -> u64 {
    value.precision().clamp(DIGITS_MIN, DIGITS_MAX)
}

/// e to the power of `value`.
pub fn exp(value: &Decimal) -> Result<Decimal, ArithmeticFailure> {
    let digits = digits_of(value);
    // Digits beyond those of the result and its magnitude have no effect.
    let value = &value.clone().rounded(digits + 20, Rounding::Down);
    let size = value.to_double();
    if size.abs() > EXPONENT_MAX {
        return Err(ArithmeticFailure(if size > 0.0 { "Overflow" } else { "Underflow" }.to_owned()));
    }
    if value.is_zero() {
        return Ok(Decimal::whole(1));
    }
    let fixed = Fixed { bits: bits_of(digits + 30) };
    let value = fixed.of_decimal(value)?;
    let ln_2 = fixed.ln_2();
    // Rounds to the nearest, so that the remainder is below 1/2; it is halved further.
    let twos = (((&value << 1) + &ln_2) >> 1_u8) / &ln_2;
    let rest = (value - &twos * &ln_2) >> HALVINGS;
    let mut term = fixed.one();
    let mut sum = fixed.one();
    for n in 1_u32.. {
        term = fixed.multiply(&term, &rest) / n;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term;
    }
    for _ in 0..HALVINGS {
        sum = fixed.multiply(&sum, &sum);
    }
    let twos = i64::try_from(twos).map_err(|_| ArithmeticFailure("Overflow".to_owned()))?;
    to_decimal(&sum, fixed.bits as i64 - twos, digits)
}

/// The natural logarithm.
pub fn ln(value: &Decimal) -> Result<Decimal, ArithmeticFailure> {
    check_positive(value, "Natural log of number zero or less")?;
    let digits = digits_of(value);
    let result = ln_fixed(value, digits)?;
    to_decimal(&result.unscaled, result.bits as i64, digits)
}

/// The logarithm to base 10.
pub fn log10(value: &Decimal) -> Result<Decimal, ArithmeticFailure> {
    check_positive(value, "Log10 of number zero or less")?;
    if value.unscaled == BigInt::from(1) {
        return Ok(Decimal::whole(-i64::from(value.scale)).without_trailing_zeros());
    }
    let digits = digits_of(value);
    let result = ln_fixed(value, digits)?;
    let ten = ln_fixed(&Decimal::whole(10), digits)?;
    // ln 10 has more digits than required, whatever the digits of the other.
    let quotient = (result.unscaled << ten.bits) / ten.unscaled;
    to_decimal(&quotient, result.bits as i64, digits)
}

fn check_positive(value: &Decimal, otherwise: &str) -> Result<(), ArithmeticFailure> {
    match value.unscaled.sign() {
        Sign::Plus => Ok(()),
        _ => Err(ArithmeticFailure(otherwise.to_owned())),
    }
}

/// Returns the bits for `digits` decimal digits, plus a reserve.
fn bits_of(digits: u64) -> u64 {
    (digits as f64 * std::f64::consts::LOG2_10) as u64 + 32
}

/// ln of a positive number to `digits` significant digits.
fn ln_fixed(value: &Decimal, digits: u64) -> Result<Approximation, ArithmeticFailure> {
    if let Some(close) = ln_near_one(value, digits)? {
        return Ok(close);
    }
    // Additional digits for those before the point, because the scale is arbitrary.
    let fixed = Fixed { bits: bits_of(digits + 30) };
    // value = u × 10^-s, so ln value = ln u - s ln 10.
    let (mantissa, shift) = fixed.normalize(&value.unscaled);
    let two = fixed.ln_2();
    let ten = fixed.artanh_log(&fixed.normalize(&BigInt::from(10)).0) + &two * 4;
    let sum = fixed.artanh_log(&mantissa) + &two * shift - ten * value.scale;
    Ok(Approximation { unscaled: sum, bits: fixed.bits })
}

/// Returns ln of a number between 1/2 and 2; `None` for others.
///
/// ln (1 + e) is about e, so the result has as many zeros after the point as the number is close to
/// 1. They are counted first, because the required digits come after them.
fn ln_near_one(value: &Decimal, digits: u64) -> Result<Option<Approximation>, ArithmeticFailure> {
    let before_point = i128::from(value.precision()) - i128::from(value.scale);
    if !(0..=1).contains(&before_point) {
        return Ok(None);
    }
    let scale = u32::try_from(value.scale).map_err(|_| ArithmeticFailure("Overflow".to_owned()))?;
    let one = BigInt::from(10).pow(scale);
    if &value.unscaled * 2 < one || value.unscaled > &one * 2 {
        return Ok(None);
    }
    let difference = Decimal { unscaled: &value.unscaled - &one, scale: 0 };
    let zeros = u64::from(scale).saturating_sub(difference.precision());
    let fixed = Fixed { bits: bits_of(digits + zeros + 30) };
    if zeros > 2 * digits {
        // The next term of the series, half the square of this one, is below the required digits.
        let unscaled = (difference.unscaled << fixed.bits) / one;
        return Ok(Some(Approximation { unscaled, bits: fixed.bits }));
    }
    let unscaled = fixed.artanh_log(&((&value.unscaled << fixed.bits) / one));
    Ok(Some(Approximation { unscaled, bits: fixed.bits }))
}

/// A number with this many binary digits after the point.
struct Approximation {
    unscaled: BigInt,
    bits: u64,
}

/// Arithmetic with this many binary digits after the point.
struct Fixed {
    bits: u64,
}

impl Fixed {
    fn one(&self) -> BigInt {
        BigInt::from(1) << self.bits
    }

    fn multiply(&self, a: &BigInt, b: &BigInt) -> BigInt {
        (a * b) >> self.bits
    }

    fn of_decimal(&self, value: &Decimal) -> Result<BigInt, ArithmeticFailure> {
        let shifted = Decimal { unscaled: &value.unscaled << self.bits, scale: value.scale };
        Ok(shifted.with_scale(0, Rounding::Down)?.unscaled)
    }

    /// Returns a positive whole number as m × 2^n, with m between 1/2 and 1.
    fn normalize(&self, value: &BigInt) -> (BigInt, i64) {
        let len = value.bits();
        let mantissa = if len <= self.bits { value << (self.bits - len) } else { value >> (len - self.bits) };
        (mantissa, len as i64)
    }

    /// ln m = 2 artanh((m - 1)/(m + 1)) for m between 1/2 and 2.
    fn artanh_log(&self, mantissa: &BigInt) -> BigInt {
        let one = self.one();
        let ratio = ((mantissa - &one) << self.bits) / (mantissa + &one);
        let square = self.multiply(&ratio, &ratio);
        let mut power = ratio.clone();
        let mut sum = ratio;
        for n in (3_u32..).step_by(2) {
            power = self.multiply(&power, &square);
            let term = &power / n;
            if term.sign() == Sign::NoSign {
                break;
            }
            sum += term;
        }
        sum * 2
    }

    fn ln_2(&self) -> BigInt {
        // ln 2 = -ln 1/2
        -self.artanh_log(&(self.one() >> 1))
    }
}

/// Returns the leading decimal digits of `value × 2^-fraction_bits`.
fn to_decimal(value: &BigInt, fraction_bits: i64, digits: u64) -> Result<Decimal, ArithmeticFailure> {
    if value.sign() == Sign::NoSign {
        return Ok(Decimal::zero());
    }
    // Digits after the point: the required ones plus a reserve, less those before it.
    let magnitude = (value.bits() as f64 - fraction_bits as f64) * std::f64::consts::LOG10_2;
    let scale = digits as i64 + 4 - magnitude as i64;
    let power = BigInt::from(10).pow(scale.unsigned_abs() as u32);
    let shift = fraction_bits.unsigned_abs();
    let scaled = match (scale >= 0, fraction_bits >= 0) {
        (true, true) => (value * power) >> shift,
        (true, false) => (value * power) << shift,
        (false, true) => (value >> shift) / power,
        (false, false) => (value << shift) / power,
    };
    let scale = i32::try_from(scale).map_err(|_| ArithmeticFailure("Underflow".to_owned()))?;
    Ok(Decimal { unscaled: scaled, scale }.rounded(digits, Rounding::HalfEven))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn logarithms_near_one_keep_their_digits() {
        for (zeros, expected) in [
            (3, "0.00099950033308353316680939892053501"),
            (40, "9.9999999999999999999999999999999999999995E-41"),
        ] {
            let value = decimal(&format!("1.{:0>zeros$}", 1));
            assert_eq!(ln(&value).unwrap().to_string(), expected);
        }
        assert_eq!(ln(&decimal("1.5")).unwrap().to_string(), "0.40546510810816438197801311546435");
        assert_eq!(ln(&decimal("1.00")).unwrap().to_string(), "0");
        assert_eq!(ln(&decimal("2.0")).unwrap().to_string(), "0.69314718055994530941723212145818");
        assert_eq!(ln(&decimal("0.4")).unwrap().to_string(), "-0.91629073187415506518352721176801");
        assert_eq!(log10(&decimal("1000")).unwrap().to_string(), "3.0000000000000000000000000000000");
    }

    #[test]
    fn precision_is_bounded_for_numbers_of_many_digits() {
        // Each took minutes when all of the number's digits were used.
        let third = decimal(&format!("0.{}", "3".repeat(60_000)));
        assert_eq!(ln(&third).unwrap().precision(), DIGITS_MAX);
        let near_one = decimal(&format!("1.{}1", "0".repeat(60_000)));
        assert_eq!(ln(&near_one).unwrap().precision(), DIGITS_MAX);
    }

    #[test]
    fn exponentials_and_logarithms_have_32_right_digits() {
        assert_eq!(exp(&decimal("1")).unwrap().to_string(), "2.7182818284590452353602874713527");
        assert_eq!(exp(&decimal("-1")).unwrap().to_string(), "0.36787944117144232159552377016146");
        assert_eq!(exp(&decimal("0")).unwrap().to_string(), "1");
        assert_eq!(ln(&decimal("2")).unwrap().to_string(), "0.69314718055994530941723212145818");
        assert_eq!(ln(&decimal("10")).unwrap().to_string(), "2.3025850929940456840179914546844");
        assert_eq!(ln(&decimal("0.5")).unwrap().to_string(), "-0.69314718055994530941723212145818");
        assert_eq!(log10(&decimal("2")).unwrap().to_string(), "0.30102999566398119521373889472449");
        assert_eq!(ln(&decimal("1")).unwrap().to_string(), "0");
        assert!(ln(&decimal("0")).is_err() && log10(&decimal("-1")).is_err());
        assert!(exp(&decimal("1e10")).is_err());
        assert_eq!(exp(&decimal("-1000.5")).unwrap().to_string(), "3.0787246988048834641772868393638E-435");
        assert_eq!(exp(&decimal("100")).unwrap().to_string(), "2.6881171418161354484126255515800E+43");
    }
}
