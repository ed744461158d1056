//! Rows as a table, byte for byte as cqlsh prints them.

use crate::values::Shown;

/// The names of the columns, colored by their role.
pub type Header = Vec<Shown>;

/// Formats a page of rows as a table. On a terminal each page is followed by an empty line.
pub fn table(header: &Header, rows: &[Vec<Shown>], with_header: bool, is_terminal: bool) -> String {
    let mut widths: Vec<usize> = header.iter().map(|name| name.width).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width);
        }
    }
    let mut out = String::new();
    if with_header {
        write_header(header, &widths, &mut out);
    }
    for row in rows {
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            out.push_str(if index == 0 { " " } else { " | " });
            cell.write_right(*width, &mut out);
        }
        out.push('\n');
    }
    if is_terminal {
        out.push('\n');
    }
    out
}

/// Formats a table without rows.
pub fn header_only(header: &Header) -> String {
    let widths: Vec<usize> = header.iter().map(|name| name.width).collect();
    let mut out = String::new();
    write_header(header, &widths, &mut out);
    out.push('\n');
    out
}

fn write_header(header: &Header, widths: &[usize], out: &mut String) {
    let mut line = String::new();
    for (index, (name, width)) in header.iter().zip(widths).enumerate() {
        if index > 0 {
            line.push_str(" | ");
        }
        name.write_left(*width, &mut line);
    }
    out.push(' ');
    out.push_str(line.trim_end());
    out.push('\n');
    out.push_str(&rule(widths));
}

fn rule(widths: &[usize]) -> String {
    let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    format!("-{}-\n", dashes.join("-+-"))
}

/// Formats rows one below the other: a line for each column. `first` is the number of the first
/// row.
pub fn expanded(header: &Header, rows: &[Vec<Shown>], first: usize) -> String {
    let names = header.iter().map(|name| name.width).max().unwrap_or(0);
    let values = rows.iter().flatten().map(|cell| cell.width).max().unwrap_or(0);
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        out.push_str(&format!("@ Row {}\n", first + index));
        out.push_str(&rule(&[names, values]));
        for (name, cell) in header.iter().zip(row) {
            out.push(' ');
            name.write_left(names, &mut out);
            out.push_str(" | ");
            out.push_str(&cell.text);
            out.push('\n');
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Color;

    fn cell(text: &str) -> Shown {
        let mut shown = Shown::new(false);
        shown.push_text(Color::Text, text, false);
        shown
    }

    fn cells(texts: &[&str]) -> Vec<Shown> {
        texts.iter().map(|text| cell(text)).collect()
    }

    #[test]
    fn values_are_right_aligned_below_names_and_wide_characters_count_twice() {
        let out = table(&cells(&["k", "name"]), &[cells(&["10", "日本語"]), cells(&["2", "x"])], true, false);
        assert_eq!(out, " k  | name\n----+--------\n 10 | 日本語\n  2 |      x\n");
    }

    #[test]
    fn a_terminal_gets_an_empty_line_after_each_page() {
        assert_eq!(table(&cells(&["k"]), &[cells(&["1"])], false, true), " 1\n\n");
        assert_eq!(header_only(&cells(&["k", "v"])), " k | v\n---+---\n\n");
    }

    #[test]
    fn expanded_rows_are_numbered() {
        let out = expanded(&cells(&["k", "val"]), &[cells(&["1", "abc"])], 5);
        assert_eq!(out, "@ Row 5\n-----+-----\n k   | 1\n val | abc\n\n");
    }
}
