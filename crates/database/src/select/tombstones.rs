//! `tombstone_warn_threshold` and `tombstone_failure_threshold`: how many tombstones one read may scan.

use std::fmt::Write as _;

use cassette_cql::values::text::to_literal;
use cassette_rows::{ColumnKind, DecoratedKey, Token, key};

use super::reader::{Reader, Seen};
use crate::catalog::KeyspaceKind;
use crate::error::DatabaseError;
use crate::guardrails::Key;

impl Reader<'_, '_> {
    /// Returns how many tombstones a read may scan: `u64::MAX` for any number, as in the database's own tables.
    pub(super) fn tombstones_max(&self) -> u64 {
        let execution = self.execution;
        let keyspace = execution.catalog.keyspace(&self.plan.table.keyspace);
        match keyspace.is_some_and(|keyspace| keyspace.kind == KeyspaceKind::Local) {
            true => u64::MAX,
            false => u64::try_from(execution.guard().value(Key::TombstoneFailure)).unwrap_or(u64::MAX),
        }
    }

    /// The error of a read that scanned more tombstones than it may, the last ones at `token`.
    #[cold]
    pub(super) fn too_many_tombstones(&self, seen: &Seen, token: Token) -> DatabaseError {
        let message = format!(
            "Scanned over {} tombstones during query '{}' (last scanned row token was {}); query aborted (see \
             tombstone_failure_threshold)",
            seen.tombstones,
            self.query(None),
            token.0
        );
        self.execution.guard().log("tombstone_failure_threshold", &message);
        DatabaseError::TooManyTombstones {
            consistency: self.execution.options.consistency,
            address: self.execution.database.node().address,
        }
    }

    /// Warns if a read scanned many tombstones. `key` is the partition of a read of one.
    #[inline]
    pub(super) fn warn_of_tombstones(&self, seen: &Seen, key: Option<&DecoratedKey>) {
        let limit = self.execution.guard().value(Key::TombstoneWarn);
        if seen.tombstones > u64::try_from(limit).unwrap_or(u64::MAX) {
            self.tombstone_warning(seen, key);
        }
    }

    #[cold]
    fn tombstone_warning(&self, seen: &Seen, key: Option<&DecoratedKey>) {
        if self.tombstones_max() == u64::MAX {
            return;
        }
        let mut message = format!(
            "Read {} live rows and {} tombstone cells for query {}",
            seen.live_rows,
            seen.tombstones,
            self.query(key)
        );
        if let Some(token) = key.map(DecoratedKey::token).or(seen.last) {
            let _ = write!(message, "; token {}", token.0);
        }
        self.execution.guard().warn("tombstone_warn_threshold", message + " (see tombstone_warn_threshold)");
    }

    /// The query in the form of Cassandra's warnings, without restrictions of rows.
    fn query(&self, partition: Option<&DecoratedKey>) -> String {
        let table = &self.plan.table;
        let stored = self.plan.metadata.columns.iter().filter(|selected| {
            let kind = table.column(&selected.name).map(|column| column.kind);
            matches!(kind, Some(ColumnKind::Static | ColumnKind::Regular))
        });
        let names: Vec<&str> = stored.map(|selected| &*selected.name).collect();
        let all = table.static_columns().count() + table.regular_columns().count();
        let columns = match names.len() {
            0 => "*".to_owned(),
            count if count == all => "*".to_owned(),
            _ => names.join(", "),
        };
        let mut query = format!("SELECT {columns} FROM {}", table.qualified_name());
        let components =
            partition.and_then(|partition| key::components(partition.key(), table.partition_key.len()));
        for (at, (column, value)) in
            table.partition_key.iter().zip(components.into_iter().flatten()).enumerate()
        {
            let keyword = if at == 0 { "WHERE" } else { "AND" };
            let _ =
                write!(query, " {keyword} {} = {}", column.name, to_literal(&column.data_type, Some(value)));
        }
        let options = self.execution.options;
        let page = options.page_size.and_then(|size| u32::try_from(size).ok()).filter(|size| *size > 0);
        let total = self.plan.limits.bind(self.execution, None).ok().and_then(|limits| limits.total());
        if let Some(limit) = page.into_iter().chain(total).min() {
            let _ = write!(query, " LIMIT {limit}");
        }
        query + " ALLOW FILTERING"
    }
}
