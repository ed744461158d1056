//! The options of a log, with Cassandra's names and defaults.

use std::path::PathBuf;

/// Where and how a log is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The directory of the files; created if it does not exist.
    pub directory: PathBuf,
    /// When a new file is started.
    pub roll_cycle: RollCycle,
    /// Whether a request waits while the queue is full; otherwise its record is dropped.
    pub block: bool,
    /// The maximum size of the queue, bytes.
    pub max_queue_weight: u64,
    /// The maximum size of all files, bytes.
    pub max_log_size: u64,
}

impl Options {
    /// Returns Cassandra's defaults, with files in `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            roll_cycle: RollCycle::Hourly,
            block: true,
            max_queue_weight: 256 << 20,
            max_log_size: 16 << 30,
        }
    }
}

macro_rules! roll_cycles {
    ($($variant:ident $name:literal $minutes:literal,)*) => {
        /// How often a new file is started.
        #[expect(missing_docs, reason = "the names are those of Cassandra")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum RollCycle {
            $($variant,)*
        }

        impl RollCycle {
            /// All cycles.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name in settings.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            fn minutes(self) -> i64 {
                match self {
                    $(Self::$variant => $minutes,)*
                }
            }
        }
    };
}

roll_cycles! {
    Minutely "MINUTELY" 1,
    FiveMinutely "FIVE_MINUTELY" 5,
    TenMinutely "TEN_MINUTELY" 10,
    TwentyMinutely "TWENTY_MINUTELY" 20,
    HalfHourly "HALF_HOURLY" 30,
    Hourly "HOURLY" 60,
    TwoHourly "TWO_HOURLY" 120,
    FourHourly "FOUR_HOURLY" 240,
    SixHourly "SIX_HOURLY" 360,
    Daily "DAILY" 1440,
}

impl RollCycle {
    /// Returns the cycle of a name.
    ///
    /// # Errors
    /// The names that exist.
    pub fn named(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|cycle| cycle.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|cycle| cycle.name()).collect();
            format!("invalid roll_cycle: expected one of {}, found {name}", names.join(", "))
        })
    }

    /// Returns the number of the period that a time is in, of which each has its own file.
    pub(crate) fn period(self, millis: i64) -> i64 {
        millis.div_euclid(self.minutes() * 60_000)
    }
}
