//! Names in columns, as Python's `cmd` module arranges them.

/// Columns of the terminal.
const WIDTH: usize = 80;

/// Arranges names in as few rows as fit, column by column, with two spaces between columns.
pub fn columnize(names: &[String]) -> String {
    if names.is_empty() {
        return "<empty>\n".to_owned();
    }
    if let [name] = names {
        return format!("{name}\n");
    }
    let length = |name: &String| name.chars().count();
    let widths_of = |rows: usize| -> Vec<usize> {
        names.chunks(rows).map(|column| column.iter().map(length).max().unwrap_or(0)).collect()
    };
    let fits = |rows: &usize| {
        let widths = widths_of(*rows);
        widths.iter().sum::<usize>() + 2 * (widths.len() - 1) <= WIDTH
    };
    let rows = (1..names.len()).find(fits).unwrap_or(names.len());
    let widths = if rows == names.len() { vec![0] } else { widths_of(rows) };
    let mut out = String::new();
    for row in 0..rows {
        let mut cells: Vec<String> = (0..widths.len())
            .map(|column| names.get(row + rows * column).cloned().unwrap_or_default())
            .collect();
        while cells.last().is_some_and(String::is_empty) {
            cells.pop();
        }
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        out.push_str(&padded.join("  "));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(names: &[&str]) -> String {
        columnize(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn names_fill_columns_as_in_cqlsh() {
        assert_eq!(arranged(&[]), "<empty>\n");
        assert_eq!(arranged(&["a"]), "a\n");
        let keyspaces = [
            "ks",
            "system_auth",
            "system_schema",
            "system_views",
            "system",
            "system_distributed",
            "system_traces",
            "system_virtual_schema",
        ];
        assert_eq!(
            arranged(&keyspaces),
            "ks           system_schema  system              system_traces        \n\
             system_auth  system_views   system_distributed  system_virtual_schema\n"
        );
        let long = "x".repeat(90);
        assert_eq!(arranged(&[&long, "b"]), format!("{long}\nb\n"));
    }
}
