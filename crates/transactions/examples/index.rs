//! A maintained index: people by number, and the numbers of those who live in a city. No reader
//! ever finds an entry without its person, or a person without an entry.

use cassette_transactions::{Column, ConflictHandler, Index, Json, Result, Transactions};
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
    by_city: Index<String, u64>,
}

impl People {
    /// Opens the table and its index, creating them if needed.
    pub fn open(transactions: Transactions) -> Result<Self> {
        let person: Column<u64, Json<Person>> =
            transactions.table("people", ConflictHandler::WriteWriteByRow)?.column("person");
        let by_city = person.index("by city", |_, Json(person)| [person.city.clone()]).open(&transactions)?;
        by_city.build(&transactions)?;
        Ok(Self { transactions, person, by_city })
    }

    /// Adds or replaces a person. The entry of the previous city is removed.
    pub fn set(&self, number: u64, person: &Person) -> Result<()> {
        self.transactions.run(|tx| self.person.put(tx, number, person))
    }

    /// Returns all people of a city by their numbers.
    pub fn in_city(&self, city: &str) -> Result<Vec<Person>> {
        self.transactions.read(|tx| {
            let numbers: Vec<u64> = self.by_city.get(tx, city).collect::<Result<_>>()?;
            let people = self.person.get_many(tx, numbers)?;
            Ok(people.into_iter().flatten().map(|Json(person)| person).collect())
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
