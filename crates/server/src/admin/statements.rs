//! Running statements, which operators can cancel, and queries of the dashboard.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cassette_admin_api::{
    Done, QueryAnswer, QueryColumn, QueryRequest, RefusalKind, Refused, RunningStatementReport,
};
use cassette_cql::Statement;
use cassette_database::{Caller, DatabaseError, Outcome, ResultMetadata, RowSink, StatementOptions, Values};

use super::Admin;
use super::access::{OfConnection, Requester};

/// The maximum number of rows of an answer.
const ROWS_MAX: i32 = 200;

/// The maximum bytes of the values of an answer, after which its page ends.
const BYTES_MAX: usize = 1 << 20;

/// The longest value that is shown, in bytes; of longer ones the answer has the length.
const VALUE_MAX: usize = 4 << 10;

/// The maximum number of queries that run at the same time: the threads of the endpoint must stay
/// available for operations.
const QUERIES_MAX: usize = 2;

/// Reports the statements that run on request threads or wait for one, the longest first.
pub(super) fn running(admin: &Admin) -> Vec<RunningStatementReport> {
    let mut running = admin.server.running_requests();
    running.sort_by_key(|request| std::cmp::Reverse(request.queued + request.running));
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let report = |request: cassette_database::RunningRequest| RunningStatementReport {
        id: request.id,
        text: request.description,
        queued_millis: millis(request.queued),
        running_millis: millis(request.running),
    };
    running.into_iter().map(report).collect()
}

/// Interrupts a running statement. One that has begun to write is completed.
pub(super) fn cancel(admin: &Admin, id: u64) -> Result<Done, Refused> {
    match admin.server.cancel_request(id) {
        Some(text) => Ok(Done { messages: vec![format!("cancelled: {text}")] }),
        None => {
            let error = format!("statement {id} does not run any more");
            Err(Refused { error, kind: RefusalKind::NotFound })
        }
    }
}

/// Executes a statement that only reads, with the permissions of the role that asks.
pub(super) fn query(
    admin: &Arc<Admin>,
    connection: &OfConnection,
    requester: &Requester,
    request: &QueryRequest,
) -> Result<QueryAnswer, Refused> {
    let caller = caller(admin, requester)?;
    check_reads(&request.statement)?;
    let _running = QueryPermit::new(&admin.queries)?;
    let options = StatementOptions {
        page_size: Some(ROWS_MAX),
        keyspace: request.keyspace.clone().filter(|name| !name.is_empty()),
        caller,
        client_address: connection.peer.address,
        ..StatementOptions::default()
    };
    let began = Instant::now();
    let mut rows = ShownRows::default();
    let executed = admin.database.query(None, &request.statement, Values::NONE, &options, &mut rows);
    let executed = executed.map_err(refused)?;
    let has_more = matches!(executed.outcome, Outcome::Rows { paging_state: Some(_) });
    Ok(QueryAnswer {
        columns: rows.columns,
        rows: rows.rows,
        has_more,
        warnings: executed.warnings,
        millis: began.elapsed().as_secs_f64() * 1e3,
    })
}

/// Returns who executes the statement. With an authenticator, a token is not enough: permissions
/// are those of roles.
fn caller(admin: &Admin, requester: &Requester) -> Result<Caller, Refused> {
    let settings = admin.database.auth_settings();
    match requester {
        _ if !settings.passwords && !settings.certificates => Ok(Caller::Anonymous),
        Requester::Role(name) => Ok(Caller::Role(name.as_str().into())),
        _ => {
            Err(Refused::invalid("queries need the permissions of a role: log in with its name and password"))
        }
    }
}

/// Rejects statements that change something.
fn check_reads(statement: &str) -> Result<(), Refused> {
    match cassette_cql::parse(statement) {
        Ok(parsed) if matches!(parsed.statement, Statement::Select(_) | Statement::Describe(_)) => Ok(()),
        Ok(_) => Err(Refused::wrong_use(
            "only SELECT and DESCRIBE can be executed here: use `cassette cql` for statements that change something",
        )),
        Err(error) => Err(Refused::wrong_use(error.to_string())),
    }
}

fn refused(error: DatabaseError) -> Refused {
    match error {
        DatabaseError::Storage { .. } | DatabaseError::Failed { .. } => Refused::failed(error.to_string()),
        _ => Refused::invalid(error.to_string()),
    }
}

/// One of few queries.
struct QueryPermit<'a>(&'a AtomicUsize);

impl<'a> QueryPermit<'a> {
    fn new(queries: &'a AtomicUsize) -> Result<Self, Refused> {
        let permit = Self(queries);
        if queries.fetch_add(1, Ordering::AcqRel) >= QUERIES_MAX {
            return Err(Refused::invalid(format!("{QUERIES_MAX} other queries run: try again later")));
        }
        Ok(permit)
    }
}

impl Drop for QueryPermit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Rows as CQL literals.
#[derive(Default)]
struct ShownRows {
    metadata: Option<Arc<ResultMetadata>>,
    columns: Vec<QueryColumn>,
    rows: Vec<Vec<String>>,
    row: Vec<String>,
    bytes: usize,
}

impl RowSink for ShownRows {
    fn begin(&mut self, metadata: &Arc<ResultMetadata>) {
        let column = |column: &cassette_database::ColumnSpec| QueryColumn {
            name: column.name.to_string(),
            data_type: column.data_type.to_string(),
        };
        self.columns = metadata.columns.iter().map(column).collect();
        self.metadata = Some(Arc::clone(metadata));
    }

    fn value(&mut self, value: Option<&[u8]>) {
        let column = self.metadata.as_ref().and_then(|metadata| metadata.columns.get(self.row.len()));
        let text = match (column, value) {
            (_, Some(value)) if value.len() > VALUE_MAX => format!("({} bytes)", value.len()),
            (Some(column), value) => column.literal(value),
            (None, _) => String::new(),
        };
        self.bytes += text.len();
        self.row.push(text);
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.value(Some(&value));
    }

    fn end_row(&mut self) -> cassette_database::Result<()> {
        self.rows.push(std::mem::take(&mut self.row));
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_that_change_something_are_refused() {
        for statement in ["SELECT * FROM t", "select count(*) from ks.t;", "DESCRIBE KEYSPACES"] {
            assert_eq!(check_reads(statement), Ok(()), "{statement}");
        }
        for statement in [
            "INSERT INTO t (k) VALUES (1)",
            "DELETE FROM t WHERE k = 1",
            "BEGIN BATCH INSERT INTO t (k) VALUES (1) APPLY BATCH",
            "TRUNCATE t",
            "DROP TABLE t",
            "USE ks",
            "SELECT * FROM t; DROP TABLE t",
            "CREATE ROLE r",
            "",
        ] {
            assert!(check_reads(statement).is_err(), "{statement}");
        }
    }

    #[test]
    fn few_queries_run_at_the_same_time() {
        let queries = AtomicUsize::new(0);
        let (first, second) = (QueryPermit::new(&queries), QueryPermit::new(&queries));
        assert!(QueryPermit::new(&queries).is_err() && first.is_ok());
        drop(second);
        assert!(QueryPermit::new(&queries).is_ok());
        drop(first);
        assert_eq!(queries.load(Ordering::Relaxed), 0);
    }
}
