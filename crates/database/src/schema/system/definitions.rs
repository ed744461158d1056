//! The definitions of the system tables, column by column as in Cassandra 5.0.8.

/// A table with the options that its CREATE TABLE omits.
pub(crate) struct Definition {
    /// The CREATE TABLE statement.
    pub cql: &'static str,
    /// The `comment`.
    pub comment: &'static str,
    /// The `default_time_to_live`, seconds.
    pub default_time_to_live: u32,
    /// The class and options of `compaction`, if not the default.
    pub compaction: Option<(&'static str, &'static [(&'static str, &'static str)])>,
}

impl Definition {
    const fn new(comment: &'static str, cql: &'static str) -> Self {
        Self { cql, comment, default_time_to_live: 0, compaction: None }
    }

    const fn expiring(self, default_time_to_live: u32) -> Self {
        Self { default_time_to_live, ..self }
    }

    const fn compacted(self, class: &'static str, options: &'static [(&'static str, &'static str)]) -> Self {
        Self { compaction: Some((class, options)), ..self }
    }
}

const DAY: u32 = 24 * 60 * 60;

/// One window a day.
const DAILY: &[(&str, &str)] = &[
    ("compaction_window_size", "1"),
    ("compaction_window_unit", "DAYS"),
    ("max_threshold", "32"),
    ("min_threshold", "4"),
];

/// `system`.
pub(crate) const SYSTEM: &[Definition] = &[
    Definition::new(
        "batches awaiting replay",
        "CREATE TABLE batches (id timeuuid, mutations list<blob>, version int, PRIMARY KEY \
         ((id)))",
    )
    .compacted("SizeTieredCompactionStrategy", &[("max_threshold", "32"), ("min_threshold", "2")]),
    Definition::new(
        "in-progress paxos proposals",
        "CREATE TABLE paxos (row_key blob, cf_id UUID, in_progress_ballot timeuuid, \
         in_progress_read_ballot timeuuid, most_recent_commit blob, most_recent_commit_at \
         timeuuid, most_recent_commit_version int, proposal blob, proposal_ballot timeuuid, \
         proposal_version int, PRIMARY KEY ((row_key), cf_id))",
    )
    .compacted("LeveledCompactionStrategy", &[("max_threshold", "32"), ("min_threshold", "4")]),
    Definition::new(
        "built column indexes",
        "CREATE TABLE \"IndexInfo\" (table_name text, index_name text, value blob, PRIMARY KEY \
         ((table_name), index_name))",
    ),
    Definition::new(
        "paxos repair history",
        "CREATE TABLE paxos_repair_history (keyspace_name text, table_name text, points \
         frozen<list<tuple<blob, timeuuid>>>, PRIMARY KEY (keyspace_name, table_name))",
    ),
    Definition::new(
        "information about the local node",
        "CREATE TABLE local (key text, bootstrapped text, broadcast_address inet, \
         broadcast_port int, cluster_name text, cql_version text, data_center text, \
         gossip_generation int, host_id uuid, listen_address inet, listen_port int, \
         native_protocol_version text, partitioner text, rack text, release_version text, \
         rpc_address inet, rpc_port int, schema_version uuid, tokens set<varchar>, truncated_at \
         map<uuid, blob>, PRIMARY KEY ((key)))",
    ),
    Definition::new(
        "information about known peers in the cluster",
        "CREATE TABLE peers_v2 (peer inet, peer_port int, data_center text, host_id uuid, \
         preferred_ip inet, preferred_port int, rack text, release_version text, native_address \
         inet, native_port int, schema_version uuid, tokens set<varchar>, PRIMARY KEY ((peer), \
         peer_port))",
    ),
    Definition::new(
        "events related to peers",
        "CREATE TABLE peer_events_v2 (peer inet, peer_port int, hints_dropped map<timeuuid, \
         int>, PRIMARY KEY ((peer), peer_port))",
    ),
    Definition::new(
        "week-long compaction history",
        "CREATE TABLE compaction_history (id timeuuid, bytes_in bigint, bytes_out bigint, \
         columnfamily_name text, compacted_at timestamp, keyspace_name text, rows_merged \
         map<int, bigint>, compaction_properties frozen<map<text, text>>, PRIMARY KEY ((id)))",
    )
    .expiring(7 * DAY),
    Definition::new(
        "historic sstable read rates",
        "CREATE TABLE sstable_activity (keyspace_name text, columnfamily_name text, generation \
         int, rate_120m double, rate_15m double, PRIMARY KEY ((keyspace_name, \
         columnfamily_name, generation)))",
    ),
    Definition::new(
        "historic sstable read rates",
        "CREATE TABLE sstable_activity_v2 (keyspace_name text, table_name text, id text, \
         rate_120m double, rate_15m double, PRIMARY KEY ((keyspace_name, table_name, id)))",
    ),
    Definition::new(
        "per-table primary range size estimates, table is deprecated in favor of table_estimates",
        "CREATE TABLE size_estimates (keyspace_name text, table_name text, range_start text, \
         range_end text, mean_partition_size bigint, partitions_count bigint, PRIMARY KEY \
         ((keyspace_name), table_name, range_start, range_end))",
    ),
    Definition::new(
        "per-table range size estimates",
        "CREATE TABLE table_estimates (keyspace_name text, table_name text, range_type text, \
         range_start text, range_end text, mean_partition_size bigint, partitions_count bigint, \
         PRIMARY KEY ((keyspace_name), table_name, range_type, range_start, range_end))",
    ),
    Definition::new(
        "available keyspace/ranges during bootstrap/replace that are ready to be served",
        "CREATE TABLE available_ranges_v2 (keyspace_name text, full_ranges set<blob>, \
         transient_ranges set<blob>, PRIMARY KEY ((keyspace_name)))",
    ),
    Definition::new(
        "record of transferred ranges for streaming operation",
        "CREATE TABLE transferred_ranges_v2 (operation text, peer inet, peer_port int, \
         keyspace_name text, ranges set<blob>, PRIMARY KEY ((operation, keyspace_name), peer, \
         peer_port))",
    ),
    Definition::new(
        "views builds current progress",
        "CREATE TABLE view_builds_in_progress (keyspace_name text, view_name text, start_token \
         varchar, end_token varchar, last_token varchar, keys_built bigint, PRIMARY KEY \
         ((keyspace_name), view_name, start_token, end_token))",
    ),
    Definition::new(
        "built views",
        "CREATE TABLE built_views (keyspace_name text, view_name text, status_replicated \
         boolean, PRIMARY KEY ((keyspace_name), view_name))",
    ),
    Definition::new(
        "Stores the top partitions",
        "CREATE TABLE top_partitions (keyspace_name text, table_name text, top_type text, top \
         frozen<list<tuple<text, bigint>>>, last_update timestamp, PRIMARY KEY (keyspace_name, \
         table_name, top_type))",
    ),
    Definition::new(
        "prepared statements",
        "CREATE TABLE prepared_statements (prepared_id blob, logged_keyspace text, query_string \
         text, PRIMARY KEY ((prepared_id)))",
    ),
    Definition::new(
        "repairs",
        "CREATE TABLE repairs (parent_id timeuuid, started_at timestamp, last_update timestamp, \
         repaired_at timestamp, state int, coordinator inet, coordinator_port int, participants \
         set<inet>, participants_wp set<text>, ranges set<blob>, cfids set<uuid>, PRIMARY KEY \
         (parent_id))",
    ),
    Definition::new(
        "information about known peers in the cluster",
        "CREATE TABLE peers (peer inet, data_center text, host_id uuid, preferred_ip inet, rack \
         text, release_version text, rpc_address inet, schema_version uuid, tokens \
         set<varchar>, PRIMARY KEY ((peer)))",
    ),
    Definition::new(
        "events related to peers",
        "CREATE TABLE peer_events (peer inet, hints_dropped map<timeuuid, int>, PRIMARY KEY \
         ((peer)))",
    ),
    Definition::new(
        "record of transferred ranges for streaming operation",
        "CREATE TABLE transferred_ranges (operation text, peer inet, keyspace_name text, ranges \
         set<blob>, PRIMARY KEY ((operation, keyspace_name), peer))",
    ),
    Definition::new(
        "available keyspace/ranges during bootstrap/replace that are ready to be served",
        "CREATE TABLE available_ranges (keyspace_name text, ranges set<blob>, PRIMARY KEY \
         ((keyspace_name)))",
    ),
];

/// `system_schema`.
pub(crate) const SYSTEM_SCHEMA: &[Definition] = &[
    Definition::new(
        "keyspace definitions",
        "CREATE TABLE keyspaces (keyspace_name text, durable_writes boolean, replication \
         frozen<map<text, text>>, PRIMARY KEY ((keyspace_name)))",
    ),
    Definition::new(
        "table definitions",
        "CREATE TABLE tables (keyspace_name text, table_name text, allow_auto_snapshot boolean, \
         bloom_filter_fp_chance double, caching frozen<map<text, text>>, comment text, \
         compaction frozen<map<text, text>>, compression frozen<map<text, text>>, memtable \
         text, crc_check_chance double, dclocal_read_repair_chance double, default_time_to_live \
         int, extensions frozen<map<text, blob>>, flags frozen<set<text>>, gc_grace_seconds \
         int, incremental_backups boolean, id uuid, max_index_interval int, \
         memtable_flush_period_in_ms int, min_index_interval int, read_repair_chance double, \
         speculative_retry text, additional_write_policy text, cdc boolean, read_repair text, \
         PRIMARY KEY ((keyspace_name), table_name))",
    ),
    Definition::new(
        "column definitions",
        "CREATE TABLE columns (keyspace_name text, table_name text, column_name text, \
         clustering_order text, column_name_bytes blob, kind text, position int, type text, \
         PRIMARY KEY ((keyspace_name), table_name, column_name))",
    ),
    Definition::new(
        "column dynamic data masks",
        "CREATE TABLE column_masks (keyspace_name text, table_name text, column_name text, \
         function_keyspace text, function_name text, function_argument_types \
         frozen<list<text>>, function_argument_values frozen<list<text>>, \
         function_argument_nulls frozen<list<boolean>>, PRIMARY KEY ((keyspace_name), \
         table_name, column_name))",
    ),
    Definition::new(
        "dropped column registry",
        "CREATE TABLE dropped_columns (keyspace_name text, table_name text, column_name text, \
         dropped_time timestamp, kind text, type text, PRIMARY KEY ((keyspace_name), \
         table_name, column_name))",
    ),
    Definition::new(
        "trigger definitions",
        "CREATE TABLE triggers (keyspace_name text, table_name text, trigger_name text, options \
         frozen<map<text, text>>, PRIMARY KEY ((keyspace_name), table_name, trigger_name))",
    ),
    Definition::new(
        "view definitions",
        "CREATE TABLE views (keyspace_name text, view_name text, base_table_id uuid, \
         base_table_name text, where_clause text, allow_auto_snapshot boolean, \
         bloom_filter_fp_chance double, caching frozen<map<text, text>>, comment text, \
         compaction frozen<map<text, text>>, compression frozen<map<text, text>>, memtable \
         text, crc_check_chance double, dclocal_read_repair_chance double, default_time_to_live \
         int, extensions frozen<map<text, blob>>, gc_grace_seconds int, incremental_backups \
         boolean, id uuid, include_all_columns boolean, max_index_interval int, \
         memtable_flush_period_in_ms int, min_index_interval int, read_repair_chance double, \
         speculative_retry text, additional_write_policy text, cdc boolean, read_repair text, \
         PRIMARY KEY ((keyspace_name), view_name))",
    ),
    Definition::new(
        "secondary index definitions",
        "CREATE TABLE indexes (keyspace_name text, table_name text, index_name text, kind text, \
         options frozen<map<text, text>>, PRIMARY KEY ((keyspace_name), table_name, \
         index_name))",
    ),
    Definition::new(
        "user defined type definitions",
        "CREATE TABLE types (keyspace_name text, type_name text, field_names \
         frozen<list<text>>, field_types frozen<list<text>>, PRIMARY KEY ((keyspace_name), \
         type_name))",
    ),
    Definition::new(
        "user defined function definitions",
        "CREATE TABLE functions (keyspace_name text, function_name text, argument_types \
         frozen<list<text>>, argument_names frozen<list<text>>, body text, language text, \
         return_type text, called_on_null_input boolean, PRIMARY KEY ((keyspace_name), \
         function_name, argument_types))",
    ),
    Definition::new(
        "user defined aggregate definitions",
        "CREATE TABLE aggregates (keyspace_name text, aggregate_name text, argument_types \
         frozen<list<text>>, final_func text, initcond text, return_type text, state_func text, \
         state_type text, PRIMARY KEY ((keyspace_name), aggregate_name, argument_types))",
    ),
];

/// `system_auth`.
pub(crate) const SYSTEM_AUTH: &[Definition] = &[
    Definition::new(
        "role definitions",
        "CREATE TABLE roles (role text, is_superuser boolean, can_login boolean, salted_hash \
         text, member_of set<text>, PRIMARY KEY (role))",
    ),
    Definition::new(
        "mtls authorized identities lookup table",
        "CREATE TABLE identity_to_role (identity text, role text, PRIMARY KEY (identity))",
    ),
    Definition::new(
        "role memberships lookup table",
        "CREATE TABLE role_members (role text, member text, PRIMARY KEY (role, member))",
    ),
    Definition::new(
        "permissions granted to db roles",
        "CREATE TABLE role_permissions (role text, resource text, permissions set<text>, \
         PRIMARY KEY (role, resource))",
    ),
    Definition::new(
        "index of db roles with permissions granted on a resource",
        "CREATE TABLE resource_role_permissons_index (resource text, role text, PRIMARY KEY \
         (resource, role))",
    ),
    Definition::new(
        "user network permissions",
        "CREATE TABLE network_permissions (role text, dcs frozen<set<text>>, PRIMARY KEY \
         (role))",
    ),
    Definition::new(
        "user cidr permissions",
        "CREATE TABLE cidr_permissions (role text, cidr_groups frozen<set<text>>, PRIMARY KEY \
         (role))",
    ),
    Definition::new(
        "cidr groups to cidrs mapping",
        "CREATE TABLE cidr_groups (cidr_group text, cidrs frozen<set<tuple<inet, smallint>>>, \
         PRIMARY KEY (cidr_group))",
    ),
];

/// `system_distributed`.
pub(crate) const SYSTEM_DISTRIBUTED: &[Definition] = &[
    Definition::new(
        "Repair history",
        "CREATE TABLE repair_history (keyspace_name text, columnfamily_name text, id timeuuid, \
         parent_id timeuuid, range_begin text, range_end text, coordinator inet, \
         coordinator_port int, participants set<inet>, participants_v2 set<text>, \
         exception_message text, exception_stacktrace text, status text, started_at timestamp, \
         finished_at timestamp, PRIMARY KEY ((keyspace_name, columnfamily_name), id))",
    )
    .expiring(30 * DAY)
    .compacted("TimeWindowCompactionStrategy", DAILY),
    Definition::new(
        "Repair history",
        "CREATE TABLE parent_repair_history (parent_id timeuuid, keyspace_name text, \
         columnfamily_names set<text>, started_at timestamp, finished_at timestamp, \
         exception_message text, exception_stacktrace text, requested_ranges set<text>, \
         successful_ranges set<text>, options map<text, text>, PRIMARY KEY (parent_id))",
    )
    .expiring(30 * DAY)
    .compacted("TimeWindowCompactionStrategy", DAILY),
    Definition::new(
        "Materialized View build status",
        "CREATE TABLE view_build_status (keyspace_name text, view_name text, host_id uuid, \
         status text, PRIMARY KEY ((keyspace_name, view_name), host_id))",
    ),
    Definition::new(
        "Partition keys which have been denied access",
        "CREATE TABLE partition_denylist (ks_name text, table_name text, key blob, PRIMARY KEY \
         ((ks_name, table_name), key))",
    ),
];

/// `system_traces`.
pub(crate) const SYSTEM_TRACES: &[Definition] = &[
    Definition::new(
        "tracing sessions",
        "CREATE TABLE sessions (session_id uuid, command text, client inet, coordinator inet, \
         coordinator_port int, duration int, parameters map<text, text>, request text, \
         started_at timestamp, PRIMARY KEY ((session_id)))",
    ),
    Definition::new(
        "tracing events",
        "CREATE TABLE events (session_id uuid, event_id timeuuid, activity text, source inet, \
         source_port int, source_elapsed int, thread text, PRIMARY KEY ((session_id), \
         event_id))",
    ),
];
