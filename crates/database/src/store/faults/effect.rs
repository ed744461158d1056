//! What an affected request meets: the names of effects, and the parameters that each has.

use super::request::{FaultedRequest, StatementClass};
use super::rule::FaultRule;

/// What an affected request meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Latency,
    ReadTimeout,
    WriteTimeout,
    ReadFailure,
    WriteFailure,
    CasWriteUnknown,
    Unavailable,
    Overloaded,
    Bootstrapping,
    ServerError,
    TruncateError,
    DropConnection,
    CutResponse,
    ShortPage,
}

/// The names of all effects.
pub const EFFECTS: [&str; 14] = [
    "latency",
    "read_timeout",
    "write_timeout",
    "read_failure",
    "write_failure",
    "cas_write_unknown",
    "unavailable",
    "overloaded",
    "is_bootstrapping",
    "server_error",
    "truncate_error",
    "drop_connection",
    "cut_response",
    "short_page",
];

const ALL: [Effect; 14] = [
    Effect::Latency,
    Effect::ReadTimeout,
    Effect::WriteTimeout,
    Effect::ReadFailure,
    Effect::WriteFailure,
    Effect::CasWriteUnknown,
    Effect::Unavailable,
    Effect::Overloaded,
    Effect::Bootstrapping,
    Effect::ServerError,
    Effect::TruncateError,
    Effect::DropConnection,
    Effect::CutResponse,
    Effect::ShortPage,
];

/// The parameters that every effect has.
const COMMON: [&str; 11] = [
    "effect",
    "statement",
    "kind",
    "keyspace_name",
    "table_name",
    "client",
    "node",
    "probability",
    "times",
    "skip",
    "delay_ms",
];

impl Effect {
    /// Returns the effect with a name of [`EFFECTS`].
    pub fn named(name: &str) -> Option<Self> {
        let index = EFFECTS.iter().position(|effect| *effect == name)?;
        ALL.get(index).copied()
    }

    /// Returns the parameters that only some effects have.
    fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::Latency => &[],
            Self::ReadTimeout => &["consistency", "received", "required", "data_present", "message"],
            Self::WriteTimeout => {
                &["applied", "consistency", "received", "required", "write_type", "message"]
            }
            Self::ReadFailure => &[
                "consistency",
                "received",
                "required",
                "data_present",
                "failures",
                "failure_code",
                "message",
            ],
            Self::WriteFailure => &[
                "applied",
                "consistency",
                "received",
                "required",
                "write_type",
                "failures",
                "failure_code",
                "message",
            ],
            Self::CasWriteUnknown => &["applied", "consistency", "received", "required", "message"],
            Self::Unavailable => &["consistency", "required", "alive", "message"],
            Self::Overloaded | Self::Bootstrapping => &["message"],
            Self::ServerError | Self::TruncateError => &["applied", "message"],
            Self::DropConnection => &["applied"],
            Self::CutResponse => &[],
            Self::ShortPage => &["page_size"],
        }
    }

    /// Returns the first column of a rule that has no meaning for this effect.
    pub fn foreign_parameter(self, rule: &FaultRule) -> Option<&'static str> {
        let own = self.parameters();
        let values = rule.values();
        values.iter().map(|(name, _)| *name).find(|name| !COMMON.contains(name) && !own.contains(name))
    }

    /// Whether a request can meet this effect: only reads have read timeouts.
    pub fn applies_to(self, request: &FaultedRequest) -> bool {
        let class = request.class;
        match self {
            Self::ReadTimeout | Self::ReadFailure => class == StatementClass::Select,
            Self::WriteTimeout | Self::WriteFailure => class.is_write(),
            Self::CasWriteUnknown => class.is_write() && request.is_conditional,
            Self::TruncateError => class == StatementClass::Truncate,
            Self::ShortPage => {
                class == StatementClass::Select && request.page_size.is_some_and(|size| size > 0)
            }
            Self::Latency
            | Self::Unavailable
            | Self::Overloaded
            | Self::Bootstrapping
            | Self::ServerError
            | Self::DropConnection
            | Self::CutResponse => true,
        }
    }
}
