//! Rust values in and out: collections, nulls, and columns that an update leaves as they are.

use std::collections::BTreeSet;

use cassette::{Database, FromRow, MaybeUnset, Result};

#[derive(FromRow)]
struct Book {
    title: String,
    year: Option<i32>,
    tags: BTreeSet<String>,
}

fn main() -> Result<()> {
    run(Database::in_memory()?)
}

/// Writes and updates a book.
pub fn run(database: Database) -> Result<()> {
    let session = database.session();
    session.execute(
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        (),
    )?;
    session.execute("USE shop", ())?;
    session
        .execute("CREATE TABLE books (isbn text PRIMARY KEY, title text, year int, tags set<text>)", ())?;
    let insert = "INSERT INTO books (isbn, title, year, tags) VALUES (?, ?, ?, ?)";
    let tags = BTreeSet::from(["computing", "history"]);
    session.execute(insert, ("1", "Notes", 1843, &tags))?;

    // `None` deletes the year; an omitted value leaves title and tags as they are, and writes no
    // tombstone.
    let title: MaybeUnset<&str> = MaybeUnset::Unset;
    let kept: MaybeUnset<Vec<&str>> = MaybeUnset::Unset;
    session.execute(insert, ("1", title, None::<i32>, kept))?;

    let rows = session.execute("SELECT title, year, tags FROM books", ())?;
    for book in rows.typed::<Book>() {
        let Book { title, year, tags } = book?;
        assert_eq!((title.as_str(), year, tags.len()), ("Notes", None, 2));
        println!("{title} {year:?} {tags:?}");
    }
    Ok(())
}
