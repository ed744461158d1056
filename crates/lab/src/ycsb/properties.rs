//! Settings of a core workload, by YCSB's property names.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use super::hash::KeyNaming;

/// A core workload. The field docs contain YCSB's property names; the defaults are YCSB's.
#[derive(Debug, Clone, PartialEq)]
pub struct CoreWorkload {
    /// `table`.
    pub table: String,
    /// `recordcount`: number of records before the run.
    pub record_count: u64,
    /// `operationcount`: number of operations of a run; 0 for no bound.
    pub operation_count: u64,
    /// `maxexecutiontime` in seconds; 0 for no bound.
    pub max_execution_seconds: u64,
    /// `insertstart`: number of the first key.
    pub insert_start: u64,
    /// `insertcount`: number of records that this instance loads and chooses from; `None` for
    /// `recordcount - insertstart`.
    pub insert_count: Option<u64>,
    /// `insertorder` and `zeropadding`.
    pub key_naming: KeyNaming,
    /// `fieldcount`.
    pub field_count: usize,
    /// `fieldnameprefix`.
    pub field_name_prefix: String,
    /// `fieldlength`, in bytes; the maximum if the distribution is not constant.
    pub field_length: usize,
    /// `minfieldlength`.
    pub min_field_length: usize,
    /// `fieldlengthdistribution`.
    pub field_length_distribution: FieldLengthDistribution,
    /// `readallfields`: whether reads and scans request all fields or a random one.
    pub read_all_fields: bool,
    /// `writeallfields`: whether updates write all fields or a random one.
    pub write_all_fields: bool,
    /// `dataintegrity`: values are derived from key and field, and values read are checked. Must be
    /// set for the load as well.
    pub data_integrity: bool,
    /// `readproportion`, `updateproportion`, `insertproportion`, `scanproportion`,
    /// `readmodifywriteproportion`.
    pub proportions: Proportions,
    /// `requestdistribution`.
    pub request_distribution: RequestDistribution,
    /// `hotspotdatafraction`: share of hot keys.
    pub hotspot_data_fraction: f64,
    /// `hotspotopnfraction`: share of operations on hot keys.
    pub hotspot_operation_fraction: f64,
    /// `exponential.percentile`: percentage of requests within `exponential.frac`.
    pub exponential_percentile: f64,
    /// `exponential.frac`: share of the newest keys that gets that percentage.
    pub exponential_fraction: f64,
    /// `minscanlength`, in records.
    pub min_scan_length: u64,
    /// `maxscanlength`, in records.
    pub max_scan_length: u64,
    /// `scanlengthdistribution`.
    pub scan_length_distribution: ScanLengthDistribution,
}

/// Proportions of the operations of a run; the weights need not sum to one.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the names of the operations")]
pub struct Proportions {
    pub read: f64,
    pub update: f64,
    pub insert: f64,
    pub scan: f64,
    pub read_modify_write: f64,
}

/// Defines a setting whose values are words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl FromStr for $name {
            type Err = String;
            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("expected one of {}", [$($word),+].join(", "))),
                }
            }
        }

        impl Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}

words! {
    /// Distribution of requested keys.
    RequestDistribution {
        /// Uniform.
        Uniform = "uniform",
        /// Skewed, with the popular keys scattered.
        Zipfian = "zipfian",
        /// Skewed towards the newest.
        Latest = "latest",
        /// A hot set and a cold one.
        Hotspot = "hotspot",
        /// In order.
        Sequential = "sequential",
        /// Skewed towards the newest, exponentially.
        Exponential = "exponential",
    }
}

words! {
    /// Distribution of scan lengths.
    ScanLengthDistribution {
        /// Uniform.
        Uniform = "uniform",
        /// Mostly short.
        Zipfian = "zipfian",
    }
}

words! {
    /// Distribution of field lengths.
    FieldLengthDistribution {
        /// Always `fieldlength`.
        Constant = "constant",
        /// Uniform from `minfieldlength` to `fieldlength`.
        Uniform = "uniform",
        /// From `minfieldlength` to `fieldlength`, mostly short.
        Zipfian = "zipfian",
    }
}

/// Error of a property.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum PropertyError {
    /// The property is unknown.
    #[error("unknown property {name}; known are: {known}")]
    Unknown {
        /// Name of the property.
        name: String,
        /// Known properties.
        known: String,
    },
    /// The value is invalid.
    #[error("property {name} cannot be {value:?}: {reason}")]
    Invalid {
        /// Name of the property.
        name: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Not of the form `name=value`.
    #[error("{0:?} is not of the form name=value")]
    Malformed(String),
    /// Values that contradict each other.
    #[error("{0}")]
    Contradiction(String),
}

impl Default for CoreWorkload {
    fn default() -> Self {
        Self {
            table: "usertable".into(),
            record_count: 1000,
            operation_count: 1000,
            max_execution_seconds: 0,
            insert_start: 0,
            insert_count: None,
            key_naming: KeyNaming { ordered: false, zero_padding: 1 },
            field_count: 10,
            field_name_prefix: "field".into(),
            field_length: 100,
            min_field_length: 1,
            field_length_distribution: FieldLengthDistribution::Constant,
            read_all_fields: true,
            write_all_fields: false,
            data_integrity: false,
            proportions: Proportions {
                read: 0.95,
                update: 0.05,
                insert: 0.0,
                scan: 0.0,
                read_modify_write: 0.0,
            },
            request_distribution: RequestDistribution::Uniform,
            hotspot_data_fraction: 0.2,
            hotspot_operation_fraction: 0.8,
            exponential_percentile: 95.0,
            exponential_fraction: 0.8571428571,
            min_scan_length: 1,
            max_scan_length: 1000,
            scan_length_distribution: ScanLengthDistribution::Uniform,
        }
    }
}

impl CoreWorkload {
    /// Returns the core workload of YCSB's file `workloads/workload<letter>`, `a` to `f`; `None`
    /// for other letters.
    pub fn core(letter: char) -> Option<Self> {
        const NONE: Proportions =
            Proportions { read: 0.0, update: 0.0, insert: 0.0, scan: 0.0, read_modify_write: 0.0 };
        let proportions = match letter {
            'a' => Proportions { read: 0.5, update: 0.5, ..NONE },
            'b' => Proportions { read: 0.95, update: 0.05, ..NONE },
            'c' => Proportions { read: 1.0, ..NONE },
            'd' => Proportions { read: 0.95, insert: 0.05, ..NONE },
            'e' => Proportions { scan: 0.95, insert: 0.05, ..NONE },
            'f' => Proportions { read: 0.5, read_modify_write: 0.5, ..NONE },
            _ => return None,
        };
        let mut workload =
            Self { proportions, request_distribution: RequestDistribution::Zipfian, ..Self::default() };
        match letter {
            'd' => workload.request_distribution = RequestDistribution::Latest,
            'e' => workload.max_scan_length = 100,
            _ => {}
        }
        Some(workload)
    }

    /// Applies `name=value`.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), PropertyError> {
        let (name, value) = pair.split_once('=').ok_or_else(|| PropertyError::Malformed(pair.into()))?;
        self.set(name.trim(), value.trim())
    }

    /// Applies the lines of a property file: `name=value`, empty, or a comment from `#` on.
    ///
    /// Skips the property `workload`, the name of YCSB's Java class, if it names the core workload.
    pub fn set_file(&mut self, text: &str) -> Result<(), PropertyError> {
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '!'])) {
            if line.starts_with("workload=") && line.ends_with(".CoreWorkload") {
                continue;
            }
            self.set_pair(line)?;
        }
        Ok(())
    }

    /// Sets one property by YCSB's name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), PropertyError> {
        fn parse<T: FromStr<Err: Display>>(name: &str, value: &str) -> Result<T, PropertyError> {
            value.parse().map_err(|reason: T::Err| invalid(name, value, reason))
        }
        fn share(name: &str, value: &str) -> Result<f64, PropertyError> {
            let share = parse(name, value)?;
            if (0.0..=1.0).contains(&share) {
                return Ok(share);
            }
            Err(invalid(name, value, "expected a share from 0 to 1"))
        }
        match name {
            "table" => self.table = value.into(),
            "recordcount" => self.record_count = parse(name, value)?,
            "operationcount" => self.operation_count = parse(name, value)?,
            "maxexecutiontime" => self.max_execution_seconds = parse(name, value)?,
            "insertstart" => self.insert_start = parse(name, value)?,
            "insertcount" => self.insert_count = Some(parse(name, value)?),
            "zeropadding" => self.key_naming.zero_padding = parse(name, value)?,
            "insertorder" => {
                self.key_naming.ordered = match value {
                    "hashed" => false,
                    "ordered" => true,
                    _ => return Err(invalid(name, value, "expected hashed or ordered")),
                }
            }
            "fieldcount" => self.field_count = parse(name, value)?,
            "fieldnameprefix" => self.field_name_prefix = value.into(),
            "fieldlength" => self.field_length = parse(name, value)?,
            "minfieldlength" => self.min_field_length = parse(name, value)?,
            "fieldlengthdistribution" => self.field_length_distribution = parse(name, value)?,
            "readallfields" => self.read_all_fields = parse(name, value)?,
            "writeallfields" => self.write_all_fields = parse(name, value)?,
            "dataintegrity" => self.data_integrity = parse(name, value)?,
            "readproportion" => self.proportions.read = share(name, value)?,
            "updateproportion" => self.proportions.update = share(name, value)?,
            "insertproportion" => self.proportions.insert = share(name, value)?,
            "scanproportion" => self.proportions.scan = share(name, value)?,
            "readmodifywriteproportion" => self.proportions.read_modify_write = share(name, value)?,
            "requestdistribution" => self.request_distribution = parse(name, value)?,
            "hotspotdatafraction" => self.hotspot_data_fraction = share(name, value)?,
            "hotspotopnfraction" => self.hotspot_operation_fraction = share(name, value)?,
            "exponential.percentile" => self.exponential_percentile = parse(name, value)?,
            "exponential.frac" => self.exponential_fraction = parse(name, value)?,
            "minscanlength" => self.min_scan_length = parse(name, value)?,
            "maxscanlength" => self.max_scan_length = parse(name, value)?,
            "scanlengthdistribution" => self.scan_length_distribution = parse(name, value)?,
            _ => {
                let known = self.settings().into_keys().collect::<Vec<_>>().join(", ");
                return Err(PropertyError::Unknown { name: name.into(), known });
            }
        }
        Ok(())
    }

    /// Returns every property with its value, for reports.
    pub fn settings(&self) -> BTreeMap<&'static str, String> {
        let order = if self.key_naming.ordered { "ordered" } else { "hashed" };
        BTreeMap::from([
            ("table", self.table.clone()),
            ("recordcount", self.record_count.to_string()),
            ("operationcount", self.operation_count.to_string()),
            ("maxexecutiontime", self.max_execution_seconds.to_string()),
            ("insertstart", self.insert_start.to_string()),
            ("insertcount", self.insert_count().to_string()),
            ("zeropadding", self.key_naming.zero_padding.to_string()),
            ("insertorder", order.to_string()),
            ("fieldcount", self.field_count.to_string()),
            ("fieldnameprefix", self.field_name_prefix.clone()),
            ("fieldlength", self.field_length.to_string()),
            ("minfieldlength", self.min_field_length.to_string()),
            ("fieldlengthdistribution", self.field_length_distribution.to_string()),
            ("readallfields", self.read_all_fields.to_string()),
            ("writeallfields", self.write_all_fields.to_string()),
            ("dataintegrity", self.data_integrity.to_string()),
            ("readproportion", self.proportions.read.to_string()),
            ("updateproportion", self.proportions.update.to_string()),
            ("insertproportion", self.proportions.insert.to_string()),
            ("scanproportion", self.proportions.scan.to_string()),
            ("readmodifywriteproportion", self.proportions.read_modify_write.to_string()),
            ("requestdistribution", self.request_distribution.to_string()),
            ("hotspotdatafraction", self.hotspot_data_fraction.to_string()),
            ("hotspotopnfraction", self.hotspot_operation_fraction.to_string()),
            ("exponential.percentile", self.exponential_percentile.to_string()),
            ("exponential.frac", self.exponential_fraction.to_string()),
            ("minscanlength", self.min_scan_length.to_string()),
            ("maxscanlength", self.max_scan_length.to_string()),
            ("scanlengthdistribution", self.scan_length_distribution.to_string()),
        ])
    }

    /// Returns the number of loaded records: `insertcount`, or the rest of `recordcount` from
    /// `insertstart` on.
    pub fn insert_count(&self) -> u64 {
        self.insert_count.unwrap_or(self.record_count.saturating_sub(self.insert_start))
    }

    /// Returns the names of the fields: prefix and index.
    pub fn field_names(&self) -> Vec<String> {
        (0..self.field_count).map(|field| format!("{}{field}", self.field_name_prefix)).collect()
    }

    /// Rejects contradictory or meaningless settings.
    pub fn check(&self) -> Result<(), PropertyError> {
        let wrong = |what: String| Err(PropertyError::Contradiction(what));
        let Proportions { read, update, insert, scan, read_modify_write } = self.proportions;
        if self.insert_count() == 0 {
            return wrong(format!(
                "no record to work on: recordcount {}, insertstart {}",
                self.record_count, self.insert_start
            ));
        }
        if self.insert_start.checked_add(self.insert_count()).is_none_or(|end| end > self.record_count) {
            return wrong(format!(
                "insertstart {} + insertcount {} goes beyond recordcount {}",
                self.insert_start,
                self.insert_count(),
                self.record_count
            ));
        }
        if !(1..=1000).contains(&self.field_count) {
            return wrong(format!("fieldcount {} is not from 1 to 1000", self.field_count));
        }
        if self.field_length > 1 << 20 {
            return wrong(format!("fieldlength {} is over a mebibyte", self.field_length));
        }
        if self.min_field_length > self.field_length
            && self.field_length_distribution != FieldLengthDistribution::Constant
        {
            return wrong(format!(
                "minfieldlength {} is over fieldlength {}",
                self.min_field_length, self.field_length
            ));
        }
        if self.key_naming.zero_padding > 100 {
            return wrong(format!("zeropadding {} is over 100 digits", self.key_naming.zero_padding));
        }
        let identifier = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !identifier(&self.table) || !identifier(&self.field_name_prefix) {
            return wrong(format!(
                "table {:?} and fieldnameprefix {:?} must be a letter followed by letters, digits and _",
                self.table, self.field_name_prefix
            ));
        }
        if self.data_integrity && self.field_length_distribution != FieldLengthDistribution::Constant {
            return wrong("dataintegrity=true needs fieldlengthdistribution=constant".into());
        }
        if read + update + insert + scan + read_modify_write <= 0.0 {
            return wrong("every proportion is 0".into());
        }
        if self.min_scan_length == 0 || self.min_scan_length > self.max_scan_length {
            return wrong(format!(
                "minscanlength {} to maxscanlength {} is no range of lengths from 1 on",
                self.min_scan_length, self.max_scan_length
            ));
        }
        if i32::try_from(self.max_scan_length).is_err() {
            return wrong(format!("maxscanlength {} is over {}", self.max_scan_length, i32::MAX));
        }
        if !(self.exponential_percentile > 0.0
            && self.exponential_percentile < 100.0
            && self.exponential_fraction > 0.0)
        {
            return wrong(
                "exponential.percentile must lie between 0 and 100, exponential.frac above 0".into(),
            );
        }
        Ok(())
    }
}

fn invalid(name: &str, value: &str, reason: impl Display) -> PropertyError {
    PropertyError::Invalid { name: name.into(), value: value.into(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_workloads_match_the_property_files() {
        let files = [
            ('a', "readproportion=0.5\nupdateproportion=0.5\nrequestdistribution=zipfian"),
            ('b', "readproportion=0.95\nupdateproportion=0.05\nrequestdistribution=zipfian"),
            ('c', "readproportion=1\nupdateproportion=0\nrequestdistribution=zipfian"),
            (
                'd',
                "readproportion=0.95\nupdateproportion=0\ninsertproportion=0.05\nrequestdistribution=latest",
            ),
            (
                'e',
                "readproportion=0\nupdateproportion=0\nscanproportion=0.95\ninsertproportion=0.05\n\
                 requestdistribution=zipfian\nmaxscanlength=100\nscanlengthdistribution=uniform",
            ),
            (
                'f',
                "readproportion=0.5\nupdateproportion=0\nreadmodifywriteproportion=0.5\n\
                 requestdistribution=zipfian",
            ),
        ];
        for (letter, lines) in files {
            let mut from_file = CoreWorkload::default();
            let text = format!(
                "# a comment\nrecordcount=1000\nworkload=site.ycsb.workloads.CoreWorkload\n\n\
                 readallfields=true\n{lines}"
            );
            from_file.set_file(&text).unwrap();
            assert_eq!(CoreWorkload::core(letter), Some(from_file), "workload {letter}");
            CoreWorkload::core(letter).unwrap().check().unwrap();
        }
        assert_eq!(CoreWorkload::core('g'), None);
    }

    #[test]
    fn reported_settings_can_be_set() {
        let mut workload = CoreWorkload::core('e').unwrap();
        for (name, value) in workload.settings() {
            workload.set(name, &value).unwrap();
        }
        assert_eq!(workload.settings(), CoreWorkload::core('e').unwrap().settings());
    }

    #[test]
    fn unsupported_properties_are_rejected_by_name() {
        let mut workload = CoreWorkload::default();
        let unknown = workload.set_pair("measurementtype=raw").unwrap_err();
        assert!(
            unknown.to_string().starts_with("unknown property measurementtype; known are: dataintegrity")
        );
        for pair in
            ["recordcount=many", "readproportion=1.5", "requestdistribution=flat", "insertorder=any", "x"]
        {
            assert!(workload.set_pair(pair).is_err(), "{pair}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for pairs in [
            "recordcount=0",
            "recordcount=10 insertstart=5 insertcount=6",
            "insertstart=18446744073709551615 insertcount=5",
            "readproportion=0 updateproportion=0",
            "minscanlength=0",
            "minscanlength=9 maxscanlength=8",
            "dataintegrity=true fieldlengthdistribution=uniform",
            "fieldcount=0",
            "table=x;drop",
            "exponential.percentile=100",
        ] {
            let mut workload = CoreWorkload::default();
            pairs.split(' ').for_each(|pair| workload.set_pair(pair).unwrap());
            assert!(workload.check().is_err(), "{pairs}");
        }
    }
}
