//! Measurements by sensor and time, newest first, which expire after a day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cassette::{Database, Result};

fn main() -> Result<()> {
    run(Database::in_memory()?)
}

/// Writes measurements and reads the newest.
pub fn run(database: Database) -> Result<()> {
    let session = database.session();
    session.execute(
        "CREATE KEYSPACE plant WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        (),
    )?;
    session.execute(
        "CREATE TABLE plant.measurements (sensor text, at timestamp, celsius double, PRIMARY KEY (sensor, at)) \
         WITH CLUSTERING ORDER BY (at DESC) AND default_time_to_live = 86400 \
         AND compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'HOURS'}",
        (),
    )?;
    let insert = session.prepare("INSERT INTO plant.measurements (sensor, at, celsius) VALUES (?, ?, ?)")?;
    let start = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for minute in 0..60_u32 {
        let at = start + Duration::from_secs(60) * minute;
        session.execute(&insert, ("boiler", at, 60.0 + f64::from(minute) / 2.0))?;
    }
    let newest = "SELECT at, celsius, TTL(celsius) FROM plant.measurements WHERE sensor = ? LIMIT 1";
    let (at, celsius, ttl) = session.query_one::<(SystemTime, f64, i32)>(newest, ("boiler",))?;
    assert_eq!((at, celsius), (start + Duration::from_secs(59 * 60), 89.5));
    assert!(ttl > 0 && ttl <= 86_400);
    println!("{celsius} °C, kept for {ttl} s more");
    Ok(())
}
