//! USING TIMESTAMP and TTL.

use cassette_cql::ast;
use cassette_cql::values::text::encode_hex;
use cassette_rows::{DataType, DeletionTime, LivenessInfo, NO_TTL, TableMetadata};

use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::restrictions::named_receiver;
use crate::planning::terms::Bound;
use crate::schema::conditions::Term;

/// The maximum TTL: 20 years in seconds.
pub(crate) const TTL_MAX: u32 = 20 * 365 * 24 * 60 * 60;

/// The latest expiration that `nb` files can represent: 2^31 - 2 seconds, 2038-01-19T03:14:06Z.
const EXPIRATION_MAX: u32 = i32::MAX as u32 - 1;

/// The attributes of USING.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    // Boxed, as few statements have them and plans are many.
    timestamp: Option<Box<Term>>,
    ttl: Option<Box<Term>>,
}

/// The write timestamp and expiration of one execution's cells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Write timestamp, microseconds.
    pub timestamp: i64,
    /// Part of a conditional write.
    is_conditional: bool,
    /// TTL in seconds, or [`NO_TTL`].
    pub ttl: u32,
    /// Seconds since 1970.
    pub now: u32,
}

impl Times {
    /// Returns the expiration time; meaningless without TTL.
    pub fn expiration(&self) -> u32 {
        self.now.saturating_add(self.ttl)
    }

    /// Returns the deletion of a partition or a range. In a conditional write it is a microsecond
    /// older than the written rows, so a batch does not delete its own rows, as in Cassandra.
    pub fn deletion_of_many(&self) -> DeletionTime {
        DeletionTime::new(self.timestamp - i64::from(self.is_conditional), self.now)
    }

    /// Returns the liveness of an inserted row.
    pub fn liveness(&self) -> LivenessInfo {
        match self.ttl {
            NO_TTL => LivenessInfo::new(self.timestamp),
            ttl => LivenessInfo::expiring(self.timestamp, ttl, self.expiration()),
        }
    }
}

/// Rejects the timestamp that in Cassandra's files means the absence of one. As in Cassandra, other
/// mistakes in attributes are reported before.
fn in_bounds(timestamp: i64) -> Result<i64> {
    if timestamp == i64::MIN {
        bail_invalid!("Out of bound timestamp, must be in [{}, {}]", i64::MIN + 1, i64::MAX);
    }
    Ok(timestamp)
}

impl Attributes {
    /// Plans the attributes of a statement on `table`, or of a batch if the receivers are called
    /// `[batch]`.
    pub fn new(
        timestamp: Option<&ast::Term>,
        ttl: Option<&ast::Term>,
        table: &TableMetadata,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        let mut prepare = |term: Option<&ast::Term>, name, data_type| {
            let receiver = named_receiver(table, name, data_type);
            term.map(|term| Term::prepare(term, &receiver, cx).map(Box::new)).transpose()
        };
        Ok(Self {
            timestamp: prepare(timestamp, "[timestamp]", DataType::BigInt)?,
            ttl: prepare(ttl, "[ttl]", DataType::Int)?,
        })
    }

    /// Whether USING TIMESTAMP is specified.
    pub fn has_timestamp(&self) -> bool {
        self.timestamp.is_some()
    }

    /// Whether USING TTL is specified.
    pub fn has_ttl(&self) -> bool {
        self.ttl.is_some()
    }

    /// Returns the write timestamp of USING TIMESTAMP, if it is specified and bound.
    pub fn timestamp(&self, cx: &BindContext<'_>) -> Result<Option<i64>> {
        self.bound_timestamp(cx)?.map(in_bounds).transpose()
    }

    /// Returns the write timestamp, which may be out of bounds.
    pub fn bound_timestamp(&self, cx: &BindContext<'_>) -> Result<Option<i64>> {
        let Some(term) = &self.timestamp else { return Ok(None) };
        match term.bind(cx)? {
            Bound::Unset => Ok(None),
            Bound::Null => bail_invalid!("Invalid null value of timestamp"),
            Bound::Value(value) => match <[u8; 8]>::try_from(&*value).map(i64::from_be_bytes) {
                Ok(timestamp) => Ok(Some(timestamp)),
                Err(_) => bail_invalid!("Invalid timestamp value: {}", encode_hex(&value)),
            },
        }
    }

    /// Returns the times of this execution. The write timestamp is that of USING TIMESTAMP, else
    /// `default_timestamp` (of a batch), else that of the request, or a new one.
    pub fn times(
        &self,
        cx: &BindContext<'_>,
        table: &TableMetadata,
        default_timestamp: impl FnOnce() -> Result<i64>,
    ) -> Result<Times> {
        let timestamp = match self.bound_timestamp(cx)? {
            Some(timestamp) => {
                cx.guard().timestamp(&table.name, timestamp, cx.now_micros)?;
                timestamp
            }
            None => default_timestamp()?,
        };
        let times = self.times_at(timestamp, false, cx, table)?;
        in_bounds(timestamp)?;
        Ok(times)
    }

    /// Returns the times of a statement of a conditional write, which has one write timestamp:
    /// USING TIMESTAMP is ignored.
    pub fn conditional_times(
        &self,
        cx: &BindContext<'_>,
        timestamp: i64,
        table: &TableMetadata,
    ) -> Result<Times> {
        self.times_at(timestamp, true, cx, table)
    }

    fn times_at(
        &self,
        timestamp: i64,
        is_conditional: bool,
        cx: &BindContext<'_>,
        table: &TableMetadata,
    ) -> Result<Times> {
        let ttl = self.ttl(cx, table)?;
        let times = Times { timestamp, is_conditional, ttl, now: cx.now_seconds };
        if times.ttl != NO_TTL && times.expiration() > EXPIRATION_MAX {
            bail_invalid!(
                "Request on table {} with {}ttl of {} seconds exceeds maximum supported expiration date of \
                 2038-01-19T03:14:06+00:00. In order to avoid this use a lower TTL, change the expiration \
                 date overflow policy or upgrade to a version where this limitation is fixed. See \
                 CASSANDRA-14092 and CASSANDRA-14227 for more details.",
                table.qualified_name(),
                if self.ttl.is_none() { "default " } else { "" },
                times.ttl
            );
        }
        Ok(times)
    }

    fn ttl(&self, cx: &BindContext<'_>, table: &TableMetadata) -> Result<u32> {
        let default = table.params.default_time_to_live;
        let Some(term) = &self.ttl else { return Ok(default) };
        let value = match term.bind(cx)? {
            Bound::Unset => return Ok(default),
            // Equal to 0: the table's default does not apply.
            Bound::Null => return Ok(NO_TTL),
            Bound::Value(value) if value.is_empty() => return Ok(NO_TTL),
            Bound::Value(value) => value,
        };
        let Ok(ttl) = <[u8; 4]>::try_from(&*value).map(i32::from_be_bytes) else {
            bail_invalid!("Invalid TTL value: {}", encode_hex(&value));
        };
        match u32::try_from(ttl) {
            Err(_) => bail_invalid!("A TTL must be greater or equal to 0, but was {ttl}"),
            Ok(ttl) if ttl > TTL_MAX => {
                bail_invalid!("ttl is too large. requested ({ttl}) maximum ({TTL_MAX})")
            }
            Ok(ttl) => Ok(ttl),
        }
    }
}
