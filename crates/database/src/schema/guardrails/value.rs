//! Reading, validation and formatting of settings, as in Cassandra.

use cassette_rows::Consistency;

use super::{Kind, Setting};
use crate::schema::options::table_params::OPTIONS;

/// The value of a disabled threshold.
pub(crate) const DISABLED: i64 = -1;

/// `default_keyspace_rf`, which is 1, since the node holds one replica.
const DEFAULT_REPLICATION_FACTOR: i64 = 1;

impl Kind {
    /// Reads the text of the setting called `name`; an empty text and `null` are null.
    ///
    /// # Errors
    /// Returns Cassandra's message.
    pub(crate) fn read(self, name: &str, text: &str) -> Result<i64, String> {
        let text = match text.trim() {
            "null" => "",
            text => text,
        };
        match self {
            Self::Flag => match text {
                "true" => Ok(1),
                // Cassandra's nodetool treats null as false.
                "false" | "" => Ok(0),
                _ => Err("Use 'true' or 'false' values for booleans".to_owned()),
            },
            Self::Count | Self::Percentage => count(name, text, self == Self::Percentage),
            Self::Number => number(text).map(i64::from),
            Self::Size => bytes(name, text),
            Self::Duration => micros(text),
            Self::Properties => properties(name, text),
            Self::ConsistencyLevels => levels(text),
        }
    }

    /// Formats a value. Sizes and durations, which keep their original text, are not supported.
    pub(crate) fn text(self, value: i64) -> String {
        match self {
            Self::Flag => (value == 1).to_string(),
            Self::Properties => listed(value, OPTIONS.iter().copied()),
            Self::ConsistencyLevels => listed(value, Consistency::ALL.iter().map(Consistency::to_string)),
            _ => value.to_string(),
        }
    }
}

/// Formats the names whose bits are set in `bits`: `[a, b]`.
pub(crate) fn listed(bits: i64, names: impl Iterator<Item = impl AsRef<str>>) -> String {
    let chosen = names.enumerate().filter(|(at, _)| bits & (1 << at) != 0);
    let mut text = "[".to_owned();
    for (at, (_, name)) in chosen.enumerate() {
        if at > 0 {
            text += ", ";
        }
        text += name.as_ref();
    }
    text + "]"
}

fn number(text: &str) -> Result<i32, String> {
    match text {
        "" => Ok(-1),
        text => text.parse().map_err(|_| format!("For input string: \"{text}\"")),
    }
}

fn count(name: &str, text: &str, is_percentage: bool) -> Result<i64, String> {
    match i64::from(number(text)?) {
        DISABLED => Ok(DISABLED),
        0 => Err(format!("Invalid value for {name}: 0 is not allowed; if attempting to disable use -1")),
        negative if negative < 0 => Err(format!(
            "Invalid value {negative} for {name}: negative values are not allowed, outside of -1 which disables the \
             guardrail"
        )),
        over if is_percentage && over > 100 => {
            Err(format!("Invalid value {over} for {name}: maximum allowed value is 100"))
        }
        count => Ok(count),
    }
}

/// Returns the number and the unit of `10KiB`; spaces between them are accepted.
fn split(text: &str) -> Option<(i64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim()))
}

fn bytes(name: &str, text: &str) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(DISABLED);
    }
    let shift = |unit| match unit {
        "B" => Some(0),
        "KiB" => Some(10),
        "MiB" => Some(20),
        "GiB" => Some(30),
        _ => None,
    };
    let read = split(text).and_then(|(number, unit)| number.checked_mul(1 << shift(unit)?));
    match read {
        None => Err(format!(
            "Invalid data storage: {text} Accepted units:[BYTES, KIBIBYTES, MEBIBYTES, GIBIBYTES] where case matters \
             and only non-negative values are accepted"
        )),
        Some(0) => Err(format!(
            "Invalid value for {name}: 0 is not allowed; if attempting to disable use an empty value"
        )),
        Some(bytes) => Ok(bytes),
    }
}

fn micros(text: &str) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(DISABLED);
    }
    let factor = |unit| match unit {
        "us" | "µs" => Some(1),
        "ms" => Some(1_000),
        "s" => Some(1_000_000),
        "m" => Some(60_000_000),
        "h" => Some(3_600_000_000),
        "d" => Some(86_400_000_000_i64),
        _ => None,
    };
    let read = split(text).and_then(|(number, unit)| number.checked_mul(factor(unit)?));
    read.ok_or_else(|| {
        format!(
            "Invalid duration: {text} Accepted units:[MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS] \
             where case matters and only non-negative values."
        )
    })
}

/// Returns the words of `a, b` or `[a, b]`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn properties(name: &str, text: &str) -> Result<i64, String> {
    let mut bits = 0;
    let mut unknown = Vec::new();
    for word in words(text).map(str::to_lowercase) {
        match OPTIONS.iter().position(|option| **option == *word) {
            Some(at) => bits |= 1 << at,
            None => unknown.push(word),
        }
    }
    match &unknown[..] {
        [] => Ok(bits),
        unknown => Err(format!(
            "Invalid value for {name}: '[{}]' do not parse as valid table properties",
            unknown.join(", ")
        )),
    }
}

fn levels(text: &str) -> Result<i64, String> {
    words(text).try_fold(0, |bits, word| {
        match Consistency::ALL.iter().position(|level| level.to_string() == word) {
            Some(at) => Ok(bits | 1 << at),
            None => Err(format!("No enum constant org.apache.cassandra.db.ConsistencyLevel.{word}")),
        }
    })
}

/// Rejects a warning threshold on the wrong side of the failure threshold. Values are paired with
/// their texts.
pub(crate) fn check_pair(
    warn: &Setting,
    (warn_value, warn_text): &(i64, Option<String>),
    fail: &Setting,
    (fail_value, fail_text): &(i64, Option<String>),
) -> Result<(), String> {
    let is_minimum = warn.name.starts_with("minimum_replication_factor");
    if is_minimum && *fail_value > DEFAULT_REPLICATION_FACTOR {
        // Cassandra compares the two thresholds first.
        check_order(warn, (*warn_value, warn_text), (*fail_value, fail_text), true)?;
        return Err(format!(
            "{} to be set ({fail_value}) cannot be greater than default_keyspace_rf ({DEFAULT_REPLICATION_FACTOR})",
            fail.name
        ));
    }
    check_order(warn, (*warn_value, warn_text), (*fail_value, fail_text), is_minimum)
}

fn check_order(
    warn: &Setting,
    (warn_value, warn_text): (i64, &Option<String>),
    (fail_value, fail_text): (i64, &Option<String>),
    is_minimum: bool,
) -> Result<(), String> {
    if warn_value == DISABLED || fail_value == DISABLED {
        return Ok(());
    }
    let is_wrong = if is_minimum { fail_value > warn_value } else { fail_value < warn_value };
    if !is_wrong {
        return Ok(());
    }
    // Cassandra formats durations in microseconds in this message, and sizes as specified.
    let shown = |value: i64, text: &Option<String>| match (warn.kind, text) {
        (Kind::Size, Some(text)) => text.clone(),
        _ => value.to_string(),
    };
    Err(format!(
        "The warn threshold {} for {} should be {} than the fail threshold {}",
        shown(warn_value, warn_text),
        warn.name,
        if is_minimum { "greater" } else { "lower" },
        shown(fail_value, fail_text)
    ))
}
