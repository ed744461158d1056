//! Tables WITH COMPACT STORAGE: what statements on them can name, and how they are created.

use cassette_rows::Layout;
use cassette_rows::types::quote_identifier;

use crate::schema::{Column, Kind, Table};

impl Table {
    /// Returns whether statements cannot name a column of the table.
    pub fn is_hidden(&self, column: &Column) -> bool {
        match self.layout {
            Layout::Cql => false,
            Layout::StaticCompact => matches!(column.kind, Kind::Clustering | Kind::Regular),
            Layout::Dense | Layout::DenseCompound => {
                column.kind == Kind::Regular && column.cql_type == "empty"
            }
        }
    }

    /// Returns the table with the columns that statements name, of the kinds that they have there.
    pub fn as_written(&self) -> Self {
        let visible = self.columns.iter().filter(|column| !self.is_hidden(column)).cloned();
        let as_written = |column: Column| match self.layout {
            Layout::StaticCompact if column.kind == Kind::Static => Column { kind: Kind::Regular, ..column },
            _ => column,
        };
        Self { columns: visible.map(as_written).collect(), ..self.clone() }
    }

    /// Returns a statement that creates the table from what DESCRIBE returns: with COMPACT STORAGE,
    /// a comment, whose clustering order names also a hidden column.
    pub fn executable(&self, described: &str) -> String {
        let text = described.trim_end().trim_end_matches("*/").trim_end();
        let start = if self.layout.is_compact() { text.find("CREATE TABLE ") } else { None };
        let Some(statement) = start.and_then(|start| text.get(start..)) else { return described.to_owned() };
        let mut statement = statement.to_owned();
        if self.layout == Layout::StaticCompact {
            for column in self.columns(Kind::Clustering) {
                let order = column.order.to_uppercase();
                let option = format!("CLUSTERING ORDER BY ({} {order})", quote_identifier(&column.name));
                statement = statement.replacen(&format!("    AND {option}\n"), "", 1);
            }
        }
        statement
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Shape;

    fn table(layout: Layout, columns: &[(&str, Kind, &str)]) -> Table {
        let column = |(name, kind, cql_type): &(&str, Kind, &str)| Column {
            name: (*name).to_owned(),
            kind: *kind,
            position: 0,
            cql_type: (*cql_type).to_owned(),
            order: if *kind == Kind::Clustering { "asc".into() } else { "none".into() },
            shape: Shape::Simple,
        };
        Table {
            keyspace: "ks".into(),
            name: "t".into(),
            id: "1".into(),
            columns: columns.iter().map(column).collect(),
            is_counter: false,
            layout,
            cdc: false,
            gc_grace_seconds: 864_000,
        }
    }

    fn written(table: &Table) -> Vec<(String, Kind)> {
        table.as_written().columns.into_iter().map(|column| (column.name, column.kind)).collect()
    }

    #[test]
    fn statements_name_the_declared_columns_only() {
        let key = ("k", Kind::PartitionKey, "int");
        let columns = [
            key,
            ("column1", Kind::Clustering, "text"),
            ("v", Kind::Static, "int"),
            ("value", Kind::Regular, "blob"),
        ];
        let expected = [("k".to_owned(), Kind::PartitionKey), ("v".to_owned(), Kind::Regular)];
        assert_eq!(written(&table(Layout::StaticCompact, &columns)), expected);
        assert_eq!(written(&table(Layout::Cql, &columns)).len(), 4);
        let columns = [key, ("c", Kind::Clustering, "int"), ("value", Kind::Regular, "empty")];
        assert_eq!(written(&table(Layout::Dense, &columns)).len(), 2);
        let columns = [key, ("c", Kind::Clustering, "int"), ("value", Kind::Regular, "blob")];
        assert_eq!(written(&table(Layout::Dense, &columns)).len(), 3);
    }

    #[test]
    fn a_described_compact_table_can_be_created() {
        let columns = [
            ("k", Kind::PartitionKey, "int"),
            ("column1", Kind::Clustering, "text"),
            ("v", Kind::Static, "int"),
            ("value", Kind::Regular, "blob"),
        ];
        let create =
            "CREATE TABLE ks.t (\n    k int,\n    v int,\n    PRIMARY KEY (k)\n) WITH COMPACT STORAGE\n";
        let options = "    AND comment = '';";
        let described = format!(
            "/*\nWarning: Table ks.t omitted because it has constructs not compatible with CQL (was created via \
             legacy API).\nApproximate structure, for reference:\n(this should not be used to reproduce this \
             schema)\n\n{create}    AND CLUSTERING ORDER BY (column1 ASC)\n{options}\n*/"
        );
        let table = table(Layout::StaticCompact, &columns);
        assert_eq!(table.executable(&described), format!("{create}{options}"));
        let plain = Table { layout: Layout::Cql, ..table };
        assert_eq!(plain.executable("CREATE TABLE ks.t (k int);"), "CREATE TABLE ks.t (k int);");
    }
}
