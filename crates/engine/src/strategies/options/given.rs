//! Specified options: text by name, parsed as by Cassandra's Java and rejected in its words.

use std::collections::BTreeMap;

/// The options that have not been read yet.
pub(super) struct Given(BTreeMap<String, String>);

/// The error is a message, in Cassandra's words if it has some.
pub(super) type Result<T> = std::result::Result<T, String>;

impl Given {
    pub fn new(options: &BTreeMap<String, String>) -> Self {
        Self(options.clone())
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Returns the options that were not read.
    pub fn left(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns an integer of 32 bits.
    pub fn int(&mut self, name: &str, default: i32) -> Result<i32> {
        self.parsed(name, default, "int (base10)", |text| text.parse().ok())
    }

    /// Returns an integer of 64 bits; `kind` is its name in the error.
    pub fn long(&mut self, name: &str, default: i64, kind: &str) -> Result<i64> {
        self.parsed(name, default, kind, |text| text.parse().ok())
    }

    pub fn float(&mut self, name: &str, default: f64, kind: &str) -> Result<f64> {
        self.parsed(name, default, kind, java_double)
    }

    fn parsed<T>(
        &mut self,
        name: &str,
        default: T,
        kind: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let Some(text) = self.take(name) else { return Ok(default) };
        parse(&text).ok_or_else(|| format!("{text} is not a parsable {kind} for {name}"))
    }

    /// Returns `true` or `false`; `refusal` creates the error for other texts.
    pub fn boolean(&mut self, name: &str, default: bool, refusal: impl Fn(&str) -> String) -> Result<bool> {
        let Some(text) = self.take(name) else { return Ok(default) };
        match text.to_ascii_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(refusal(&text)),
        }
    }

    /// Returns whether the text is `true`; all other texts are false.
    pub fn lenient_boolean(&mut self, name: &str) -> bool {
        self.take(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }
}

/// Parses a number like `Double.parseDouble`.
pub(super) fn java_double(text: &str) -> Option<f64> {
    let text = text.trim();
    text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text).parse().ok()
}

/// Parses a number of bytes such as `1GiB` or `64 MB`, rounded towards 0.
pub(super) fn human_bytes(text: &str) -> Result<f64> {
    let body = text.strip_suffix('B').ok_or_else(|| format!("{text} does not end in unit B"))?;
    let (number, rest) = leading_number(body).ok_or("null")?;
    let mut value = number;
    let mut rest = rest;
    if let Some((exponent, after)) = rest.strip_prefix("*2^").and_then(leading_number) {
        value *= exponent.exp2();
        rest = after;
    }
    rest = rest.trim_start();
    /// The prefixes from 10^-30 to 10^30, by three powers each.
    const PREFIXES: &str = "qryzafpnum KMGTPEZYRQ";
    let prefix = rest.chars().next().and_then(|c| PREFIXES.chars().position(|prefix| prefix == c));
    if let Some(prefix) = prefix {
        let power = prefix as i32 - 10;
        rest = &rest[1..];
        value *= match rest.strip_prefix('i') {
            Some(after) => {
                rest = after;
                f64::from(power * 10).exp2()
            }
            None => 1000f64.powi(power),
        };
    }
    if !rest.is_empty() {
        let end = body.len();
        return Err(format!("Unexpected characters between pos {} and {end} in {text}", end - rest.len()));
    }
    Ok(value)
}

/// Returns the number at the start of a text, and the rest.
fn leading_number(text: &str) -> Option<(f64, &str)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let mut end = sign + digits(sign);
    if end == sign {
        return None;
    }
    if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = end + 1 + sign;
        if exponent <= bytes.len() && digits(exponent) > 0 {
            end = exponent + digits(exponent);
        }
    }
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// Formats a number of bytes for messages: `1.000MiB`.
pub(super) fn pretty_memory(bytes: i64) -> String {
    let prefix = (63 - bytes.unsigned_abs().max(1).leading_zeros() as usize) / 10;
    match prefix {
        0 => format!("{bytes}B"),
        _ => format!(
            "{:.3}{}iB",
            bytes as f64 / f64::from(10 * prefix as u32).exp2(),
            &"KMGTPE"[prefix - 1..prefix]
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_binary_and_decimal_prefixes() {
        for (text, expected) in [
            ("1GiB", Ok((1i64 << 30) as f64)),
            ("64 MiB", Ok((64i64 << 20) as f64)),
            ("1.5KiB", Ok(1536.0)),
            ("100B", Ok(100.0)),
            ("2*2^10B", Ok(2048.0)),
            ("1e3B", Ok(1000.0)),
            ("100", Err("100 does not end in unit B".to_owned())),
            ("xB", Err("null".to_owned())),
            ("1xB", Err("Unexpected characters between pos 1 and 2 in 1xB".to_owned())),
        ] {
            assert_eq!(human_bytes(text), expected, "{text}");
        }
        assert!((human_bytes("3MB").unwrap() - 3e6).abs() < 1.0);
        assert_eq!(pretty_memory(1 << 20), "1.000MiB");
        assert_eq!(pretty_memory(1000), "1000B");
        assert_eq!(pretty_memory(1536), "1.500KiB");
    }
}
