//! The rules of injected faults at the admin endpoint.

use cassette_admin_api::{FaultParameter, FaultReport, FaultRule, Refused};
use cassette_database::{self as db, FaultValue, Faults};

use super::Admin;

/// Reports the rules and how often they matched.
pub(super) fn list(admin: &Admin) -> Result<Vec<FaultReport>, Refused> {
    let report = |(rule, counts): (db::FaultRule, db::FaultCounts)| {
        let columns = rule.values().into_iter().map(|(name, value)| {
            let parameter = match value {
                FaultValue::Text(text) => FaultParameter::Text(text),
                FaultValue::Int(value) => FaultParameter::Int(value),
                FaultValue::Double(value) => FaultParameter::Double(value),
                FaultValue::Boolean(value) => FaultParameter::Boolean(value),
            };
            (name.to_owned(), Some(parameter))
        });
        FaultReport {
            matched: counts.matched,
            injected: counts.injected,
            rule: FaultRule { columns: columns.collect(), id: rule.id },
        }
    };
    Ok(of(admin)?.list().into_iter().map(report).collect())
}

/// Adds a rule, or replaces the one with its id.
pub(super) fn put(admin: &Admin, asked: &FaultRule) -> Result<(), Refused> {
    let faults = of(admin)?;
    let mut rule = db::FaultRule { id: asked.id.clone(), ..db::FaultRule::default() };
    for (name, parameter) in &asked.columns {
        let Some(parameter) = parameter else { continue };
        let value = match parameter {
            FaultParameter::Text(text) => FaultValue::Text(text.clone()),
            FaultParameter::Int(value) => FaultValue::Int(*value),
            FaultParameter::Double(value) => FaultValue::Double(*value),
            FaultParameter::Boolean(value) => FaultValue::Boolean(*value),
        };
        // JSON writes 1.0 as 1, too.
        let as_double = match value {
            FaultValue::Int(value) => Some(FaultValue::Double(value.into())),
            _ => None,
        };
        if !rule.set(name, Some(value)) && !as_double.is_some_and(|value| rule.set(name, Some(value))) {
            return Err(Refused::wrong_use(format!(
                "{name}: expected a column of system_testing.cassette_faults and a value of its type"
            )));
        }
    }
    faults.put(rule).map_err(|error| Refused::wrong_use(error.to_string()))
}

/// Removes a rule.
pub(super) fn remove(admin: &Admin, id: &str) -> Result<(), Refused> {
    if of(admin)?.remove(id) { Ok(()) } else { Err(Refused::invalid(format!("there is no fault {id}"))) }
}

/// Removes all rules.
pub(super) fn clear(admin: &Admin) -> Result<(), Refused> {
    of(admin).map(Faults::clear)
}

fn of(admin: &Admin) -> Result<&Faults, Refused> {
    admin.database.faults().ok_or_else(|| {
        Refused::invalid("faults cannot be injected: start the server with --fault-injection, for tests only")
    })
}
