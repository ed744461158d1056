//! A rule with validated columns, and its counts.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;

use super::effect::Effect;
use super::outcome::{Failure, FaultError, Injected};
use super::pattern::Pattern;
use super::request::{FaultedRequest, StatementClass};
use super::rule::FaultRule;
use super::{EFFECTS, KINDS, WRITE_TYPES};
use crate::basics::error::{Result, bail_invalid};
use crate::basics::request::Consistency;
use crate::schema::authorization::Cidr;

/// A longer delay is a mistake: clients give up long before.
const DELAY_MAX_MS: i32 = 10 * 60 * 1000;

/// The maximum number of replicas in an error.
const REPLICAS_MAX: i32 = 100;

/// A validated rule.
#[derive(Debug)]
pub(crate) struct CheckedRule {
    pub written: FaultRule,
    effect: Effect,
    pattern: Option<Pattern>,
    /// The first and the last address of clients.
    client: Option<Cidr>,
    node: Option<IpAddr>,
    consistency: Option<Consistency>,
    write_type: Option<&'static str>,
    counts: Mutex<Counts>,
}

/// How often a rule matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Requests that matched.
    pub matched: u64,
    /// Requests that were affected.
    pub injected: u64,
}

#[derive(Debug)]
struct Counts {
    shown: FaultCounts,
    /// The state of the generator of random numbers.
    random: u64,
}

impl CheckedRule {
    /// Validates a rule.
    ///
    /// # Errors
    /// Invalid, with the column and what it can contain.
    pub fn new(rule: FaultRule) -> Result<Self> {
        let names = EFFECTS.join(", ");
        let Some(name) = &rule.effect else { bail_invalid!("effect: expected one of {names}, found null") };
        let Some(effect) = Effect::named(name) else {
            bail_invalid!("effect: expected one of {names}, found {name}")
        };
        if let Some(column) = effect.foreign_parameter(&rule) {
            bail_invalid!("{column}: the effect {name} does not have it; set it to null");
        }
        check_numbers(&rule, effect)?;
        if let Some(kind) = &rule.kind
            && !KINDS.contains(&kind.as_str())
        {
            bail_invalid!("kind: expected one of {}, found {kind}", KINDS.join(", "));
        }
        if rule.applied == Some(true) && rule.kind.as_deref() == Some("prepare") {
            bail_invalid!("applied: expected false for the kind prepare, found true");
        }
        let seed = rule.id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Ok(Self {
            effect,
            pattern: rule.statement.as_deref().map(Pattern::new),
            client: rule.client.as_deref().map(network).transpose()?,
            node: rule.node.as_deref().map(|node| address("node", node)).transpose()?,
            consistency: rule.consistency.as_deref().map(level).transpose()?,
            write_type: rule.write_type.as_deref().map(write_type).transpose()?,
            written: rule,
            counts: Mutex::new(Counts { shown: FaultCounts::default(), random: seed }),
        })
    }

    /// Returns how often it matched.
    pub fn counts(&self) -> FaultCounts {
        self.counts.lock().shown
    }

    /// Returns what a request meets, if the rule affects it, and counts the request.
    pub fn injected(&self, request: &FaultedRequest) -> Option<Injected> {
        if !self.matches(request) {
            return None;
        }
        let mut counts = self.counts.lock();
        counts.shown.matched += 1;
        let as_count = |n: Option<i32>| n.and_then(|n| u64::try_from(n).ok());
        let is_before = counts.shown.matched <= as_count(self.written.skip).unwrap_or(0);
        let is_after = as_count(self.written.times).is_some_and(|times| counts.shown.injected >= times);
        if is_before || is_after || !self.is_drawn(&mut counts) {
            return None;
        }
        counts.shown.injected += 1;
        drop(counts);
        let delay = as_count(self.written.delay_ms).map_or(Duration::ZERO, Duration::from_millis);
        Some(match self.effect {
            Effect::Latency => Injected { delay, ..Injected::default() },
            Effect::ShortPage => {
                let size = request.page_size.zip(self.written.page_size).map(|(asked, max)| asked.min(max));
                Injected { delay, page_size: size, ..Injected::default() }
            }
            _ => {
                let is_applied = self.written.applied == Some(true) || self.effect == Effect::CutResponse;
                Injected { delay, failure: Some(self.failure(request)), is_applied, page_size: None }
            }
        })
    }

    fn matches(&self, request: &FaultedRequest) -> bool {
        let rule = &self.written;
        let is_named = |(keyspace, table): &(String, String)| {
            rule.keyspace_name.as_ref().is_none_or(|name| name == keyspace)
                && rule.table_name.as_ref().is_none_or(|name| name == table)
        };
        let names_place = rule.keyspace_name.is_some() || rule.table_name.is_some();
        self.effect.applies_to(request)
            && is_kind(rule.kind.as_deref(), request)
            && (!names_place || request.tables.iter().any(is_named))
            && (!request.is_on_system() || rule.keyspace_name.is_some())
            && self
                .pattern
                .as_ref()
                .is_none_or(|pattern| request.texts.iter().any(|text| pattern.matches(text)))
            && self.client.is_none_or(|network| {
                request.client.is_some_and(|client| {
                    Cidr::new(client, i16::from(network.prefix_length())) == Some(network)
                })
            })
            && self.node.is_none_or(|node| node == request.node)
    }

    /// Draws a random number. The sequence of a rule is the same in each run.
    fn is_drawn(&self, counts: &mut Counts) -> bool {
        let Some(probability) = self.written.probability else { return true };
        // SplitMix64.
        counts.random = counts.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = counts.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 11) as f64 / (1_u64 << 53) as f64) < probability
    }

    fn failure(&self, request: &FaultedRequest) -> Failure {
        let rule = &self.written;
        // As in Cassandra: errors of the serial phase have its level.
        let is_serial = request.is_conditional && self.write_type.is_none_or(|name| name == "CAS");
        let own = if is_serial { request.serial_consistency } else { request.consistency };
        let consistency = self.consistency.unwrap_or(own);
        let required = rule.required.unwrap_or_else(|| of_three(consistency));
        let received = rule.received.unwrap_or((required - 1).max(0));
        let data_present = rule.data_present.unwrap_or(false);
        let failures = rule.failures.unwrap_or(1);
        let reason = u16::try_from(rule.failure_code.unwrap_or(0)).unwrap_or(0);
        let write_type = self.write_type.unwrap_or_else(|| request.write_type.name());
        let (error, message) = match self.effect {
            Effect::DropConnection => return Failure::DropConnection,
            Effect::CutResponse => return Failure::CutResponse,
            Effect::ReadTimeout => (
                FaultError::ReadTimeout { consistency, received, required, data_present },
                format!("Operation timed out - received only {received} responses."),
            ),
            Effect::WriteTimeout => (
                FaultError::WriteTimeout { consistency, received, required, write_type },
                format!("Operation timed out - received only {received} responses."),
            ),
            Effect::ReadFailure => (
                FaultError::ReadFailure { consistency, received, required, failures, reason, data_present },
                format!("Operation failed - received {received} responses and {failures} failures"),
            ),
            Effect::WriteFailure => (
                FaultError::WriteFailure { consistency, received, required, failures, reason, write_type },
                format!("Operation failed - received {received} responses and {failures} failures"),
            ),
            Effect::CasWriteUnknown => (
                FaultError::CasWriteUnknown { consistency, received, required },
                "CAS operation result is unknown - proposal accepted by ".to_owned()
                    + &format!("{received} but not a quorum."),
            ),
            Effect::Unavailable => {
                let alive = rule.alive.unwrap_or((required - 1).max(0));
                (
                    FaultError::Unavailable { consistency, required, alive },
                    format!("Cannot achieve consistency level {consistency}"),
                )
            }
            Effect::Overloaded => (FaultError::Overloaded, "Server is in overloaded state.".to_owned()),
            Effect::Bootstrapping => {
                (FaultError::Bootstrapping, "Cannot read from a bootstrapping node".to_owned())
            }
            Effect::TruncateError => (FaultError::TruncateError, "Error during truncate".to_owned()),
            Effect::ServerError | Effect::Latency | Effect::ShortPage => {
                (FaultError::ServerError, "Injected error".to_owned())
            }
        };
        let message = rule.message.clone().unwrap_or_else(|| format!("{message} (fault {})", rule.id));
        Failure::Error(error, message)
    }
}

fn check_numbers(rule: &FaultRule, effect: Effect) -> Result<()> {
    if let Some(probability) = rule.probability
        && !(0.0..=1.0).contains(&probability)
    {
        bail_invalid!("probability: expected 0 to 1, found {probability}");
    }
    for (name, value, range) in [
        ("times", rule.times, 0..=i32::MAX),
        ("skip", rule.skip, 0..=i32::MAX),
        ("delay_ms", rule.delay_ms, 0..=DELAY_MAX_MS),
        ("received", rule.received, 0..=REPLICAS_MAX),
        ("required", rule.required, 0..=REPLICAS_MAX),
        ("alive", rule.alive, 0..=REPLICAS_MAX),
        ("failures", rule.failures, 1..=REPLICAS_MAX),
        ("failure_code", rule.failure_code, 0..=i32::from(u16::MAX)),
        ("page_size", rule.page_size, 1..=i32::MAX),
    ] {
        if let Some(value) = value
            && !range.contains(&value)
        {
            bail_invalid!("{name}: expected {} to {}, found {value}", range.start(), range.end());
        }
    }
    match effect {
        Effect::Latency if rule.delay_ms.is_none() => {
            bail_invalid!("delay_ms: expected milliseconds for the effect latency, found null")
        }
        Effect::ShortPage if rule.page_size.is_none() => {
            bail_invalid!("page_size: expected rows for the effect short_page, found null")
        }
        _ => Ok(()),
    }
}

/// Whether a request is of a kind of [`KINDS`].
fn is_kind(kind: Option<&str>, request: &FaultedRequest) -> bool {
    use StatementClass as Class;
    let class = request.class;
    match kind {
        // Applications repeat a failed PREPARE by themselves, so it is affected only by its name.
        None => class != Class::Prepare,
        Some("read" | "select") => class == Class::Select,
        Some("write") => class.is_write(),
        Some("insert") => class == Class::Insert,
        Some("update") => class == Class::Update,
        Some("delete") => class == Class::Delete,
        Some("batch") => class == Class::Batch,
        Some("conditional") => class.is_write() && request.is_conditional,
        Some("counter") => class.is_write() && request.is_counter,
        Some("truncate") => class == Class::Truncate,
        Some("schema") => class == Class::Schema,
        Some("prepare") => class == Class::Prepare,
        Some(_) => false,
    }
}

fn network(text: &str) -> Result<Cidr> {
    let parsed = match text.parse::<IpAddr>() {
        Ok(address) => {
            let address = address.to_canonical();
            Cidr::new(address, if address.is_ipv4() { 32 } else { 128 })
        }
        Err(_) => Cidr::parse(text),
    };
    match parsed {
        Some(network) => Ok(network),
        None => bail_invalid!("client: expected an address or a CIDR such as 10.0.0.0/8, found {text}"),
    }
}

fn address(column: &str, text: &str) -> Result<IpAddr> {
    match text.parse() {
        Ok(address) => Ok(address),
        Err(_) => bail_invalid!("{column}: expected an address such as 127.0.0.1, found {text}"),
    }
}

fn level(text: &str) -> Result<Consistency> {
    let found = Consistency::ALL.into_iter().find(|level| level.to_string().eq_ignore_ascii_case(text));
    match found {
        Some(level) => Ok(level),
        None => {
            let names = Consistency::ALL.map(|level| level.to_string()).join(", ");
            bail_invalid!("consistency: expected one of {names}, found {text}")
        }
    }
}

fn write_type(text: &str) -> Result<&'static str> {
    match WRITE_TYPES.into_iter().find(|name| name.eq_ignore_ascii_case(text)) {
        Some(name) => Ok(name),
        None => bail_invalid!("write_type: expected one of {}, found {text}", WRITE_TYPES.join(", ")),
    }
}

/// Returns how many replicas of three a level needs.
fn of_three(level: Consistency) -> i32 {
    match level {
        Consistency::Any | Consistency::One | Consistency::LocalOne => 1,
        Consistency::Two
        | Consistency::Quorum
        | Consistency::LocalQuorum
        | Consistency::EachQuorum
        | Consistency::Serial
        | Consistency::LocalSerial => 2,
        Consistency::Three | Consistency::All => 3,
    }
}
