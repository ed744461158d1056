//! Texts to plans.

use std::hint::black_box;

use super::node::Node;
use super::{Case, case};
use crate::meter::{Counted, Meter};

pub const CASES: &[Case] = &[
    case("parse_insert", 1_000, parse_insert),
    case("parse_select", 2_000, parse_select),
    case("prepare_new", 500, prepare_new),
    case("prepare_known", 5_000, prepare_known),
];

const INSERT: &str = "INSERT INTO ycsb.usertable (y_id, field0, field1, field2, field3, field4, field5, \
     field6, field7, field8, field9) VALUES ('user6284781860667377211', 'a', 'bb', 'ccc', 'dddd', 'eeeee', \
     'ffffff', 'ggggggg', 'hhhhhhhh', 'iiiiiiiii', 'jjjjjjjjjj') USING TIMESTAMP 1700000000000000";

const SELECT: &str = "SELECT k, c, v, writetime(v) FROM ks.wide WHERE k = 'key' AND c > 10 AND c <= 20 \
     ORDER BY c DESC LIMIT 100";

fn parse_insert(meter: Meter) -> Counted {
    meter.each(|_| _ = black_box(cassette_cql::parse(black_box(INSERT)).expect("a statement")))
}

fn parse_select(meter: Meter) -> Counted {
    meter.each(|_| _ = black_box(cassette_cql::parse(black_box(SELECT)).expect("a statement")))
}

/// Texts that were not prepared before.
fn prepare_new(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    let text = |number: u64| format!("SELECT * FROM ks.usertable WHERE y_id = ? LIMIT {}", 1_000 + number);
    let texts: Vec<String> = (0..meter.operations()).map(text).collect();
    node.prepare(&text(meter.operations()));
    meter.each(|i| _ = black_box(node.prepare(&texts[i as usize])))
}

/// A text that another connection has prepared.
fn prepare_known(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    let text = "SELECT * FROM ks.usertable WHERE y_id = ?";
    node.prepare(text);
    meter.each(|_| _ = black_box(node.prepare(text)))
}
