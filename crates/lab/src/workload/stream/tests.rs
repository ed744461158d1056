use super::*;
use std::collections::HashMap;

fn workload(letter: char, pairs: &str) -> CoreWorkload {
    let mut workload = CoreWorkload::core(letter).unwrap();
    pairs.split_whitespace().for_each(|pair| workload.set_pair(pair).unwrap());
    workload
}

fn run(workload: &CoreWorkload) -> OperationStream {
    let keys = KeySpace::starting_at(workload.record_count);
    StreamFactory::run(workload, keys, 42).unwrap().stream(0)
}

#[test]
fn each_core_workload_mixes_its_operations_in_proportion() {
    const DRAWS: u32 = 100_000;
    for (letter, expected) in [
        ('a', &[(OperationKind::Read, 0.5), (OperationKind::Update, 0.5)][..]),
        ('b', &[(OperationKind::Read, 0.95), (OperationKind::Update, 0.05)]),
        ('c', &[(OperationKind::Read, 1.0)]),
        ('d', &[(OperationKind::Read, 0.95), (OperationKind::Insert, 0.05)]),
        ('e', &[(OperationKind::Scan, 0.95), (OperationKind::Insert, 0.05)]),
        ('f', &[(OperationKind::Read, 0.5), (OperationKind::ReadModifyWrite, 0.5)]),
    ] {
        let mut stream = run(&workload(letter, "recordcount=1000 operationcount=100000"));
        let mut counts: HashMap<&str, u32> = HashMap::new();
        for _ in 0..DRAWS {
            let operation = stream.next_operation();
            if let Operation::Insert { key } = operation {
                stream.acknowledge(key);
            }
            *counts.entry(operation.kind().name_among(&[])).or_default() += 1;
        }
        assert_eq!(counts.len(), expected.len(), "workload {letter}: {counts:?}");
        for (kind, share) in expected {
            let seen = f64::from(counts[kind.name_among(&[])]) / f64::from(DRAWS);
            assert!((seen - share).abs() < 0.006, "workload {letter} {}: {seen}", kind.name_among(&[]));
        }
    }
}

#[test]
fn a_load_inserts_every_key_once_in_order_with_all_fields() {
    let workload = workload('a', "recordcount=100");
    let keys = KeySpace::starting_at(workload.insert_start);
    let mut stream = StreamFactory::load(&workload, keys.clone(), 1).unwrap().stream(0);
    let (mut name, mut values) = (String::new(), FieldValues::default());
    for number in 0..100 {
        assert_eq!(stream.next_operation(), Operation::Insert { key: number });
        stream.write_key(number, &mut name);
        stream.write_values(&name, None, &mut values);
        assert_eq!(values.len(), 10);
        assert!(values.iter().all(|(_, value)| value.len() == 100 && value.is_ascii()));
        stream.acknowledge(number);
    }
    assert_eq!(keys.end(), 100);
}

#[test]
fn operations_request_only_acknowledged_keys() {
    for letter in ['d', 'e'] {
        let workload = workload(letter, "recordcount=100 operationcount=10000");
        let keys = KeySpace::starting_at(100);
        let mut stream = StreamFactory::run(&workload, keys.clone(), 5).unwrap().stream(0);
        let mut pending = Vec::new();
        let mut asked_new = false;
        for _ in 0..10_000 {
            match stream.next_operation() {
                Operation::Insert { key } => {
                    pending.push(key);
                    if pending.len() == 8 {
                        pending.drain(..).for_each(|key| stream.acknowledge(key));
                    }
                }
                operation => {
                    assert!(operation.key() < keys.end());
                    asked_new |= operation.key() >= 100;
                }
            }
        }
        assert!(asked_new, "workload {letter} reads what it inserted");
    }
}

#[test]
fn scan_lengths_are_uniform() {
    let mut stream = run(&workload('e', "insertproportion=0 recordcount=1000"));
    let mut lengths = vec![0u32; 101];
    for _ in 0..200_000 {
        let Operation::Scan { length, field: None, .. } = stream.next_operation() else { panic!("no scan") };
        lengths[length as usize] += 1;
    }
    assert_eq!(lengths[0], 0);
    assert!(lengths[1..].iter().all(|count| (1700..2300).contains(count)), "{lengths:?}");
}

#[test]
fn updates_write_one_random_field_by_default() {
    let mut stream = run(&workload('a', "readproportion=0 updateproportion=1"));
    let mut seen = [false; 10];
    for _ in 0..1000 {
        let Operation::Update { field: Some(field), .. } = stream.next_operation() else {
            panic!("no field")
        };
        seen[field] = true;
    }
    assert_eq!(seen, [true; 10]);
    let mut stream = run(&workload('a', "readproportion=0 writeallfields=true"));
    assert!(matches!(stream.next_operation(), Operation::Update { field: None, .. }));
}

#[test]
fn streams_depend_on_seed_and_worker() {
    let workload = workload('a', "recordcount=1000000");
    let stream = |seed, worker| {
        let keys = KeySpace::starting_at(workload.record_count);
        let mut stream = StreamFactory::run(&workload, keys, seed).unwrap().stream(worker);
        (0..20).map(|_| stream.next_operation()).collect::<Vec<_>>()
    };
    assert_eq!(stream(1, 0), stream(1, 0));
    assert_ne!(stream(1, 0), stream(1, 1));
    assert_ne!(stream(1, 0), stream(2, 0));
}

#[test]
fn data_integrity_distinguishes_right_values() {
    let mut stream = run(&workload('a', "dataintegrity=true"));
    let mut rule = stream.value_rule().unwrap();
    let mut values = FieldValues::default();
    stream.write_values("user1", None, &mut values);
    for (field, value) in values.iter() {
        assert!(rule.is_right("user1", field, value));
        assert!(!rule.is_right("user2", field, value));
        assert!(!rule.is_right("user1", (field + 1) % 10, value));
        assert!(!rule.is_right("user1", field, &value[1..]));
    }
    assert!(!rule.is_right("user1", 10, b""));
    assert!(run(&workload('a', "")).value_rule().is_none());
}

#[test]
fn shares_of_workers_sum_to_the_total() {
    let shares: Vec<u64> = (0..4).map(|worker| share_of(10, 4, worker)).collect();
    assert_eq!(shares, [3, 3, 2, 2]);
}

#[test]
fn processes_insert_distinct_keys_and_choose_only_existing_ones() {
    let workload = workload('d', "recordcount=100 operationcount=1000");
    let bounds = KeyBounds { end: 90, next: 100 };
    let mut all = std::collections::BTreeSet::new();
    let mut inserted = Vec::new();
    for turn in 0..3 {
        let keys = KeySpace::interleaved(bounds, turn, 3);
        let mut stream = StreamFactory::run(&workload, keys.clone(), 5).unwrap().stream(0);
        let mut own = std::collections::BTreeSet::new();
        let mut chose_own = false;
        for _ in 0..4000 {
            match stream.next_operation() {
                Operation::Insert { key } => {
                    stream.acknowledge(key);
                    assert!(key >= 100 && key % 3 == (100 + turn) % 3 && all.insert(key), "{key}");
                    own.insert(key);
                }
                operation => {
                    let key = operation.key();
                    assert!(key < 90 || own.contains(&key), "{key}");
                    chose_own |= key >= 90;
                }
            }
        }
        assert!(chose_own);
        assert_eq!(keys.assigned(), own.len() as u64);
        inserted.push(own.len() as u64);
    }
    let after = bounds.after(&inserted);
    assert_eq!(after.end, 90, "the gap before the new keys stays");
    assert!(all.iter().all(|key| *key < after.next));
    let dense = KeyBounds::dense(100).after(&inserted);
    assert!((100..dense.end).all(|key| all.contains(&key)) && dense.next == after.next);
}
