//! `speculative_retry` and `additional_write_policy`: policies of a cluster. They are stored and
//! shown without effect, since there is no other replica to send requests to.

use crate::basics::error::{DatabaseError, Result, bail_config};

/// Returns the policy in Cassandra's stored form.
pub(crate) fn parse(text: &str) -> Result<String> {
    let lower = text.to_lowercase();
    match lower.as_str() {
        "always" => return Ok("ALWAYS".into()),
        "never" | "none" => return Ok("NEVER".into()),
        _ => {}
    }
    let inside = |function: &str| lower.strip_prefix(function)?.strip_prefix('(')?.strip_suffix(')');
    let hybrid = inside("min").map(|inner| ("MIN", inner)).or(inside("max").map(|inner| ("MAX", inner)));
    if let Some((function, inner)) = hybrid {
        let (first, second) = inner.split_once(',').ok_or_else(|| invalid(text))?;
        let first = parse_simple(first).map_err(|_| invalid(text))?;
        let second = parse_simple(second.trim_start()).map_err(|_| invalid(text))?;
        return match (&first, &second) {
            (Simple::Percentile(_), Simple::Percentile(_)) => bail_config!(
                "Invalid value {text} for option 'speculative_retry': MIN()/MAX() arguments should be of \
                 different types, but both are of type PERCENTILE"
            ),
            (Simple::Fixed(_), Simple::Fixed(_)) => bail_config!(
                "Invalid value {text} for option 'speculative_retry': MIN()/MAX() arguments should be of \
                 different types, but both are of type FIXED"
            ),
            (Simple::Percentile(percentile), Simple::Fixed(fixed))
            | (Simple::Fixed(fixed), Simple::Percentile(percentile)) => {
                Ok(format!("{function}({percentile},{fixed})"))
            }
        };
    }
    match parse_simple(text)? {
        Simple::Percentile(policy) | Simple::Fixed(policy) => Ok(policy),
    }
}

enum Simple {
    Percentile(String),
    Fixed(String),
}

fn parse_simple(text: &str) -> Result<Simple> {
    let lower = text.to_lowercase();
    let digits = |number: &str| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if let Some(number) = lower.strip_suffix("ms").filter(|number| digits(number)) {
        let millis: f64 = number.parse().map_err(|_| invalid(text))?;
        return Ok(Simple::Fixed(format!("{}ms", millis as i32)));
    }
    let number = lower.strip_suffix("percentile").or(lower.strip_suffix('p')).filter(|number| digits(number));
    let percentile: f64 = number.ok_or_else(|| invalid(text))?.parse().map_err(|_| invalid(text))?;
    if percentile <= 0.0 || percentile >= 100.0 {
        bail_config!(
            "Invalid value {text} for PERCENTILE option 'speculative_retry': must be between (0.0 and 100.0)"
        );
    }
    // At most four decimals, no trailing zeros.
    let rounded = (percentile * 10_000.0).round() / 10_000.0;
    Ok(Simple::Percentile(format!("{rounded}p")))
}

fn invalid(text: &str) -> DatabaseError {
    DatabaseError::Config(format!("Invalid value {text} for option 'speculative_retry'"))
}
