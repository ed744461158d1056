//! Batches as text. `80xA 20xC` are 80 cells of column A in as many rows, then 20 of column C;
//! `[...]` is one batch.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Parses cells from text such as `80xA 20xC`, each column from row 0 on.
fn cells(text: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let of_run = |run: &str| {
        let (count, column) = run.split_once('x').unwrap();
        let column = column.as_bytes().to_vec();
        (0..count.parse::<u32>().unwrap()).map(move |row| (row.to_be_bytes().to_vec(), column.clone()))
    };
    text.split_whitespace().flat_map(of_run).collect()
}

fn names(cells: &[(Vec<u8>, Vec<u8>)]) -> Vec<Names<'_>> {
    cells.iter().map(|(row, column)| (&row[..], &column[..])).collect()
}

fn loader(batching: CellBatching, cross: usize, single: usize) -> CellLoader {
    CellLoader { batching, cross_column_load_batch_limit: cross, single_query_load_batch_limit: single }
}

/// Renders batches as runs of columns.
fn picture(loader: CellLoader, cells: &[(Vec<u8>, Vec<u8>)]) -> String {
    let cells = names(cells);
    let picture = |batch: Vec<usize>| {
        let mut runs: Vec<(usize, &[u8])> = Vec::new();
        for place in batch {
            match runs.last_mut() {
                Some((count, column)) if *column == cells[place].1 => *count += 1,
                _ => runs.push((1, cells[place].1)),
            }
        }
        let run = |(count, column): &(usize, &[u8])| format!("{count}x{}", String::from_utf8_lossy(column));
        format!("[{}]", runs.iter().map(run).collect::<Vec<_>>().join(" "))
    };
    loader.batches(&cells).into_iter().map(picture).collect::<Vec<_>>().join(" ")
}

/// Renders rows x columns of each statement.
fn statements(loader: CellLoader, cells: &[(Vec<u8>, Vec<u8>)]) -> String {
    let requests = loader.requests(&names(cells));
    let mut shapes: Vec<(usize, String)> = Vec::new();
    for Request { rows, columns, .. } in requests {
        let shape = format!("{}x{}", rows.len(), columns.len());
        match shapes.last_mut() {
            Some((count, last)) if *last == shape => *count += 1,
            _ => shapes.push((1, shape)),
        }
    }
    shapes.iter().map(|(count, shape)| format!("{count} of {shape}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn selective_batching_mixes_only_columns_with_few_cells() {
    // Cross-column limit, single-query limit, cells, batches.
    let cases = [
        (100, 300, "80xA 200xB 70xC 688xD 30xE", "[200xB] [300xD] [300xD] [88xD] [80xA 20xC] [50xC 30xE]"),
        (100, 300, "", ""),
        (100, 300, "1xA", "[1xA]"),
        (100, 300, "100xA 40xB", "[100xA] [40xB]"),
        (100, 300, "40xA 100xB", "[40xA 60xB] [40xB]"),
        (100, 300, "101xA 40xB", "[101xA] [40xB]"),
        (100, 300, "300xA 301xB", "[300xA] [300xB] [1xB]"),
        (100, 100, "90xA 150xB 20xC", "[100xB] [50xB] [90xA 10xC] [10xC]"),
        (1, 50_000, "1xA 1xB 5xC", "[5xC] [1xA] [1xB]"),
        (200, 50_000, "120000xA 3xB", "[50000xA] [50000xA] [20000xA] [3xB]"),
    ];
    for (cross, single, asked, batches) in cases {
        assert_eq!(
            picture(loader(CellBatching::Selective, cross, single), &cells(asked)),
            batches,
            "{asked}"
        );
    }
}

#[test]
fn by_column_batches_each_column_and_full_batching_ignores_columns() {
    let asked = cells("80xA 200xB 70xC 688xD 30xE");
    assert_eq!(
        picture(loader(CellBatching::ByColumn, 100, 300), &asked),
        "[80xA] [200xB] [70xC] [300xD] [300xD] [88xD] [30xE]"
    );
    assert_eq!(
        picture(loader(CellBatching::Full, 100, 300), &asked),
        "[80xA 200xB 20xC] [50xC 250xD] [300xD] [138xD 30xE]"
    );
}

fn grid(rows: u32, columns: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |row: u32| (0..columns).map(move |column| (row, column));
    let bytes = |(row, column): (u32, u32)| (row.to_be_bytes().to_vec(), column.to_be_bytes().to_vec());
    (0..rows).flat_map(row).map(bytes).collect()
}

/// Returns rows with distinct columns.
fn dynamic(rows: u32, columns: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let row = |row: u32| (0..columns).map(move |column| (row, column * rows + row));
    let bytes = |(row, column): (u32, u32)| (row.to_be_bytes().to_vec(), column.to_be_bytes().to_vec());
    (0..rows).flat_map(row).map(bytes).collect()
}

#[test]
fn batches_match_those_of_atlasdb() {
    let count = |batching, cells: &[(Vec<u8>, Vec<u8>)]| {
        CellLoader::new(batching)
            .batches(&names(cells))
            .into_iter()
            .map(|batch| batch.len())
            .collect::<Vec<_>>()
    };
    assert_eq!(count(CellBatching::Selective, &grid(100, 100)), vec![200; 50]);
    assert_eq!(count(CellBatching::Selective, &grid(1000, 10)), vec![1000; 10]);
    assert_eq!(count(CellBatching::Selective, &dynamic(16, 500)), vec![200; 40]);
    assert_eq!(count(CellBatching::ByColumn, &grid(100, 100)), vec![100; 100]);
    assert_eq!(count(CellBatching::ByColumn, &grid(1000, 10)), vec![1000; 10]);
    assert_eq!(count(CellBatching::ByColumn, &dynamic(16, 500)), vec![1; 8000]);
    for (cells, total) in [(grid(100, 100), 10_000), (grid(1000, 10), 10_000), (dynamic(16, 500), 8_000)] {
        assert_eq!(count(CellBatching::Full, &cells), [total]);
    }
    assert_eq!(count(CellBatching::ByRow, &dynamic(16, 500)), vec![500; 16]);
}

#[test]
fn a_batch_is_one_statement_if_it_reads_few_extra_cells() {
    let statements = |batching, cells: &[(Vec<u8>, Vec<u8>)]| statements(CellLoader::new(batching), cells);
    assert_eq!(statements(CellBatching::Full, &grid(100, 100)), "1 of 100x100");
    assert_eq!(statements(CellBatching::Selective, &grid(100, 100)), "50 of 100x2");
    assert_eq!(statements(CellBatching::ByColumn, &grid(1000, 10)), "10 of 1000x1");
    assert_eq!(statements(CellBatching::ByRow, &grid(100, 100)), "100 of 1x100");
    assert_eq!(statements(CellBatching::Full, &dynamic(16, 500)), "16 of 1x500");
    assert_eq!(statements(CellBatching::ByRow, &dynamic(16, 500)), "16 of 1x500");
    assert_eq!(statements(CellBatching::ByColumn, &dynamic(16, 500)), "8000 of 1x1");
    assert_eq!(statements(CellBatching::ByRow, &grid(1, 7000)), "2 of 1x3000, 1 of 1x1000");
}

proptest! {
    #[test]
    fn each_cell_is_requested_once_with_bounded_read_amplification(
        asked in prop::collection::vec((0u8..12, 0u8..12), 0..200),
        cross in 0usize..30,
        single in 0usize..60,
        batching in prop::sample::select(vec![
            CellBatching::ByRow, CellBatching::ByColumn, CellBatching::Selective, CellBatching::Full,
        ]),
    ) {
        let asked: Vec<_> = asked.into_iter().map(|(row, column)| (vec![row], vec![column])).collect();
        let cells = names(&asked);
        let loader = loader(batching, cross, single);
        let mut seen = BTreeSet::new();
        for Request { rows, columns, cells: answered } in loader.requests(&cells) {
            prop_assert!(answered.len() <= single.max(1));
            prop_assert!(rows.len() == 1 || rows.len() * columns.len() <= OVERREAD_MAX * answered.len());
            for place in answered {
                prop_assert!(rows.contains(&cells[place].0) && columns.contains(&cells[place].1));
                prop_assert!(seen.insert(place));
            }
        }
        prop_assert_eq!(seen.len(), cells.len());
    }
}
