//! The dashboard for Grafana and the alerts for Prometheus name only metrics that exist, and use
//! them by their types and labels. `docs/metrics.md` lists those, which another test ensures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// A metric's type and labels.
struct Described {
    kind: String,
    labels: BTreeSet<String>,
}

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn metrics() -> BTreeMap<String, Described> {
    let page = file("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let described = |(name, rest): (&str, &str)| {
        let mut cells = rest.split(" | ");
        let (kind, labels) = (cells.next().unwrap(), cells.next().unwrap());
        let labels = labels.split(',').map(|label| label.trim().to_owned()).filter(|label| !label.is_empty());
        (name.to_owned(), Described { kind: kind.to_owned(), labels: labels.collect() })
    };
    rows.map(described).collect()
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the labels that matchers such as `a="x", b=~"y"` name.
fn matched(selector: &str) -> Vec<String> {
    let outside = selector.split('"').step_by(2);
    let names = outside.flat_map(|text| text.split([',', '=', '!', '~', '{', '}']));
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Checks an expression; returns what is wrong.
fn problems(expression: &str, metrics: &BTreeMap<String, Described>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut known: BTreeSet<String> = ["instance", "job"].map(str::to_owned).into();
    let mut found = 0;
    for (at, _) in expression.match_indices("cassette_").chain(expression.match_indices("process_")) {
        if expression[..at].ends_with(is_word) {
            continue;
        }
        let name = expression[at..].split(|c| !is_word(c)).next().unwrap();
        let rest = &expression[at + name.len()..];
        let suffix = ["_bucket", "_count", "_sum"].into_iter().find(|suffix| name.ends_with(suffix));
        let base = suffix.and_then(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        let Some(metric) = metrics.get(name).or_else(|| metrics.get(base)) else {
            wrong.push(format!("{name} does not exist"));
            continue;
        };
        found += 1;
        let is_rate = ["rate(", "increase("].iter().any(|function| expression[..at].ends_with(function));
        let is_series = metrics.contains_key(name);
        match (&*metric.kind, is_series) {
            ("counter", true) if !is_rate => wrong.push(format!("{name} is a counter: use its rate")),
            ("gauge", true) if is_rate => wrong.push(format!("{name} is a gauge: it has no rate")),
            ("histogram", true) => wrong.push(format!("{name} is a histogram: use its buckets or count")),
            ("histogram", false) if !is_rate => wrong.push(format!("{name} is a counter: use its rate")),
            ("counter" | "gauge", false) => wrong.push(format!("{base} is no histogram")),
            _ => {}
        }
        let mut labels = metric.labels.clone();
        labels.extend(["instance", "job"].map(str::to_owned));
        if suffix == Some("_bucket") {
            labels.insert("le".to_owned());
        }
        if let Some((selector, _)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            let unknown = matched(selector).into_iter().filter(|label| !labels.contains(label));
            wrong.extend(unknown.map(|label| format!("{name} has no label {label}")));
        }
        known.extend(labels);
    }
    for by in expression.split(" by (").skip(1) {
        let labels = by.split(')').next().unwrap().split(',').map(str::trim);
        wrong.extend(labels.filter(|label| !known.contains(*label)).map(|label| format!("no label {label}")));
    }
    let opened = expression.matches('(').count() as isize - expression.matches(')').count() as isize;
    if opened != 0 {
        wrong.push("its parentheses do not match".to_owned());
    }
    if found == 0 && !expression.starts_with("up{job=\"cassette\"}") {
        wrong.push("it names no metric".to_owned());
    }
    wrong
}

/// Collects the expressions of a dashboard.
fn expressions(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            all.extend(fields.get("expr").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| expressions(field, all));
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, all)),
        _ => {}
    }
}

#[test]
fn the_dashboard_of_grafana_uses_existing_metrics() {
    let dashboard: Value =
        serde_json::from_str(&file("packaging/monitoring/grafana-dashboard.json")).unwrap();
    let mut all = Vec::new();
    expressions(&dashboard, &mut all);
    assert!(all.len() > 30, "{}", all.len());
    let metrics = metrics();
    for expression in all {
        assert_eq!(problems(&expression, &metrics), [""; 0], "{expression}");
    }
    let ids: Vec<_> = dashboard["panels"].as_array().unwrap().iter().map(|panel| &panel["id"]).collect();
    assert_eq!(ids.len(), ids.iter().map(|id| id.to_string()).collect::<BTreeSet<_>>().len());
}

#[test]
fn the_alerts_use_existing_metrics() {
    let text = file("packaging/monitoring/prometheus-alerts.yml");
    let values = |key: &str| {
        let start = format!("{key}: ");
        let lines = text.lines().map(|line| line.trim().trim_start_matches("- "));
        lines.filter_map(|line| Some(line.strip_prefix(&start)?.to_owned())).collect::<Vec<_>>()
    };
    let (alerts, metrics) = (values("alert"), metrics());
    for key in ["expr", "labels", "summary", "description"] {
        assert_eq!(values(key).len(), alerts.len(), "{key}");
    }
    assert_eq!(alerts.iter().collect::<BTreeSet<_>>().len(), alerts.len());
    for expression in values("expr") {
        assert_eq!(problems(&expression, &metrics), [""; 0], "{expression}");
    }
}

#[test]
fn wrong_expressions_are_found() {
    let metrics = metrics();
    for (expression, says) in [
        ("cassette_exceptions > 0", "does not exist"),
        ("cassette_exceptions_total > 0", "use its rate"),
        ("rate(cassette_load_bytes[5m])", "has no rate"),
        ("cassette_flush_duration_seconds", "use its buckets"),
        ("rate(cassette_load_bytes_count[5m])", "no histogram"),
        ("sum(cassette_load_bytes{keyspace=\"a\"})", "has no label keyspace"),
        ("sum by (table) (cassette_load_bytes)", "no label table"),
        ("sum(cassette_load_bytes", "parentheses"),
        ("1 > 0", "no metric"),
    ] {
        let found = problems(expression, &metrics);
        assert!(found.iter().any(|problem| problem.contains(says)), "{expression}: {found:?}");
    }
}
