//! Digests of the token ranges of a directory, from its rows, and which files these are in.

use std::path::Path;
use std::sync::Arc;

use cassette_database::Database;
use cassette_rows::merge::counter;
use cassette_rows::{
    Cell, ColumnId, ColumnMetadata, PartitionStream, Row, TableMetadata, Token, Unfiltered, key,
};

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

/// The columns of a part of a row.
struct Columns<'a> {
    /// In the order of [`CellRef::column`].
    columns: Vec<(ColumnId, &'a Shape)>,
    /// Whether their ids ascend, as those of the cells of a row do.
    ascend: bool,
}

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
            let columns: Vec<_> = columns.iter().map(id).collect::<Option<_>>()?;
            Some(Columns { ascend: columns.is_sorted_by_key(|(id, _)| *id), columns })
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

    /// Returns whether the rows of a token range are in the same files as those of a table of
    /// another directory, which has links to them. Then both have equal digests.
    ///
    /// # Errors
    /// If a table is damaged.
    pub fn shares_files(&self, other: &StoredTable<'_>, range: TokenRange) -> Result<bool> {
        let files = |table: &StoredTable<'_>| {
            let found = table.database.stored_files(&table.table, Token(range.0), Token(range.1));
            found.map_err(|error| unreadable(table.path, &error))
        };
        if !has_columns_of(&self.table, &other.table) {
            return Ok(false);
        }
        let own = files(self)?;
        Ok(own.is_some() && own == files(other)?)
    }
}

/// Returns whether equal files have equal rows in both tables. Column ids and masks do not matter.
fn has_columns_of(one: &TableMetadata, other: &TableMetadata) -> bool {
    let is_same = |column: &Arc<ColumnMetadata>| {
        other.column(&column.name).is_some_and(|found| {
            (found.kind, found.position, found.reversed, &found.data_type)
                == (column.kind, column.position, column.reversed, &column.data_type)
        })
    };
    one.layout == other.layout
        && one.dropped_columns == other.dropped_columns
        && one.all_columns().count() == other.all_columns().count()
        && one.all_columns().all(is_same)
}

/// Adds the live cells of a row as a SELECT shows them: elements of lists, and fields, by their
/// index.
fn add_cells(row: &Row, is_static: bool, columns: &Columns<'_>, now: u32, hashes: &mut RowHashes) {
    if !columns.ascend {
        for (column, (id, shape)) in columns.columns.iter().enumerate() {
            for (at, cell) in row.cells_of(*id).filter(|cell| cell.is_live(now)).enumerate() {
                add_cell(&cell, at, is_static, (column, shape), hashes);
            }
        }
        return;
    }
    let columns = &columns.columns;
    let (mut column, mut at) = (0, 0);
    for cell in row.cells() {
        while columns.get(column).is_some_and(|(id, _)| *id < cell.column) {
            (column, at) = (column + 1, 0);
        }
        let Some((id, shape)) = columns.get(column) else { break };
        if *id == cell.column && cell.is_live(now) {
            add_cell(&cell, at, is_static, (column, shape), hashes);
            at += 1;
        }
    }
}

/// Adds live cell number `at` of a column.
#[inline]
fn add_cell(
    cell: &Cell<'_>,
    at: usize,
    is_static: bool,
    (column, shape): (usize, &Shape),
    hashes: &mut RowHashes,
) {
    let expires = cell.is_expiring().then_some(cell.local_deletion_time);
    let mut add = |path: Option<&[u8]>, value: &[u8], timestamp| {
        hashes.add_cell(is_static, CellRef { column, path, value, timestamp, expires });
    };
    match shape {
        Shape::Simple => add(None, cell.value, cell.timestamp),
        Shape::Counter => add(None, &counter::total(cell.value).to_be_bytes(), 0),
        Shape::Set => add(cell.path, &[], cell.timestamp),
        Shape::Map => add(cell.path, cell.value, cell.timestamp),
        Shape::List => {
            let index = u32::try_from(at).unwrap_or(u32::MAX);
            add(Some(&index.to_be_bytes()), cell.value, cell.timestamp);
        }
        Shape::Udt(_) => {
            // The number of the field, u16.
            let number = cell.path.and_then(|path| path.try_into().ok()).map(u16::from_be_bytes);
            let index = number.map_or(u32::MAX, u32::from);
            add(Some(&index.to_be_bytes()), cell.value, cell.timestamp);
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

    /// Copies a data directory with links to its Data files.
    fn copy_with_links(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let (path, target) = (entry.path(), to.join(entry.file_name()));
            if path.is_dir() {
                copy_with_links(&path, &target);
            } else if path.to_str().unwrap().ends_with("-Data.db") {
                std::fs::hard_link(path, target).unwrap();
            } else {
                std::fs::copy(path, target).unwrap();
            }
        }
    }

    #[test]
    fn rows_are_shared_as_long_as_both_directories_have_the_same_files_and_columns() {
        let directory = tempfile::TempDir::new().unwrap();
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        let open = |path: &Path| {
            let mut options = Options::new(path);
            options.engine.background_threads = false;
            Database::open(options).unwrap()
        };
        let execute = |database: &Database, path: &PathBuf, statement: &str| {
            Session::Directory { database, path }.query(statement).unwrap();
        };
        let database = open(&one);
        execute(&database, &one, STATEMENTS[0]);
        execute(&database, &one, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
        for key in 0..20 {
            execute(&database, &one, &format!("INSERT INTO ks.t (k, v) VALUES ({key}, 'v')"));
        }
        database.flush().unwrap();
        database.close().unwrap();
        copy_with_links(&one, &other);

        let read_only = Database::open_read_only(&one).unwrap();
        let mut session = Session::Directory { database: &read_only, path: &one };
        let tables = keyspace(&mut session, "ks").unwrap().unwrap().tables;
        let statements = Statements::new(tables[0].clone());
        let source = StoredTable::find(&read_only, &one, &statements).unwrap();
        let whole = TokenRange::part(0, 1);
        let is_shared = |database: &Database| {
            let target = StoredTable::find(database, &other, &statements).unwrap();
            source.shares_files(&target, whole).unwrap()
        };
        assert!(is_shared(&Database::open_read_only(&other).unwrap()));

        let database = open(&other);
        assert!(is_shared(&database));
        execute(&database, &other, "INSERT INTO ks.t (k, v) VALUES (3, 'newer')");
        assert!(!is_shared(&database), "a memtable has a row");
        database.flush().unwrap();
        assert!(!is_shared(&database), "an SSTable is not shared");
        database.close().unwrap();

        // The same files, in which one table hides a column.
        std::fs::remove_dir_all(&other).unwrap();
        copy_with_links(&one, &other);
        let database = open(&other);
        execute(&database, &other, "ALTER TABLE ks.t DROP v");
        execute(&database, &other, "ALTER TABLE ks.t ADD v text");
        assert!(!is_shared(&database), "a column was dropped");
    }
}
