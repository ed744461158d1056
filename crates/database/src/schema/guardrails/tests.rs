use super::*;

#[test]
fn every_default_is_read_and_written_as_cassandra_writes_it() {
    let guardrails = Guardrails::default();
    for setting in SETTINGS {
        assert_eq!(SETTINGS[setting.key as usize].name, setting.name);
        setting.kind.read(setting.name, setting.default).unwrap();
        let expected = match setting.kind {
            Kind::Properties | Kind::ConsistencyLevels => Some("[]"),
            Kind::Size | Kind::Duration => Some(setting.default).filter(|text| !text.is_empty()),
            _ => Some(setting.default),
        };
        assert_eq!(guardrails.text(setting.key).as_deref(), expected, "{}", setting.name);
    }
}

#[test]
fn sizes_and_durations_keep_the_unit_they_were_given_in() {
    let guardrails = Guardrails::default();
    guardrails.set(&[(Key::CollectionSizeWarn, "1024KiB"), (Key::MaximumTimestampFail, "2d")]).unwrap();
    assert_eq!(guardrails.text(Key::CollectionSizeWarn).as_deref(), Some("1024KiB"));
    assert_eq!(guardrails.get(Key::CollectionSizeWarn), 1 << 20);
    assert_eq!(guardrails.text(Key::MaximumTimestampFail).as_deref(), Some("2d"));
    assert_eq!(guardrails.get(Key::MaximumTimestampFail), 172_800_000_000);
    guardrails.set(&[(Key::CollectionSizeWarn, "null")]).unwrap();
    assert_eq!(guardrails.text(Key::CollectionSizeWarn), None);
}

#[test]
fn a_refused_change_changes_nothing() {
    let guardrails = Guardrails::default();
    let error = guardrails.set(&[(Key::GroupByEnabled, "false"), (Key::TablesFail, "0")]).unwrap_err();
    assert_eq!(
        error,
        "Invalid value for tables_fail_threshold: 0 is not allowed; if attempting to disable use -1"
    );
    assert!(guardrails.is_set(Key::GroupByEnabled));
    guardrails.set(&[(Key::TablesFail, "5")]).unwrap();
    let error = guardrails.set(&[(Key::TablesWarn, "6")]).unwrap_err();
    assert_eq!(
        error,
        "The warn threshold 6 for tables_warn_threshold should be lower than the fail threshold 5"
    );
    assert_eq!(guardrails.get(Key::TablesWarn), DISABLED);
}

#[test]
fn an_unknown_or_invalid_configured_guardrail_is_refused_by_name() {
    for (name, text, expected) in [
        ("nothing_enabled", "true", "unknown guardrail nothing_enabled"),
        ("read_consistency_levels_warned", "MOST", "No enum constant"),
        ("table_properties_warned", "comment, nothing", "'[nothing]' do not parse as valid table properties"),
        ("collection_size_warn_threshold", "10", "Invalid data storage: 10 Accepted units"),
    ] {
        let configured = [(name.to_owned(), text.to_owned())].into();
        let error = Guardrails::configured(&configured).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
