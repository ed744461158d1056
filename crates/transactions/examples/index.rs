//! A maintained index: people by number, and the numbers of those who live in a city. Both change
//! in one transaction, so no reader ever finds an entry without its person, or a person without an
//! entry.

use cassette_transactions::{Column, Columns, ConflictHandler, Json, Result, Transactions};
use serde::{Deserialize, Serialize};

/// A person, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Person {
    name: String,
    city: String,
}

/// People by number, and their numbers by city.
pub struct People {
    transactions: Transactions,
    person: Column<u64, Json<Person>>,
    by_city: Columns<String, u64, ()>,
}

impl People {
    /// Opens the tables, creating them if needed.
    pub fn open(transactions: Transactions) -> Result<Self> {
        let person = transactions.table("people", ConflictHandler::WriteWriteByRow)?.column("person");
        // A transaction that writes an entry also writes the person, which conflicts already.
        let by_city = transactions.table("people_by_city", ConflictHandler::Ignore)?.columns();
        Ok(Self { transactions, person, by_city })
    }

    /// Adds or replaces a person, and removes the index entry of the previous city.
    pub fn set(&self, number: u64, person: &Person) -> Result<()> {
        self.transactions.run(|tx| {
            if let Some(Json(before)) = self.person.get(tx, number)? {
                self.by_city.delete(tx, &before.city, number)?;
            }
            self.person.put(tx, number, person)?;
            self.by_city.put(tx, &person.city, number, ())
        })
    }

    /// Returns all people of a city by their numbers.
    pub fn in_city(&self, city: &str) -> Result<Vec<Person>> {
        self.transactions.read(|tx| {
            let mut found = Vec::new();
            for (number, ()) in self.by_city.range(tx, city, .., usize::MAX)? {
                let person = self.person.get(tx, number)?;
                found.extend(person.map(|Json(person)| person));
            }
            Ok(found)
        })
    }
}

/// Moves a person back and forth while another thread reads.
pub fn run(transactions: Transactions) -> Result<()> {
    let people = People::open(transactions)?;
    let person = |name: &str, city: &str| Person { name: name.to_owned(), city: city.to_owned() };
    people.set(1, &person("Ada", "London"))?;
    people.set(2, &person("Grace", "New York"))?;
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            (0..20)
                .try_for_each(|n| people.set(1, &person("Ada", if n % 2 == 0 { "Turin" } else { "London" })))
        });
        while !mover.is_finished() {
            for city in ["London", "Turin"] {
                let found = people.in_city(city)?;
                assert!(found.iter().all(|person| person.city == city), "{found:?}");
            }
        }
        mover.join().expect("it does not panic")
    })?;
    people.set(2, &person("Grace", "London"))?;
    assert_eq!(people.in_city("London")?, [person("Ada", "London"), person("Grace", "London")]);
    assert_eq!(people.in_city("New York")?, []);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let database = cassette_database::Database::open(directory.path())?;
    Ok(run(Transactions::embedded(database, "people")?)?)
}
