//! The AST of statements, and the limits of the parser.

use cassette_cql::ast::*;
use cassette_cql::{parse, parse_term, parse_type};

fn statement(text: &str) -> Statement {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).statement
}

fn select(text: &str) -> Select {
    match statement(text) {
        Statement::Select(select) => *select,
        other => panic!("{other:?}"),
    }
}

fn marker(index: u32, name: Option<&str>) -> BindMarker {
    BindMarker { index, name: name.map(Identifier::from) }
}

fn integer(text: &str) -> Term {
    Term::Literal(Literal::new(LiteralKind::Integer, text))
}

#[test]
fn bind_markers_are_numbered_in_order_of_appearance() {
    let parsed = parse(
        "BEGIN BATCH USING TIMESTAMP ? INSERT INTO t (a, b) VALUES (:x, {?: [:\"X\"]}) USING TTL :x; \
         UPDATE t SET a = (int) ? WHERE (b, c) IN ? IF d IN (:y, ?) APPLY BATCH",
    )
    .expect("a batch");
    let names: Vec<Option<&str>> = parsed.bind_markers.iter().map(|name| name.as_deref()).collect();
    assert_eq!(names, [None, Some("x"), None, Some("X"), Some("x"), None, None, Some("y"), None]);
    let Statement::Batch(batch) = parsed.statement else { panic!("no batch") };
    assert_eq!(batch.using.timestamp, Some(Term::BindMarker(marker(0, None))));
    let Modification::Insert(insert) = &batch.statements[0] else { panic!("no insert") };
    assert_eq!(insert.using.ttl, Some(Term::BindMarker(marker(4, Some("x")))));
}

#[test]
fn markers_read_while_trying_json_are_not_counted_twice() {
    let parsed = parse("SELECT json - ?, :a FROM t WHERE k = ?").expect("a select");
    assert_eq!(parsed.bind_markers.len(), 3);
    let parsed = parse("SELECT json, ? FROM t").expect("a select");
    assert_eq!(parsed.bind_markers.len(), 1);
}

#[test]
fn names_fold_to_lower_case_unless_quoted() {
    let select = select("SELECT Abc, \"Abc\", TTL FROM Ks.\"T\"");
    let names: Vec<String> = select.selections.iter().map(Selection::to_string).collect();
    assert_eq!(names, ["abc", "\"Abc\"", "ttl"]);
    assert_eq!(select.table, QualifiedName::new(Some("ks".into()), "T".into()));
}

#[test]
fn updates_tell_increments_from_values() {
    let Statement::Modification(modification) = statement(
        "UPDATE t SET a = a + 1, b = b -1, c = [1] + c, d = 2 + 3, e -= ?, f[0] = 1, g.h = 2 WHERE k = 0",
    ) else {
        panic!("no modification")
    };
    let Modification::Update(update) = *modification else { panic!("no update") };
    let operations: Vec<AssignmentOperation> =
        update.assignments.into_iter().map(|assignment| assignment.operation).collect();
    assert_eq!(
        operations,
        [
            AssignmentOperation::Add(integer("1")),
            AssignmentOperation::Add(integer("-1")),
            AssignmentOperation::Prepend(Term::List(vec![integer("1")])),
            AssignmentOperation::Set(Term::Arithmetic(
                Box::new(integer("2")),
                ArithmeticOperator::Add,
                Box::new(integer("3"))
            )),
            AssignmentOperation::Subtract(Term::BindMarker(marker(0, None))),
            AssignmentOperation::SetElement(integer("0"), integer("1")),
            AssignmentOperation::SetField("h".into(), integer("2")),
        ]
    );
}

#[test]
fn relations_keep_their_shape() {
    let select = select(
        "SELECT * FROM t WHERE (a) = (1) AND ((b = 2)) AND (c, d) IN ((1, 2)) AND token(k) > ? AND e IN () \
         AND m['x'] = 1 AND f CONTAINS KEY 1 AND g IS NOT NULL AND expr(i, 'q')",
    );
    let relations = &select.where_clause.relations;
    assert!(matches!(&relations[0], Relation::Tuple { columns, .. } if columns.len() == 1));
    assert!(matches!(&relations[1], Relation::Column { operator: Operator::Eq, .. }));
    assert!(
        matches!(&relations[2], Relation::TupleIn { values: TupleInValues::Literals(l), .. } if l.len() == 1)
    );
    assert!(matches!(&relations[3], Relation::Token { operator: Operator::Gt, .. }));
    assert!(matches!(&relations[4], Relation::In { values: InValues::List(list), .. } if list.is_empty()));
    assert!(matches!(&relations[5], Relation::Element { .. }));
    assert!(matches!(&relations[6], Relation::Column { operator: Operator::ContainsKey, .. }));
    assert!(matches!(&relations[7], Relation::IsNotNull { .. }));
    assert_eq!(select.where_clause.expressions.len(), 1);
}

#[test]
fn tables_keep_columns_keys_and_options_in_order() {
    let Statement::CreateTable(table) = statement(
        "CREATE TABLE ks.t (a int, b text static, c frozen<ks.ty>, PRIMARY KEY ((a, d), c)) \
         WITH CLUSTERING ORDER BY (c DESC) AND comment = 'x' AND compaction = {'class': 'C', 'n': 4} AND cdc = TRUE",
    ) else {
        panic!("no table")
    };
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(columns, ["a", "b", "c"]);
    assert!(table.columns[1].is_static);
    assert_eq!(table.columns[2].column_type.to_string(), "frozen<ks.ty>");
    assert_eq!(table.primary_keys.len(), 1);
    assert_eq!(table.primary_keys[0].partition_key, ["a", "d"]);
    assert_eq!(table.clustering_order, [(Identifier::from("c"), Direction::Desc)]);
    let options: Vec<&str> = table.properties.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(options, ["comment", "compaction", "cdc"]);
    assert_eq!(
        table.properties.get("compaction"),
        Some(&PropertyValue::Map(vec![("class".into(), "C".into()), ("n".into(), "4".into())]))
    );
    assert_eq!(
        table.properties.get("cdc"),
        Some(&PropertyValue::Simple(Literal::new(LiteralKind::Boolean, "TRUE")))
    );
}

#[test]
fn secrets_stay_out_of_debug_output() {
    let role = statement("CREATE ROLE r WITH PASSWORD = 'hunter2' AND LOGIN = true");
    assert!(!format!("{role:?}").contains("hunter2"));
}

#[test]
fn errors_say_where() {
    let error = parse("SELECT *\nFROM t\n  WHERE k = 1 OR k = 2").expect_err("no OR in CQL");
    assert_eq!((error.line, error.column), (Some(3), Some(14)));
    let error = parse("INSERT INTO t (k) VALUES ('ü𝄞' x)").expect_err("no comma");
    assert_eq!((error.line, error.column), (Some(1), Some(32)), "columns count UTF-16 units");
    let error = parse("SELECT *").expect_err("no table");
    assert_eq!((error.line, error.column), (Some(0), None));
}

/// Runs with the stack size of worker threads, so that an overflow would end the process.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(test).expect("a thread");
    thread.join().expect("no panic");
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    on_a_small_stack(|| {
        for n in [200, 100_000] {
            for (open, close) in [
                ("[", "]"),
                ("(", ")"),
                ("{", "}"),
                ("f(", ")"),
                ("(int) (", ")"),
                ("- (", ")"),
                ("{1:", "}"),
            ] {
                let text = format!("{}1{}", open.repeat(n), close.repeat(n));
                let error = parse_term(&text).expect_err("too deep");
                assert!(error.message.contains("nested deeper than 100 levels"), "{open}: {error}");
                assert!(parse(&format!("SELECT {text} FROM t")).is_err());
                assert!(parse(&format!("SELECT * FROM t WHERE k = {text}")).is_err());
                assert!(parse(&format!("SELECT * FROM t WHERE {text}")).is_err());
            }
            assert!(parse_type(&format!("{}int{}", "frozen<list<".repeat(n), ">>".repeat(n))).is_err());
            assert!(parse(&format!("SELECT {}a FROM t", "(int) ".repeat(n))).is_err());
            assert!(parse(&format!("SELECT {}a FROM t", "- ".repeat(n))).is_err());
            assert!(
                parse(&format!("SELECT * FROM t WHERE {}a = 1{}", "(".repeat(n), ")".repeat(n))).is_err()
            );
        }
        let deep = format!("{}1{}", "[".repeat(90), "]".repeat(90));
        assert!(parse_term(&deep).is_ok());
    });
}

#[test]
fn long_chains_are_an_error_and_no_overflow() {
    on_a_small_stack(|| {
        assert!(parse_term(&format!("1{}", " + 1".repeat(500))).is_ok());
        for operator in [" + 1", " - 1", " * 1", " % ?"] {
            let error = parse_term(&format!("1{}", operator.repeat(100_000))).expect_err("too long");
            assert!(error.message.contains("more than 500 operators"), "{error}");
            assert!(parse(&format!("SELECT 1{} FROM t", operator.repeat(100_000))).is_err());
        }
        assert!(parse(&format!("SELECT a{} FROM t", ".a".repeat(100_000))).is_err());
        assert!(parse(&format!("SELECT a{} FROM t", "[1]".repeat(100_000))).is_err());
    });
}

#[test]
fn wide_statements_are_fine() {
    let values = vec!["1"; 100_000].join(", ");
    assert!(parse(&format!("SELECT * FROM t WHERE k IN ({values})")).is_ok());
    assert!(parse(&format!("SELECT {values} FROM t")).is_ok());
    assert!(parse(&format!("INSERT INTO t (k) VALUES ([{values}])")).is_ok());
}
