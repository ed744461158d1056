//! Records of the commit log with right checksums: what replay decodes of a segment whose framing
//! is whole.
//!
//! ```text
//! u8 the table of a record of the base log
//! u16 the length of the table's dictionary, big-endian
//! the dictionary, the record
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_database::{Database, Position};
use cassette_engine::commitlog::{
    self, CommitLog, CommitLogOptions, Entry, ReadOptions, Record, TableVersion,
};
use cassette_vfs::{Clock, FakeFileSystem, FileSystem};

use super::split;
use crate::Target;
use crate::subjects::{DATA, World, clock, options};

pub const TARGET: Target = Target { name: "mutations", run, seeds, words: &[], inputs: 80 };

struct Base {
    /// The data directory without its log.
    files: FakeFileSystem,
    /// The records of the log, one of each shape, with the dictionaries of their tables.
    records: Vec<(TableVersion, Vec<u8>, Vec<u8>)>,
}

struct Raw<'a> {
    tables: [TableVersion; 1],
    dictionary: &'a [u8],
    content: &'a [u8],
}

impl Record for Raw<'_> {
    fn tables(&self) -> &[TableVersion] {
        &self.tables
    }

    fn encode_dictionary(&self, _: TableVersion, out: &mut Vec<u8>) {
        out.extend_from_slice(self.dictionary);
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.content);
    }

    fn size_hint(&self) -> usize {
        self.content.len()
    }
}

fn log() -> PathBuf {
    Path::new(DATA).join("commitlog")
}

fn run(input: &[u8]) {
    let (number, rest) = split(input);
    let Some((length, rest)) = rest.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
    let (dictionary, content) = rest.split_at(length);
    BASE.with(|base| {
        let table = base.records[usize::from(number) % base.records.len()].0;
        let (files, clock) = (Arc::new(base.files.fork()), clock());
        let log_options =
            CommitLogOptions { segment_size: 1 << 20, threads: false, ..CommitLogOptions::default() };
        let opened = CommitLog::open(files.clone(), clock.clone(), &log(), log_options, &mut |_| Ok(()));
        let (log, _) = opened.unwrap();
        let appended = log.append(&Raw { tables: [table], dictionary, content });
        log.close().unwrap();
        if appended.is_err() {
            return;
        }
        let mut options = options(&files, &clock);
        options.engine.cdc.enabled = true;
        if let Ok(database) = Database::open(options) {
            let mut stream = database.change_stream(Position::ZERO);
            while let Ok(Some(record)) = stream.next_record() {
                assert!(!record.changes.is_empty());
            }
            drop(database.session().execute("SELECT * FROM ks.t", ()));
            drop(database.session().execute("SELECT * FROM ks.v", ()));
            drop(database.close());
        }
    });
}

thread_local! {
    static BASE: Base = base();
}

fn base() -> Base {
    let mut world = World::new();
    world.database.engine().flush(None).unwrap();
    world.run("INSERT INTO t (p, c, v, s, l, m) VALUES (1, 100, 'text', 1, [1, 2], {'a': 1}) USING TTL 100");
    world.run("DELETE FROM t WHERE p = 1 AND c > 3 AND c < 7");
    world.run("DELETE FROM t WHERE p = 2");
    world.run("DELETE l[0], m['a'] FROM t WHERE p = 1 AND c = 1");
    world.run("UPDATE n SET n = n + 5 WHERE p = 'a' AND c = 2fe56d00-0d4b-11ef-8000-010203040506");
    world
        .run("INSERT INTO v (k, c19, c21, c23, c24) VALUES (1, [1, 2], {'a': 1}, {a: 1, b: 'x'}, [1, 2, 3])");
    world.run(
        "CREATE TABLE captured (p int, q text, c frozen<u>, v map<int, text>, s int STATIC, \
               PRIMARY KEY ((p, q), c)) WITH CLUSTERING ORDER BY (c DESC) AND cdc = true",
    );
    world.run("INSERT INTO captured (p, q, c, v, s) VALUES (1, 'q', {a: 1}, {1: 'a'}, 2) USING TTL 100");
    world.run("DELETE FROM captured WHERE p = 1 AND q = 'q' AND c > {a: 2}");
    world.run("CREATE TYPE w (a int)");
    let files = world.files.kill();
    let mut dictionaries: Vec<(TableVersion, Vec<u8>)> = Vec::new();
    let mut records = Vec::new();
    let (shared, clock): (Arc<dyn FileSystem>, Arc<dyn Clock>) = (Arc::new(files.clone()), clock());
    commitlog::read(&shared, &clock, &log(), &ReadOptions::default(), &mut |entry| {
        match entry {
            Entry::Dictionary { table, content } => dictionaries.push((table, content.to_vec())),
            Entry::Record { tables: [table], content, .. } => {
                let dictionary = dictionaries.iter().rev().find(|(of, _)| of == table);
                let dictionary = dictionary.map(|(_, content)| content.clone()).unwrap_or_default();
                records.push((*table, dictionary, content.to_vec()));
            }
            Entry::Record { .. } => {}
        }
        Ok(())
    })
    .unwrap();
    for entry in files.read_dir(&log()).unwrap() {
        files.remove_file(&log().join(entry.name)).unwrap();
    }
    // The last ones are those written above.
    let records = records.split_off(records.len().saturating_sub(24));
    Base { files, records }
}

fn seeds() -> Vec<Vec<u8>> {
    BASE.with(|base| {
        let records = base.records.iter().enumerate();
        let seed = |(number, (_, dictionary, content)): (usize, &(TableVersion, Vec<u8>, Vec<u8>))| {
            [&[number as u8], &(dictionary.len() as u16).to_be_bytes()[..], dictionary, content].concat()
        };
        records.map(seed).collect()
    })
}
