//! Metrics: one description of each, from which the report's field, the lines for Prometheus and
//! the table in `docs/metrics.md` follow.

use crate::DistributionReport;

/// A metric of a report of type `R`.
#[derive(Debug, Clone, Copy)]
pub struct Metric<R> {
    /// Prometheus's name, with the unit, and `_total` for a counter.
    pub name: &'static str,
    /// What it measures: one sentence.
    pub help: &'static str,
    /// How its value develops.
    pub kind: MetricKind,
    /// The label that distinguishes it from metrics of the same name in the same report.
    pub label: Option<(&'static str, &'static str)>,
    /// Returns its value in a report.
    pub value: for<'a> fn(&'a R) -> MetricValue<'a>,
}

/// How a metric's value develops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only increases while the process runs.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution of all values since the start.
    Histogram,
}

/// The value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricValue<'a> {
    /// Nothing was measured.
    None,
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a histogram, and how many of its units make one of the metric's name.
    Distribution(&'a DistributionReport, f64),
}

impl MetricKind {
    /// Returns Prometheus's name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A type of fields that a metric can show.
pub(crate) trait Measured {
    /// Returns the value in the unit of the metric's name, which is `divisor` times the field's.
    fn measured(&self, divisor: f64) -> MetricValue<'_>;
}

impl Measured for u64 {
    fn measured(&self, divisor: f64) -> MetricValue<'_> {
        MetricValue::Number(*self as f64 / divisor)
    }
}

impl Measured for f64 {
    fn measured(&self, divisor: f64) -> MetricValue<'_> {
        if self.is_finite() { MetricValue::Number(*self / divisor) } else { MetricValue::None }
    }
}

impl Measured for DistributionReport {
    fn measured(&self, divisor: f64) -> MetricValue<'_> {
        if self.count > 0 { MetricValue::Distribution(self, divisor) } else { MetricValue::None }
    }
}

impl<T: Measured> Measured for Option<T> {
    fn measured(&self, divisor: f64) -> MetricValue<'_> {
        self.as_ref().map_or(MetricValue::None, |value| value.measured(divisor))
    }
}

/// Declares a report whose fields have metrics.
///
/// ```text
/// pub struct Report {
///     /// Documentation of a field without a metric.
///     field: String,
///     entries: u64 = Gauge("name", "Help, which is also the field's documentation."),
///     latency: DistributionReport = Histogram("name_seconds", "Help.", 1e6),    // from microseconds
/// }
/// also {                                                                       // without a field
///     Counter["label" = "value"]("name", "Help.", |report| report.entries),
/// }
/// ```
macro_rules! report {
    (
        $(#[$outer:meta])*
        pub struct $report:ident {
            $( $(#[$inner:meta])* $field:ident: $type:ty
               $( = $kind:ident($name:literal, $help:literal $(, $divisor:literal)?) )? ,)*
        }
        $( also {
            $( $also_kind:ident $([$label:literal = $label_value:literal])?
               ($also_name:literal, $also_help:literal, $value:expr) ,)*
        } )?
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize, PartialEq)]
        #[serde(default)]
        pub struct $report {
            $( $(#[$inner])* $( #[doc = $help] )? pub $field: $type, )*
        }

        impl $report {
            /// The metrics of this report.
            pub const METRICS: &[$crate::Metric<Self>] = &[
                $( $( $crate::Metric {
                    name: $name,
                    help: $help,
                    kind: $crate::MetricKind::$kind,
                    label: None,
                    value: |report| {
                        $crate::metric::Measured::measured(&report.$field, 1.0 $( * $divisor )?)
                    },
                }, )? )*
                $( $( $crate::Metric {
                    name: $also_name,
                    help: $also_help,
                    kind: $crate::MetricKind::$also_kind,
                    label: $crate::metric::label!($( $label, $label_value )?),
                    value: {
                        fn number(value: impl Fn(&$report) -> u64, report: &$report) -> f64 {
                            value(report) as f64
                        }
                        |report| $crate::MetricValue::Number(number($value, report))
                    },
                }, )* )?
            ];
        }
    };
}

macro_rules! label {
    () => {
        None
    };
    ($label:literal, $value:literal) => {
        Some(($label, $value))
    };
}

pub(crate) use {label, report};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        AttachedIndexesReport, CacheReport, CidrAccessReport, CidrFilteringReport, CompactionReport,
        LevelReport, NodeReport, OverlappingReport, PoolReport, RequestReport, StatementReport, TableReport,
    };

    fn check<R>(metrics: &[Metric<R>], seen: &mut BTreeSet<String>) {
        for metric in metrics {
            let Metric { name, help, kind, label, .. } = metric;
            assert!(seen.insert(format!("{name}{label:?}")), "{name} has two descriptions");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}: {help}");
            assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
            let is_valid = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(is_valid, "{name}");
        }
    }

    #[test]
    fn every_metric_has_one_description_and_a_name_by_the_conventions_of_prometheus() {
        let mut seen = BTreeSet::new();
        check(NodeReport::METRICS, &mut seen);
        check(StatementReport::METRICS, &mut seen);
        check(RequestReport::METRICS, &mut seen);
        check(CacheReport::METRICS, &mut seen);
        check(PoolReport::METRICS, &mut seen);
        check(CidrFilteringReport::METRICS, &mut seen);
        check(CidrAccessReport::METRICS, &mut seen);
        check(CompactionReport::METRICS, &mut seen);
        check(OverlappingReport::METRICS, &mut seen);
        check(TableReport::METRICS, &mut seen);
        check(LevelReport::METRICS, &mut seen);
        check(AttachedIndexesReport::METRICS, &mut seen);
    }
}
