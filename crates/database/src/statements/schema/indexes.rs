//! CREATE INDEX and DROP INDEX.

use std::sync::Arc;

use cassette_cql::ast::{self, IndexTargetKind};
use cassette_rows::{ColumnKind, DataType, TableMetadata};

use super::{Change, SchemaContext, is_word, keyspace_to_change};
use crate::basics::error::{Result, bail_config, bail_invalid};
use crate::basics::response::SchemaChangeKind;
use crate::planning::restrictions::existing;
use crate::schema::catalog::Keyspace;
use crate::schema::indexes::{
    Analyzer, BOOLEAN_OPTIONS, CLASS_NAME, Index, IndexKind, Part, SASI, SIMILARITY_FUNCTION, Sasi, TARGET,
    Target, is_storage_attached, type_of_entries,
};
use crate::schema::options::properties::Attributes;
use crate::schema::system::TextMap;

/// The name of non-custom indexes in `USING`.
const LEGACY: &str = "legacy_local_table";

/// Cassandra's warning of SASI indexes.
const SASI_WARNING: &str = "SASI indexes are experimental and are not recommended for production use.";

/// The options of storage-attached indexes that apply only to vectors.
const VECTOR_OPTIONS: [&str; 4] =
    ["maximum_node_connections", "construction_beam_width", SIMILARITY_FUNCTION, "optimize_for"];

/// The similarity functions of vector indexes, in the order of messages.
const SIMILARITY_FUNCTIONS: [&str; 3] = ["EUCLIDEAN", "DOT_PRODUCT", "COSINE"];
const PURPOSES: [&str; 2] = ["LATENCY", "RECALL"];

/// Cassandra's warning of indexes of vectors.
const VECTOR_WARNING: &str = "SAI ANN indexes on vector columns are experimental and are not recommended for \
    production use.\nThey don't yet support SELECT queries with:\n * Consistency level higher than \
    ONE/LOCAL_ONE.\n * Paging.\n * No LIMIT clauses.\n * PER PARTITION LIMIT clauses.\n * GROUP BY clauses.\n * \
    Aggregation functions.\n * Filters on columns without a SAI index.";

/// The maximum length of the name of a column with a custom index.
const COLUMN_NAME_LENGTH_MAX: usize = 48;

/// The maximum length of the name of an index.
const INDEX_NAME_LENGTH: usize = 254;

/// The implementation in the statement.
struct Implementation {
    kind: IndexKind,
    options: TextMap,
}

pub(crate) fn create(
    statement: &ast::CreateIndex,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    cx.guard.index_creation()?;
    let implementation = implementation(statement)?;
    let kind = implementation.kind;
    if kind == IndexKind::Sasi && !cx.sasi_indexes_enabled {
        bail_invalid!(
            "SASI indexes are disabled. Set `sasi_indexes_enabled: true` in the configuration file (--config) to \
             use them."
        );
    }
    let keyspace = keyspace_to_change(keyspace, cx)?;
    let Some(table) = keyspace.tables.get(statement.table.name.as_str()) else {
        bail_invalid!("Table '{}' doesn't exist", statement.table.name.as_str());
    };
    if let Some(name) = &statement.name
        && keyspace.indexes.contains_key(name.as_str())
    {
        if statement.if_not_exists {
            return Ok(unchanged(kind, cx));
        }
        bail_invalid!("Index '{}' already exists", name.as_str());
    }
    let given = statement.name.as_ref().map(ast::Identifier::as_str);
    cx.guard.new_index(given, &table.name, keyspace.indexes_of(table).count())?;
    if keyspace.views.contains_key(&table.name) {
        bail_invalid!("Secondary indexes on materialized views aren't supported");
    }
    if table.is_counter {
        bail_invalid!("Secondary indexes on counter tables aren't supported");
    }
    let targets = targets(statement, kind, table)?;
    let name = match &statement.name {
        Some(name) => name.as_str().to_owned(),
        None => available_name(keyspace, table, &targets),
    };
    let options = implementation.options.clone().into_iter().chain(Index::options_of(&targets)).collect();
    let same = |index: &&Arc<Index>| index.kind == kind && index.options == options;
    if let Some(existing) = keyspace.indexes_of(table).find(same) {
        if statement.if_not_exists {
            return Ok(unchanged(kind, cx));
        }
        bail_invalid!("Index {name} is a duplicate of existing index {}", existing.name);
    }
    if !is_word(&name) {
        bail_config!("Illegal index name {name}");
    }
    // A directory has the name, after a dot.
    if name.len() > INDEX_NAME_LENGTH {
        bail_config!(
            "invalid index name {name}: expected at most {INDEX_NAME_LENGTH} characters, found {}",
            name.len()
        );
    }
    match kind {
        IndexKind::Composites => {}
        IndexKind::StorageAttached => validate_storage_attached(&implementation, &targets, keyspace, table)?,
        IndexKind::Sasi => validate_sasi(&implementation, &targets, table)?,
    }
    let index = Index::new(&name, kind, options, cx.timestamp, table)?;
    let mut after = (**keyspace).clone();
    after.indexes.insert(name, Arc::new(index));
    let mut warnings = vector_warnings(&after, table);
    warnings.extend((kind == IndexKind::Sasi).then(|| SASI_WARNING.to_owned()));
    Ok(Some(Change { warnings, ..changed(after, &table.name) }))
}

/// Warns about the kind of an index that exists already.
fn unchanged(kind: IndexKind, cx: &SchemaContext<'_>) -> Option<Change> {
    if kind == IndexKind::Sasi {
        cx.bound.warn(SASI_WARNING);
    }
    None
}

/// Returns a warning for each index of vectors on `table`: Cassandra validates all indexes of a
/// table when one is created, and when a column is added.
pub(super) fn vector_warnings(keyspace: &Keyspace, table: &TableMetadata) -> Vec<String> {
    let of_vectors = keyspace.indexes_of(table).filter(|index| index.similarity.is_some());
    of_vectors.map(|_| VECTOR_WARNING.to_owned()).collect()
}

/// Returns the indexed columns.
fn targets(statement: &ast::CreateIndex, kind: IndexKind, table: &TableMetadata) -> Result<Vec<Target>> {
    let mut targets = Vec::with_capacity(statement.targets.len());
    for target in &statement.targets {
        targets.push(prepare(target, table)?);
    }
    if kind == IndexKind::Composites {
        match &targets[..] {
            [_] => {}
            [] => bail_invalid!("Only CUSTOM indexes can be created without specifying a target column"),
            _ => bail_invalid!("Only CUSTOM indexes support multiple columns"),
        }
    }
    let is_twice = |i: usize| targets[..i].iter().any(|other: &Target| other.column == targets[i].column);
    if let Some(i) = (1..targets.len()).find(|i| is_twice(*i)) {
        bail_invalid!("Duplicate column '{}' in index target list", targets[i].column);
    }
    for target in &targets {
        if kind != IndexKind::Composites && !is_word(&target.column) {
            bail_invalid!("Column '{}' contains non-alphanumeric-underscore characters", target.column);
        }
        if kind != IndexKind::Composites && target.column.len() > COLUMN_NAME_LENGTH_MAX {
            bail_invalid!(
                "Column '{}' is longer than the permissible name length of {COLUMN_NAME_LENGTH_MAX} characters",
                target.column
            );
        }
        validate(target, table)?;
    }
    Ok(targets)
}

pub(crate) fn drop(
    statement: &ast::DropElement,
    keyspace: &str,
    cx: &SchemaContext<'_>,
) -> Result<Option<Change>> {
    let name = statement.name.name.as_str();
    let found = cx.catalog.keyspace(keyspace).and_then(|found| Some((found, found.indexes.get(name)?)));
    let Some((keyspace, index)) = found else {
        if statement.if_exists {
            return Ok(None);
        }
        bail_invalid!("Index '{keyspace}.{name}' doesn't exist'");
    };
    let mut after = (**keyspace).clone();
    after.indexes.remove(name);
    Ok(Some(changed(after, &index.base.name)))
}

/// For clients, an index is part of its table.
fn changed(after: Keyspace, table: &str) -> Change {
    Change::of_table(SchemaChangeKind::Updated, after, table)
}

fn implementation(statement: &ast::CreateIndex) -> Result<Implementation> {
    let attributes = Attributes(&statement.properties);
    attributes.refuse_unknown(&["options"])?;
    let is_legacy = |class: &str| class.eq_ignore_ascii_case(LEGACY);
    if !statement.custom && statement.using.as_deref().is_none_or(is_legacy) {
        if !statement.properties.is_empty() {
            bail_invalid!("Cannot specify options for a non-CUSTOM index");
        }
        return Ok(Implementation { kind: IndexKind::Composites, options: TextMap::new() });
    }
    let class = statement.using.as_deref().unwrap_or(LEGACY);
    let options = attributes.map("options")?.unwrap_or_default();
    for option in [CLASS_NAME, TARGET] {
        if options.iter().any(|(key, _)| &**key == option) {
            bail_invalid!("Cannot specify {option} as a CUSTOM option");
        }
    }
    let options = options.iter().map(|(key, value)| (key.to_string(), value.to_string()));
    let options = options.chain([(CLASS_NAME.to_owned(), class.to_owned())]).collect();
    let kind = if class == SASI { IndexKind::Sasi } else { IndexKind::StorageAttached };
    Ok(Implementation { kind, options })
}

/// Performs Cassandra's checks of a SASI index.
fn validate_sasi(index: &Implementation, targets: &[Target], table: &TableMetadata) -> Result<()> {
    let [target] = targets else {
        let listed: Vec<String> = targets.iter().map(Target::to_text).collect();
        bail_config!("failed to retrieve target column for: {}", listed.join(", "));
    };
    let options = index.options.clone().into_iter().chain(Index::options_of(targets)).collect();
    let column = existing(table, &target.column)?;
    Sasi::new(&column, &options).map(|_| ())
}

/// Performs Cassandra's checks of a storage-attached index.
fn validate_storage_attached(
    index: &Implementation,
    targets: &[Target],
    keyspace: &Keyspace,
    table: &TableMetadata,
) -> Result<()> {
    let class = index.options.get(CLASS_NAME).map_or("", String::as_str);
    if !is_storage_attached(class) {
        bail_config!("Unable to find custom indexer class '{class}'");
    }
    let is_known =
        |name: &str| name == CLASS_NAME || BOOLEAN_OPTIONS.contains(&name) || VECTOR_OPTIONS.contains(&name);
    let unknown: Vec<&str> =
        index.options.keys().map(String::as_str).filter(|name| !is_known(name)).collect();
    if !unknown.is_empty() {
        bail_config!(
            "Properties specified [{}] are not understood by StorageAttachedIndex",
            unknown.join(", ")
        );
    }
    let [target] = targets else {
        let listed: Vec<String> = targets.iter().map(Target::to_text).collect();
        match targets {
            [] => bail_invalid!("Failed to retrieve target column for: "),
            _ => bail_invalid!(
                "A storage-attached index cannot be created over multiple columns: {}",
                listed.join(", ")
            ),
        }
    };
    let column = existing(table, &target.column)?;
    let of_kind = |index: &&Arc<Index>| index.kind == IndexKind::StorageAttached && index.target == *target;
    if keyspace.indexes_of(table).any(|index| of_kind(&index)) {
        bail_invalid!(
            "Cannot create more than one storage-attached index on the same column: {}",
            column.name
        );
    }
    let analysis = index.options.iter().filter(|(name, _)| BOOLEAN_OPTIONS.contains(&name.as_str()));
    let analysis: Vec<String> = analysis.map(|(name, value)| format!("'{name}': '{value}'")).collect();
    if !analysis.is_empty() && matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
        bail_invalid!(
            "Analysis options are not supported on primary key columns, but found {{{}}}",
            analysis.join(", ")
        );
    }
    Analyzer::of_column(&column.data_type, target.part, &index.options)?;
    let parts = match (&column.data_type, target.part) {
        (data_type, Part::Simple | Part::Full) => vec![data_type],
        (DataType::List { element, .. } | DataType::Set { element, .. }, _) => vec![&**element],
        (DataType::Map { key, .. }, Part::Keys) => vec![&**key],
        (DataType::Map { value, .. }, Part::Values) => vec![&**value],
        (DataType::Map { key, value, .. }, _) => vec![&**key, &**value],
        (data_type, _) => vec![data_type],
    };
    if let DataType::Vector { element, dimension } = &column.data_type {
        return validate_vectors(element, *dimension, &index.options);
    }
    if index.options.keys().any(|name| VECTOR_OPTIONS.contains(&name.as_str()))
        && let Some(part) = parts.first()
    {
        let indexed = match &parts[..] {
            [key, value] => type_of_entries(key, value),
            _ => part.to_string(),
        };
        bail_invalid!("CQL type {indexed} cannot have vector options");
    }
    match parts.into_iter().find(|part| !is_indexable(part)) {
        Some(part) => bail_invalid!("Unsupported type: {part}"),
        None => Ok(()),
    }
}

/// Performs Cassandra's checks of an index of vectors.
fn validate_vectors(element: &DataType, dimension: u32, options: &TextMap) -> Result<()> {
    let [connections, width, similarity, purpose] = VECTOR_OPTIONS;
    for (option, what) in [(connections, "Maximum node connections"), (width, "Construction beam width")] {
        if options.contains_key(option) {
            bail_invalid!("{what} cannot be set without enabling SAI_VECTOR_ALLOW_CUSTOM_PARAMETERS");
        }
    }
    let one_of = |option: &str, known: &[&str]| {
        let value = options.get(option).map(|value| value.to_uppercase());
        value.filter(|value| !known.contains(&value.as_str()))
    };
    if let Some(value) = one_of(similarity, &SIMILARITY_FUNCTIONS) {
        let known = SIMILARITY_FUNCTIONS.join(", ");
        bail_invalid!(
            "Similarity function {value} was not recognized for index null. Valid values are: {known}"
        );
    }
    if let Some(value) = one_of(purpose, &PURPOSES) {
        let known = PURPOSES.join(", ");
        bail_invalid!("optimize_for '{value}' was not recognized for index null. Valid values are: {known}");
    }
    if *element != DataType::Float {
        bail_invalid!("SAI ANN indexes are only allowed on vector columns with float elements");
    }
    let is_cosine = options.get(similarity).is_none_or(|name| name.eq_ignore_ascii_case("cosine"));
    if dimension == 1 && is_cosine {
        bail_invalid!("Cosine similarity is not supported for single-dimension vectors");
    }
    Ok(())
}

/// Whether a storage-attached index supports values of a type.
fn is_indexable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Blob
        | DataType::Duration
        | DataType::Counter
        | DataType::Vector { .. }
        | DataType::Custom(_) => false,
        multi => !multi.is_multi_cell(),
    }
}

fn prepare(target: &ast::IndexTarget, table: &TableMetadata) -> Result<Target> {
    let column = existing(table, &target.column)?;
    let is_collection = is_collection(&column.data_type);
    let part = match target.kind {
        IndexTargetKind::Simple if is_collection => Part::Values,
        IndexTargetKind::Simple => Part::Simple,
        IndexTargetKind::Values => Part::Values,
        IndexTargetKind::Keys => Part::Keys,
        IndexTargetKind::Entries => Part::Entries,
        IndexTargetKind::Full => Part::Full,
    };
    Ok(Target { column: column.name.clone(), part })
}

fn is_collection(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List { .. } | DataType::Set { .. } | DataType::Map { .. })
}

/// Rejects columns that cannot be indexed, or not in this way.
fn validate(target: &Target, table: &TableMetadata) -> Result<()> {
    let column = existing(table, &target.column)?;
    let (name, data_type) = (&column.name, &column.data_type);
    if data_type.contains_duration() {
        let on = match data_type {
            _ if is_collection(data_type) => "collections containing durations",
            DataType::Tuple(_) => "tuples containing durations",
            DataType::Udt { .. } => "UDTs containing durations",
            _ => "duration columns",
        };
        bail_invalid!("Secondary indexes are not supported on {on}");
    }
    if table.layout.is_compact() {
        match column.kind {
            ColumnKind::PartitionKey | ColumnKind::Clustering => bail_invalid!(
                "Secondary indexes are not supported on PRIMARY KEY columns in COMPACT STORAGE tables"
            ),
            ColumnKind::Regular => bail_invalid!(
                "Secondary indexes are not supported on compact value column of COMPACT STORAGE tables"
            ),
            ColumnKind::Static => {}
        }
    }
    if column.kind == ColumnKind::PartitionKey && table.partition_key.len() == 1 {
        bail_invalid!("Cannot create secondary index on the only partition key column {name}");
    }
    let is_frozen_collection = is_collection(data_type) && !data_type.is_multi_cell();
    let part = target.part.name();
    if is_frozen_collection && target.part != Part::Full {
        let quoted = cassette_cql::quote_identifier(name);
        bail_invalid!(
            "Cannot create {part}() index on frozen column {name}. Frozen collections are immutable and \
             must be fully indexed by using the 'full({quoted})' modifier"
        );
    }
    if !is_frozen_collection && target.part == Part::Full {
        bail_invalid!("full() indexes can only be created on frozen collections");
    }
    if !is_collection(data_type) && target.part != Part::Simple {
        bail_invalid!(
            "Cannot create {part}() index on {name}. Non-collection columns only support simple indexes"
        );
    }
    let is_map = matches!(data_type, DataType::Map { frozen: false, .. });
    if !is_map && matches!(target.part, Part::Keys | Part::Entries) {
        bail_invalid!("Cannot create index on {part} of column {name} with non-map type");
    }
    if matches!(data_type, DataType::Udt { frozen: false, .. }) {
        bail_invalid!("Cannot create index on non-frozen UDT column {name}");
    }
    Ok(())
}

/// Returns `<table>_<column>_idx`, with a number if the name exists.
fn available_name(keyspace: &Keyspace, table: &TableMetadata, targets: &[Target]) -> String {
    let mut base = match targets {
        [target] => format!("{}_{}_idx", table.name, target.column),
        _ => format!("{}_idx", table.name),
    };
    base.retain(|c| c.is_ascii_alphanumeric() || c == '_');
    let numbered = (1u32..).map(|n| format!("{base}_{n}"));
    let free = |name: &String| !keyspace.indexes.contains_key(name);
    std::iter::once(base.clone()).chain(numbered).find(free).unwrap_or(base)
}

/// Returns the names of the indexes on a column, as listed in messages; `None` if there are none.
pub(crate) fn dependent_indexes(keyspace: &Keyspace, table: &TableMetadata, column: &str) -> Option<String> {
    let of_column = keyspace.indexes_of(table).filter(|index| index.column.name == column);
    let names: Vec<&str> = of_column.map(|index| index.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}
