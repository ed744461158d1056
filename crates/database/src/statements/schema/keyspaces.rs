//! CREATE, ALTER and DROP KEYSPACE.

use std::collections::BTreeMap;

use cassette_cql::ast::{AlterKeyspace, CreateKeyspace, DropKeyspace, Properties};

use super::{Change, KeyspaceChange, SchemaContext};
use crate::basics::error::{DatabaseError, Result, bail_config, bail_invalid};
use crate::basics::response::{SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use crate::schema::catalog::{Keyspace, KeyspaceKind, KeyspaceParams, Replication};
use crate::schema::options::properties::{Attributes, Entries};
use crate::schema::options::replication;

const OPTIONS: [&str; 2] = ["durable_writes", "replication"];

pub(crate) fn create(statement: &CreateKeyspace, cx: &SchemaContext<'_>) -> Result<Option<Change>> {
    let name = statement.name.as_str();
    let attributes = read_attributes(&statement.properties)?;
    let Some(entries) = attributes.map("replication")? else {
        bail_invalid!("Missing mandatory option 'replication'");
    };
    guard_class(entries, cx)?;
    cx.guard.new_keyspace(name, cx.catalog)?;
    if cx.catalog.keyspace(name).is_some() {
        if statement.if_not_exists {
            return Ok(None);
        }
        return Err(DatabaseError::AlreadyExists { keyspace: name.to_owned(), table: String::new() });
    }
    if entries.is_empty() {
        bail_config!("Missing replication strategy class");
    }
    let durable_writes = attributes.boolean("durable_writes")?.unwrap_or(true);
    let replication = replication::parse(name, entries, &BTreeMap::new(), &cx.data_centers)?;
    guard_replicas(name, &replication, cx)?;
    let warnings = replication::warnings(name, &replication, &cx.data_centers);
    let params = KeyspaceParams { durable_writes, replication };
    Ok(Some(Change {
        keyspace: KeyspaceChange::Put(Keyspace::new(name, KeyspaceKind::User, params)),
        event: event(SchemaChangeKind::Created, name),
        warnings,
    }))
}

pub(crate) fn alter(statement: &AlterKeyspace, cx: &SchemaContext<'_>) -> Result<Option<Change>> {
    let name = statement.name.as_str();
    let attributes = read_attributes(&statement.properties)?;
    if let Some(entries) = attributes.map("replication")? {
        guard_class(entries, cx)?;
    }
    let Some(keyspace) = cx.catalog.keyspace(name) else {
        return missing(name, statement.if_exists);
    };
    let before = &keyspace.params;
    let durable_writes = attributes.boolean("durable_writes")?.unwrap_or(before.durable_writes);
    let mut warnings = Vec::new();
    let replication = match attributes.map("replication")? {
        Some(entries) if !entries.is_empty() => {
            let replication =
                replication::parse(name, entries, &before.replication.options, &cx.data_centers)?;
            // System keyspaces have more replicas than most clusters have nodes.
            if keyspace.kind == KeyspaceKind::User {
                warnings = replication::warnings(name, &replication, &cx.data_centers);
            }
            replication
        }
        _ => before.replication.clone(),
    };
    if keyspace.kind == KeyspaceKind::User {
        guard_replicas(name, &replication, cx)?;
    }
    if grows(&before.replication, &replication) {
        warnings.push(
            "When increasing replication factor you need to run a full (-full) repair to distribute the data."
                .to_owned(),
        );
    }
    let params = KeyspaceParams { durable_writes, replication };
    if params == *before && keyspace.is_stored {
        return Ok(None);
    }
    Ok(Some(Change {
        keyspace: KeyspaceChange::Put(Keyspace { params, ..(**keyspace).clone() }),
        event: event(SchemaChangeKind::Updated, name),
        warnings,
    }))
}

pub(crate) fn drop(statement: &DropKeyspace, cx: &SchemaContext<'_>) -> Result<Option<Change>> {
    let name = statement.name.as_str();
    cx.guard.drop_keyspace()?;
    if cx.catalog.keyspace(name).is_none() {
        return missing(name, statement.if_exists);
    }
    Ok(Some(Change {
        keyspace: KeyspaceChange::Drop(name.to_owned()),
        event: event(SchemaChangeKind::Dropped, name),
        warnings: Vec::new(),
    }))
}

/// Rejects SimpleStrategy if the guardrail does. Checked first, as in Cassandra.
fn guard_class(entries: &Entries, cx: &SchemaContext<'_>) -> Result<()> {
    let is_simple = |(key, class): &(Box<str>, Box<str>)| {
        **key == *"class" && class.rsplit('.').next() == Some("SimpleStrategy")
    };
    if entries.iter().any(is_simple) { cx.guard.simple_strategy() } else { Ok(()) }
}

fn guard_replicas(name: &str, replication: &Replication, cx: &SchemaContext<'_>) -> Result<()> {
    cx.guard.replication(name, replication::factors(replication))
}

fn read_attributes(properties: &Properties) -> Result<Attributes<'_>> {
    let attributes = Attributes(properties);
    attributes.refuse_unknown(&OPTIONS)?;
    if let Some(entries) = attributes.map("replication")?
        && !entries.is_empty()
        && !entries.iter().any(|(key, _)| **key == *"class")
    {
        bail_config!("Missing replication strategy class");
    }
    Ok(attributes)
}

fn missing(name: &str, if_exists: bool) -> Result<Option<Change>> {
    if if_exists { Ok(None) } else { bail_invalid!("Keyspace '{name}' doesn't exist") }
}

fn grows(before: &Replication, after: &Replication) -> bool {
    replication::total_factor(before) < replication::total_factor(after)
}

fn event(kind: SchemaChangeKind, keyspace: &str) -> SchemaChange {
    SchemaChange {
        kind,
        target: SchemaChangeTarget::Keyspace,
        keyspace: keyspace.to_owned(),
        name: String::new(),
        arguments: Vec::new(),
    }
}
