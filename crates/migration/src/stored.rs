//! Digests of the token ranges of a directory, from its rows.

use std::path::Path;
use std::sync::Arc;

use cassette_database::Database;
use cassette_rows::merge::counter;
use cassette_rows::{ColumnId, PartitionStream, Row, TableMetadata, Token, Unfiltered, key};

use crate::cell::CellRef;
use crate::digest::{Digest, RowHashes};
use crate::endpoint::unreadable;
use crate::error::Result;
use crate::schema::{Column, Shape};
use crate::statements::Statements;
use crate::token_range::TokenRange;

/// A table of a database, whose rows are read without CQL. Its digests are those of selected rows.
pub struct StoredTable<'a> {
    database: &'a Database,
    path: &'a Path,
    table: Arc<TableMetadata>,
    statics: Columns<'a>,
    regulars: Columns<'a>,
}

/// The columns of a part, in the order of [`CellRef::column`].
type Columns<'a> = Vec<(ColumnId, &'a Shape)>;

impl<'a> StoredTable<'a> {
    /// Finds a table. `None` if a SELECT is necessary: with COMPACT STORAGE, rows that are stored
    /// differ from selected ones; and if the database does not have exactly these columns, the
    /// SELECT reports what is missing.
    pub fn find(database: &'a Database, path: &'a Path, statements: &'a Statements) -> Option<Self> {
        let table = database.catalog().table(&statements.table.keyspace, &statements.table.name)?.clone();
        if table.layout.is_compact() {
            return None;
        }
        let columns = |columns: &'a [Column]| -> Option<Columns<'a>> {
            let id = |column: &'a Column| Some((table.column(&column.name)?.id, &column.shape));
            columns.iter().map(id).collect()
        };
        let (statics, regulars) = (columns(statements.columns(true))?, columns(statements.columns(false))?);
        Some(Self { database, path, statics, regulars, table })
    }

    /// Computes the digest of a token range, with expirations as of `now`.
    ///
    /// # Errors
    /// If the files cannot be read.
    pub fn digest(&self, range: TokenRange, now: u32) -> Result<Digest> {
        let mut digest = Digest::default();
        let mut hashes = RowHashes::default();
        let failed = |error| unreadable(self.path, &error);
        let stream = self.database.stored_rows(&self.table, Token(range.0), Token(range.1));
        let mut stream = stream.map_err(|error| unreadable(self.path, &error))?;
        while let Some(header) = stream.next_partition().map_err(failed)? {
            let components = key::components(header.key.key(), self.table.partition_key.len());
            hashes.begin_partition(&components.unwrap_or_default());
            let statics = header.static_row.filter(|row| row.has_live_cell(now));
            if let Some(row) = &statics {
                add_cells(row, true, &self.statics, now, &mut hashes);
            }
            hashes.finish_statics(&mut digest);
            let before = digest.rows;
            while let Some(unfiltered) = stream.next_unfiltered().map_err(failed)? {
                let Unfiltered::Row(row) = unfiltered else { continue };
                if row.is_live_in(&self.table, now) {
                    digest.rows += 1;
                    add_cells(&row, false, &self.regulars, now, &mut hashes);
                    hashes.finish_row(row.clustering().values(), &mut digest);
                }
            }
            // A partition with nothing but static cells is a row of a SELECT.
            digest.rows += u64::from(digest.rows == before && statics.is_some());
        }
        Ok(digest)
    }
}

/// Adds the live cells of a row as a SELECT shows them: elements of lists, and fields, by their
/// index.
fn add_cells(row: &Row, is_static: bool, columns: &Columns<'_>, now: u32, hashes: &mut RowHashes) {
    for (column, (id, shape)) in columns.iter().enumerate() {
        for (at, cell) in row.cells_of(*id).filter(|cell| cell.is_live(now)).enumerate() {
            let index = match shape {
                Shape::List => u32::try_from(at).unwrap_or(u32::MAX),
                // The number of the field, u16.
                Shape::Udt(_) => cell
                    .path
                    .and_then(|path| path.try_into().ok())
                    .map_or(u32::MAX, |number| u16::from_be_bytes(number).into()),
                _ => 0,
            };
            let (index, total) = (index.to_be_bytes(), counter::total(cell.value).to_be_bytes());
            let (path, value) = match shape {
                Shape::Simple => (None, cell.value),
                Shape::Counter => (None, &total[..]),
                Shape::List | Shape::Udt(_) => (Some(&index[..]), cell.value),
                Shape::Set => (cell.path, &[][..]),
                Shape::Map => (cell.path, cell.value),
            };
            let is_counter = **shape == Shape::Counter;
            hashes.add_cell(
                is_static,
                CellRef {
                    column,
                    path,
                    value,
                    timestamp: if is_counter { 0 } else { cell.timestamp },
                    expires: cell.is_expiring().then_some(cell.local_deletion_time),
                },
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use cassette_database::Options;
    use cassette_vfs::FakeFileSystem;

    use super::*;
    use crate::endpoint::Session;
    use crate::schema::keyspace;
    use crate::verify::selected;

    const STATEMENTS: [&str; 22] = [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE ks.u (a int, b text, c frozen<list<int>>)",
        "CREATE TABLE ks.t (p int, q text, c int, d text, v text, \"W\" frozen<u>, s int STATIC, t set<int> STATIC, \
         m map<text, int>, e set<text>, f u, l list<int>, PRIMARY KEY ((p, q), c, d)) WITH CLUSTERING ORDER BY \
         (c DESC, d ASC)",
        "CREATE TABLE ks.n (k text, c int, s counter STATIC, a counter, b counter, PRIMARY KEY (k, c))",
        "CREATE TABLE ks.k (k int PRIMARY KEY)",
        "INSERT INTO ks.k (k) VALUES (1)",
        "INSERT INTO ks.t (p, q, c, d, v, l) VALUES (1, 'x', 1, 'y', 'text', [1, 2, 3]) USING TIMESTAMP 10",
        "UPDATE ks.t USING TIMESTAMP 11 AND TTL 900 SET m = m + {'a': 1, 'b': 2}, e = {'z', ''}, f.b = 'b' WHERE \
         p = 1 AND q = 'x' AND c = 1 AND d = 'y'",
        "UPDATE ks.t USING TIMESTAMP 12 SET f.c = [7], l = l + [4], v = null WHERE p = 1 AND q = 'x' AND c = 1 \
         AND d = 'y'",
        "DELETE m['a'], l[1] FROM ks.t WHERE p = 1 AND q = 'x' AND c = 1 AND d = 'y'",
        "INSERT INTO ks.t (p, q, c, d) VALUES (1, 'x', 2, '') USING TIMESTAMP 13 AND TTL 100",
        "UPDATE ks.t USING TTL 100 SET v = 'expires' WHERE p = 1 AND q = 'x' AND c = 3 AND d = 'only cells'",
        "INSERT INTO ks.t (p, q, s, t) VALUES (2, 'only static', 5, {3, 1})",
        "INSERT INTO ks.t (p, q, s) VALUES (3, 'expiring static', 5) USING TTL 100",
        "INSERT INTO ks.t (p, q, c, d, s, \"W\") VALUES (4, '', 1, 'd', 6, {a: 1, b: null})",
        "INSERT INTO ks.t (p, q, c, d, v) VALUES (4, '', 2, 'deleted', 'v')",
        "DELETE FROM ks.t WHERE p = 4 AND q = '' AND c > 1",
        "INSERT INTO ks.t (p, q, c, d, v) VALUES (5, 'deleted', 2, 'd', 'v')",
        "DELETE FROM ks.t WHERE p = 5 AND q = 'deleted'",
        "UPDATE ks.n SET a = a + 5, s = s - 2 WHERE k = 'x' AND c = 1",
        "UPDATE ks.n SET b = b + 1 WHERE k = 'y' AND c = 2",
        "UPDATE ks.n SET s = s + 1 WHERE k = 'z'",
    ];

    #[test]
    fn digests_of_stored_rows_are_those_of_selected_rows() {
        let mut options = Options::new("/data");
        options.file_system = Arc::new(FakeFileSystem::new());
        options.engine.background_threads = false;
        let database = Database::open(options).unwrap();
        let path = PathBuf::from("/data");
        let mut session = Session::Directory { database: &database, path: &path };
        for statement in STATEMENTS {
            session.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let written = crate::copy::now();
        let tables = keyspace(&mut session, "ks").unwrap().unwrap().tables;
        let mut seen = Vec::new();
        for table in tables {
            let statements = Statements::new(table);
            let stored = StoredTable::find(&database, &path, &statements).unwrap();
            // Before and after the expiration of the cells with a TTL of 100 seconds, and of all.
            for now in [written, written + 200, written + 2_000] {
                for part in (0..3).map(|part| TokenRange::part(part, 3)) {
                    let found = stored.digest(part, now).unwrap();
                    let name = &statements.table.name;
                    assert_eq!(
                        found,
                        selected(&mut session, &statements, part, now).unwrap(),
                        "{name} {now}"
                    );
                    seen.push(found);
                }
            }
            database.flush().unwrap();
        }
        let rows: u64 = seen.iter().map(|digest| digest.rows).sum();
        assert!(rows > 20, "{rows} rows");
    }
}
