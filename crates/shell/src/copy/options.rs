//! The options of COPY.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::cqlshrc::{Cqlshrc, expand_home};
use crate::error::{Result, command};
use crate::shell::Shell;
use crate::values::{Formats, ParseFormats, TimestampFormat};

/// Whether a file is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Into the table.
    From,
    /// Out of the table.
    To,
}

impl Direction {
    fn name(self) -> &'static str {
        match self {
            Self::From => "from",
            Self::To => "to",
        }
    }
}

/// The options, with cqlsh's names; `docs/shell.md` describes them.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    pub delimiter: u8,
    pub quote: u8,
    pub escape: u8,
    pub header: bool,
    pub null: String,
    pub datetimeformat: TimestampFormat,
    pub maxattempts: u32,
    pub reportfrequency: Duration,
    pub decimalsep: Option<char>,
    pub thousandssep: Option<char>,
    pub boolstyle: (String, String),
    pub numprocesses: usize,
    pub ratefile: Option<PathBuf>,
    pub chunksize: usize,
    pub ingestrate: Option<u64>,
    pub minbatchsize: usize,
    pub maxbatchsize: usize,
    pub maxrows: Option<u64>,
    pub skiprows: u64,
    pub skipcols: Vec<String>,
    pub maxparseerrors: Option<u64>,
    pub maxinserterrors: Option<u64>,
    pub errfile: PathBuf,
    pub preparedstatements: bool,
    pub ttl: Option<i64>,
    pub pagesize: i32,
    pub pagetimeout: Duration,
    pub begintoken: Option<i64>,
    pub endtoken: Option<i64>,
    pub maxrequests: usize,
    pub maxoutputsize: Option<u64>,
    pub floatprecision: Option<usize>,
    pub doubleprecision: Option<usize>,
}

/// The options that are not used yet, by name.
struct Given(BTreeMap<String, String>);

impl Given {
    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let number = text.trim().parse();
        number.map(Some).map_err(|_| invalid(name, "a number", &text))
    }

    /// A limit; negative ones are none.
    fn limit(&mut self, name: &str, default: Option<u64>) -> Result<Option<u64>> {
        Ok(self.number::<i64>(name)?.map_or(default, |limit| u64::try_from(limit).ok()))
    }

    fn character(&mut self, name: &str, default: u8) -> Result<u8> {
        let Some(text) = self.take(name) else { return Ok(default) };
        match text.as_bytes() {
            [byte] => Ok(*byte),
            b"\\t" => Ok(b'\t'),
            _ => Err(invalid(name, "one ASCII character", &text)),
        }
    }

    fn separator(&mut self, name: &str) -> Result<Option<char>> {
        let Some(text) = self.take(name).filter(|text| !text.is_empty()) else { return Ok(None) };
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) => Ok(Some(character)),
            _ => Err(invalid(name, "one character", &text)),
        }
    }

    fn flag(&mut self, name: &str, default: bool) -> Result<bool> {
        let Some(text) = self.take(name) else { return Ok(default) };
        match text.to_lowercase().as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(invalid(name, "true or false", &text)),
        }
    }
}

fn invalid(name: &str, expected: &str, found: &str) -> crate::error::ShellError {
    command(format!("invalid {}: expected {expected}, found '{found}'", name.to_uppercase()))
}

impl CopyOptions {
    /// Reads the options: of sections of the configuration file, then of the command.
    ///
    /// # Errors
    /// If an option is unknown or its value invalid.
    pub fn read(
        direction: Direction,
        keyspace: &str,
        table: &str,
        given: Vec<(String, String)>,
        shell: &Shell,
    ) -> Result<Self> {
        let mut given: BTreeMap<String, String> = given.into_iter().collect();
        let file = match given.remove("configfile").filter(|path| !path.is_empty()) {
            Some(path) => {
                let path = expand_home(&path);
                if !path.exists() {
                    return Err(command(format!("CONFIGFILE {}: no such file", path.display())));
                }
                Cqlshrc::read(&path)?
            }
            None => shell.cqlshrc.clone(),
        };
        let mut all = BTreeMap::new();
        let name = direction.name();
        for section in [
            "copy".to_owned(),
            format!("copy-{name}"),
            format!("copy:{keyspace}.{table}"),
            format!("copy-{name}:{keyspace}.{table}"),
        ] {
            all.extend(file.section(&section).map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        all.extend(given);
        let mut given = Given(all);
        let options = Self::parse(&mut given, keyspace, table, &shell.formats)?;
        if given.0.is_empty() {
            return Ok(options);
        }
        let names: Vec<String> = given.0.into_keys().collect();
        Err(command(format!("Unrecognized COPY {} options: {}", name.to_uppercase(), names.join(", "))))
    }

    fn parse(given: &mut Given, keyspace: &str, table: &str, formats: &Formats) -> Result<Self> {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let datetimeformat = TimestampFormat {
            pattern: given.take("datetimeformat").unwrap_or_else(|| formats.timestamp.pattern.clone()),
            milliseconds_only: true,
            ..TimestampFormat::default()
        };
        let encoding = given.take("encoding").unwrap_or_else(|| "utf8".to_owned());
        if !["utf8", "utf-8"].contains(&encoding.to_lowercase().as_str()) {
            return Err(invalid("encoding", "utf8", &encoding));
        }
        let pagesize = given.number("pagesize")?.filter(|size| *size > 0).unwrap_or(1000);
        let seconds = given.number::<f64>("reportfrequency")?.unwrap_or(0.25);
        let errfile = given.take("errfile").unwrap_or_else(|| format!("import_{keyspace}_{table}.err"));
        let ratefile = given.take("ratefile").filter(|path| !path.is_empty());
        let skipcols = given.take("skipcols").unwrap_or_default();
        let names = skipcols.split(',').map(|name| name.trim().to_owned());
        Ok(Self {
            delimiter: given.character("delimiter", b',')?,
            quote: given.character("quote", b'"')?,
            escape: given.character("escape", b'\\')?,
            header: given.flag("header", false)?,
            null: given.take("null").unwrap_or_default(),
            datetimeformat,
            maxattempts: given.number("maxattempts")?.unwrap_or(5).max(1),
            reportfrequency: Duration::try_from_secs_f64(seconds)
                .map_err(|_| invalid("reportfrequency", "seconds", &seconds.to_string()))?,
            decimalsep: given.separator("decimalsep")?,
            thousandssep: given.separator("thousandssep")?,
            boolstyle: boolean_style(given.take("boolstyle"))?,
            numprocesses: given.number("numprocesses")?.unwrap_or(processors).clamp(1, 64),
            ratefile: ratefile.map(|path| expand_home(&path)),
            chunksize: given.number("chunksize")?.unwrap_or(5000).max(1),
            ingestrate: given.number("ingestrate")?.filter(|rate| *rate > 0),
            minbatchsize: given.number("minbatchsize")?.unwrap_or(10),
            maxbatchsize: given.number("maxbatchsize")?.unwrap_or(20).clamp(1, 65_535),
            maxrows: given.limit("maxrows", None)?,
            skiprows: given.number("skiprows")?.unwrap_or(0),
            skipcols: names.filter(|name| !name.is_empty()).collect(),
            maxparseerrors: given.limit("maxparseerrors", None)?,
            maxinserterrors: given.limit("maxinserterrors", Some(1000))?,
            errfile: expand_home(&errfile),
            preparedstatements: given.flag("preparedstatements", true)?,
            ttl: given.number("ttl")?.filter(|ttl| *ttl >= 0),
            pagesize,
            pagetimeout: Duration::from_secs(
                given
                    .number("pagetimeout")?
                    .unwrap_or_else(|| 10.max(u64::try_from(pagesize / 100).unwrap_or(10))),
            ),
            begintoken: token(given, "begintoken")?,
            endtoken: token(given, "endtoken")?,
            maxrequests: given.number("maxrequests")?.unwrap_or(6).clamp(1, 1000),
            maxoutputsize: given.limit("maxoutputsize", None)?.filter(|size| *size > 0),
            floatprecision: given.number("floatprecision")?,
            doubleprecision: given.number("doubleprecision")?,
        })
    }

    /// Returns how fields are parsed.
    pub fn parse_formats(&self) -> ParseFormats {
        ParseFormats {
            null: self.null.clone(),
            timestamp: self.datetimeformat.clone(),
            decimal_separator: self.decimalsep,
            thousands_separator: self.thousandssep,
            booleans: self.boolstyle.clone(),
        }
    }

    /// Returns how values are written. Without a precision, floating point numbers have all their
    /// digits.
    pub fn formats(&self) -> Formats {
        Formats {
            float_precision: self.floatprecision,
            double_precision: self.doubleprecision,
            timestamp: self.datetimeformat.clone(),
            null: self.null.clone(),
            decimal_separator: self.decimalsep,
            thousands_separator: self.thousandssep,
            booleans: self.boolstyle.clone(),
            escapes_text: false,
        }
    }
}

fn token(given: &mut Given, name: &str) -> Result<Option<i64>> {
    match given.take(name).filter(|text| !text.is_empty()) {
        Some(text) => text.trim().parse().map(Some).map_err(|_| invalid(name, "a token", &text)),
        None => Ok(None),
    }
}

fn boolean_style(given: Option<String>) -> Result<(String, String)> {
    let text = given.unwrap_or_else(|| "True,False".to_owned());
    match text.split(',').map(str::trim).collect::<Vec<_>>().as_slice() {
        [yes, no] if yes != no && !yes.is_empty() && !no.is_empty() => {
            Ok(((*yes).to_owned(), (*no).to_owned()))
        }
        _ => Err(invalid("boolstyle", "two different texts and a comma between them", &text)),
    }
}
