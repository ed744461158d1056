//! Reads many cells with few statements.

use std::collections::HashMap;

use bytes::Bytes;

use super::statements::Statements;
use super::values::{bigint, list, version};
use super::{Attempted, Cql, CqlStore, Row, Values};
use crate::store::cell_loader::Request;
use crate::store::layout::column2;
use crate::store::{Cell, StoreResult, Version};
use crate::timestamp::Timestamp;

/// Statements that are executed together, and the cells that each of them answers.
struct Requests<P> {
    executed: Vec<(P, Values)>,
    answers: Vec<Answers>,
}

/// Positions of the cells that a statement answers.
enum Answers {
    /// Cells of one row, which the result does not name.
    OneRow(Vec<usize>),
    /// Cells of rows that the result names.
    Rows(Vec<usize>),
}

impl<P> Requests<P> {
    fn push(&mut self, request: (P, Values), answers: Answers) {
        self.executed.push(request);
        self.answers.push(answers);
    }
}

impl<C: Cql> CqlStore<C> {
    /// Reads the newest version of each cell below its timestamp. Cells with the same bound share
    /// statements.
    pub(super) fn get_many(
        &self,
        attempted: Attempted<'_>,
        table: &str,
        statements: &Statements<C::Statement>,
        cells: &[(&Cell, Timestamp)],
    ) -> StoreResult<Vec<Option<Version>>> {
        let mut bounds: HashMap<Timestamp, Vec<usize>> = HashMap::new();
        for (place, (_, below)) in cells.iter().enumerate() {
            bounds.entry(*below).or_default().push(place);
        }
        let mut requests = Requests { executed: Vec::new(), answers: Vec::new() };
        let mut found = vec![None; cells.len()];
        for (below, places) in bounds {
            if let [place] = places[..]
                && let Some(version) = self.cql.get_directly(attempted, table, cells[place].0, below)
            {
                found[place] = version?;
                continue;
            }
            self.load(statements, cells, &places, below, &mut requests);
        }
        if requests.executed.is_empty() {
            return Ok(found);
        }
        // One call for all bounds.
        let answers = self.cql.read(attempted, requests.executed)?;
        for (rows, answer) in answers.into_iter().zip(requests.answers) {
            assign(attempted, cells, rows, answer, &mut found)?;
        }
        Ok(found)
    }

    /// Adds the statements that read the newest version of some cells below a timestamp, as chosen
    /// by the loader.
    fn load(
        &self,
        statements: &Statements<C::Statement>,
        cells: &[(&Cell, Timestamp)],
        places: &[usize],
        below: Timestamp,
        requests: &mut Requests<C::Statement>,
    ) {
        let below = bigint(column2(below));
        let cell = |place: &usize| cells[*place].0;
        if let [place] = places {
            let values = vec![cell(place).row.clone(), cell(place).column.clone(), below];
            requests.push((statements.get.clone(), values), Answers::OneRow(vec![*place]));
            return;
        }
        let names: Vec<_> =
            places.iter().map(|place| (&cell(place).row[..], &cell(place).column[..])).collect();
        for Request { rows, columns, cells: of_names } in self.loader.requests(&names) {
            let places: Vec<usize> = of_names.iter().map(|name| places[*name]).collect();
            let Some(first) = places.first().map(cell) else { continue };
            let (row, below) = (first.row.clone(), below.clone());
            let request = match (rows.len(), columns.len()) {
                (1, 1) => (statements.get.clone(), vec![row, first.column.clone(), below]),
                (1, _) => (statements.get_many.clone(), vec![row, list(&columns), below]),
                _ => (statements.get_rows.clone(), vec![list(&rows), list(&columns), below]),
            };
            let answers = if rows.len() == 1 { Answers::OneRow(places) } else { Answers::Rows(places) };
            requests.push(request, answers);
        }
    }
}

/// Assigns the rows of one statement to the cells that it answers.
fn assign(
    attempted: Attempted<'_>,
    cells: &[(&Cell, Timestamp)],
    rows: Vec<Row>,
    answer: Answers,
    found: &mut [Option<Version>],
) -> StoreResult<()> {
    let (places, one_row) = match answer {
        Answers::OneRow(places) => (places, true),
        Answers::Rows(places) => (places, false),
    };
    if let ([place], true) = (&places[..], one_row) {
        let row = rows.into_iter().next();
        found[*place] = row.map(|row| version(attempted, row)).transpose()?.map(|(_, version)| version);
        return Ok(());
    }
    let mut versions: HashMap<(Bytes, Bytes), Version> = HashMap::with_capacity(rows.len());
    for mut row in rows {
        let key = if one_row || row.is_empty() { Bytes::new() } else { row.remove(0).unwrap_or_default() };
        let (column, version) = version(attempted, row)?;
        versions.insert((key, column), version);
    }
    for place in places {
        let cell = cells[place].0;
        let key = if one_row { Bytes::new() } else { cell.row.clone() };
        found[place] = versions.get(&(key, cell.column.clone())).cloned();
    }
    Ok(())
}
