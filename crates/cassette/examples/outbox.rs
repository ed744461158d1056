//! An outbox: a message is in a CQL table if and only if the transaction that sends it has
//! committed.

use cassette::transactions::{Column, ConflictHandler, Error, Result, Transactions};
use cassette::{Database, Session, Statement};

fn main() -> Result<()> {
    run(Database::in_memory().expect("an empty database in memory"))
}

struct Shop {
    transactions: Transactions,
    stock: Column<String, i64>,
    next_message: Column<String, u64>,
    send: Statement,
}

impl Shop {
    fn open(database: Database, session: &Session) -> Result<Self> {
        for cql in [
            "CREATE KEYSPACE IF NOT EXISTS shop WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE IF NOT EXISTS shop.outbox (queue text, id bigint, message text, PRIMARY KEY (queue, id))",
        ] {
            session.execute(cql, ()).map_err(Error::Cql)?;
        }
        let send = session.prepare("INSERT INTO shop.outbox (queue, id, message) VALUES ('orders', ?, ?)");
        let transactions = Transactions::embedded(database, "shop_transactions")?;
        let tables = transactions.table("shop", ConflictHandler::WriteWriteByCell)?;
        Ok(Self {
            transactions,
            stock: tables.column("stock"),
            next_message: tables.column("next message"),
            send: send.map_err(Error::Cql)?,
        })
    }

    /// Orders pieces. The message is numbered by a cell of the transaction, so that no two
    /// transactions write the same one.
    fn order(&self, product: &str, pieces: i64) -> Result<()> {
        self.transactions.run(|tx| {
            let id = self.next_message.add(tx, "orders", 1)?;
            self.send_order(tx, id, product, pieces)?;
            if self.stock.add(tx, product, -pieces)? < 0 {
                return Err(Error::caller("not enough pieces"));
            }
            Ok(())
        })
    }

    fn send_order(
        &self,
        tx: &mut cassette::transactions::Transaction,
        id: u64,
        product: &str,
        pieces: i64,
    ) -> Result<()> {
        tx.execute(&self.send, (id as i64, format!("{pieces} {product}")))
    }
}

/// Orders twice, once more than there is, and delivers the messages.
pub fn run(database: Database) -> Result<()> {
    let session = database.session();
    let shop = Shop::open(database.clone(), &session)?;
    shop.transactions.run(|tx| shop.stock.put(tx, "chair", 10))?;
    shop.order("chair", 4)?;
    assert!(shop.order("chair", 7).is_err(), "there are six left");
    shop.order("chair", 6)?;

    // Another thread or process delivers what is in the outbox, then removes it.
    let messages = session.execute("SELECT id, message FROM shop.outbox WHERE queue = 'orders'", ());
    let messages: Vec<(i64, String)> =
        messages.and_then(|rows| rows.typed().collect()).map_err(Error::Cql)?;
    assert_eq!(messages, [(1, "4 chair".to_owned()), (2, "6 chair".to_owned())]);
    for (id, message) in messages {
        println!("delivered: {message}");
        let delivered = "DELETE FROM shop.outbox WHERE queue = 'orders' AND id = ?";
        session.execute(delivered, (id,)).map_err(Error::Cql)?;
    }
    Ok(())
}
