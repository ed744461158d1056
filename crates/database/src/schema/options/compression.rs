//! `compression = {…}`: reading and validation.

use std::collections::BTreeMap;

use cassette_rows::schema::{CompressionParams, Compressor};

use super::properties::Entries;
use crate::basics::error::{Result, bail_config};

pub(crate) const PACKAGE: &str = "org.apache.cassandra.io.compress.";

/// Reads and validates the options of a statement.
pub(crate) fn read(entries: &Entries) -> Result<CompressionParams> {
    from_map(entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
}

/// Reads and validates stored or specified options.
pub(crate) fn from_map(mut options: BTreeMap<String, String>) -> Result<CompressionParams> {
    let was_empty = options.is_empty();
    let enabled = options.remove("enabled").is_none_or(|enabled| enabled.eq_ignore_ascii_case("true"));
    if !was_empty && enabled && !options.contains_key("class") {
        bail_config!("Missing sub-option 'class' for the 'compression' option.");
    }
    if !enabled && !options.is_empty() {
        bail_config!("If the 'enabled' option is set to false no other options must be specified");
    }
    let class = options.remove("class");
    if class.as_deref() == Some("") {
        bail_config!("The 'class' option must not be empty. To disable compression use 'enabled' : false");
    }
    let mut params = CompressionParams { compressor: None, ..CompressionParams::default() };
    if let Some(kib) = options.remove("chunk_length_in_kb") {
        params.chunk_length = chunk_length(&kib)?;
    }
    if let Some(ratio) = options.remove("min_compress_ratio") {
        let ratio = match ratio.parse::<f64>() {
            Ok(ratio) if ratio < 0.0 || ratio.is_nan() => bail_config!("Invalid negative min_compress_ratio"),
            Ok(ratio) if ratio > 0.0 && ratio < 1.0 => {
                bail_config!("min_compress_ratio can either be 0 or greater than or equal to 1")
            }
            Ok(ratio) => ratio,
            Err(_) => bail_config!("For input string: \"{ratio}\""),
        };
        params.min_compress_ratio = Some(ratio);
    }
    if let Some(class) = class {
        let Some(compressor) = Compressor::from_class_name(&class) else {
            let class = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
            bail_config!("Could not create Compression for type {class}");
        };
        params.compressor = Some(compressor);
        validate_options(compressor, &options)?;
    }
    params.options = options;
    Ok(params)
}

fn chunk_length(kib: &str) -> Result<u32> {
    let Ok(parsed) = kib.parse::<i32>() else {
        bail_config!("Invalid value for chunk_length_in_kb");
    };
    if parsed > i32::MAX / 1024 {
        bail_config!("Value of chunk_length_in_kb is too large ({parsed})");
    }
    match u32::try_from(parsed) {
        Ok(kib) if kib > 0 => {
            if (1024 * kib).is_power_of_two() {
                Ok(1024 * kib)
            } else {
                bail_config!("chunk_length_in_kb must be a power of 2")
            }
        }
        _ => bail_config!("Invalid negative or null chunk_length_in_kb"),
    }
}

/// Checks the options that a compressor accepts.
fn validate_options(compressor: Compressor, options: &BTreeMap<String, String>) -> Result<()> {
    for (key, value) in options {
        match (compressor, key.as_str()) {
            (Compressor::Lz4, "lz4_compressor_type") => {
                if value != "fast" && value != "high" {
                    bail_config!(
                        "Invalid compressor type '{value}' specified for LZ4 parameter '{key}'. Valid \
                         options are [high, fast]."
                    );
                }
            }
            (Compressor::Lz4, "lz4_high_compressor_level") => {
                if !value.parse::<i32>().is_ok_and(|level| (1..=17).contains(&level)) {
                    bail_config!(
                        "Invalid value [{value}] for parameter '{key}'. Value must be between 1 and 17."
                    );
                }
            }
            (Compressor::Zstd, "compression_level") => match value.parse::<i32>() {
                // Zstd's own limits: -(1 << 17) and 22.
                Ok(level) if (-131_072..=22).contains(&level) => {}
                Ok(level) => bail_config!(
                    "ZstdCompressor.create() threw an error: java.lang.IllegalArgumentException \
                     {key}={level} is invalid"
                ),
                Err(_) => bail_config!(
                    "ZstdCompressor.create() threw an error: java.lang.NumberFormatException For input \
                     string: \"{value}\""
                ),
            },
            _ => bail_config!("Unknown compression options {key}"),
        }
    }
    Ok(())
}
