//! HELP on the statements of CQL.

use super::Topic;

/// The pages of the statements, sorted.
pub(super) const STATEMENTS: [Topic; 31] = [
    Topic {
        name: "ALTER KEYSPACE",
        summary: "change the options of a keyspace",
        forms: &["ALTER KEYSPACE [IF EXISTS] <keyspace> WITH <option> = <value> [AND ...]"],
        text: "Changes replication or durable_writes. The replication is stored for the move to a \
               cluster: this node has one replica of everything.",
        examples: &["ALTER KEYSPACE shop WITH durable_writes = true"],
    },
    Topic {
        name: "ALTER MATERIALIZED VIEW",
        summary: "change the options of a view",
        forms: &["ALTER MATERIALIZED VIEW [IF EXISTS] <view> WITH <option> = <value> [AND ...]"],
        text: "Changes options that tables have, too. Columns and keys of a view cannot be changed.",
        examples: &["ALTER MATERIALIZED VIEW shop.by_city WITH comment = 'orders by city'"],
    },
    Topic {
        name: "ALTER ROLE",
        summary: "change the password or the rights of a role",
        forms: &["ALTER ROLE [IF EXISTS] <role> WITH <option> = <value> [AND ...]"],
        text: "Options are PASSWORD, HASHED PASSWORD, LOGIN, SUPERUSER, ACCESS TO DATACENTERS and ACCESS \
               FROM CIDRS. A role may change its own password.",
        examples: &["ALTER ROLE app WITH PASSWORD = 'another' AND LOGIN = true"],
    },
    Topic {
        name: "ALTER TABLE",
        summary: "change the columns or the options of a table",
        forms: &[
            "ALTER TABLE [IF EXISTS] <table> ADD [IF NOT EXISTS] <column> <type> [, ...]",
            "ALTER TABLE [IF EXISTS] <table> DROP [IF EXISTS] <column> [, ...]",
            "ALTER TABLE [IF EXISTS] <table> RENAME [IF EXISTS] <key column> TO <name> [AND ...]",
            "ALTER TABLE [IF EXISTS] <table> ALTER [IF EXISTS] <column> MASKED WITH <function> | DROP \
             MASKED",
            "ALTER TABLE [IF EXISTS] <table> WITH <option> = <value> [AND ...]",
        ],
        text: "A column that was dropped can be added again with the same type; its old values do not \
               come back.",
        examples: &[
            "ALTER TABLE shop.orders ADD note text",
            "ALTER TABLE shop.orders WITH compaction = {'class': 'LeveledCompactionStrategy'}",
        ],
    },
    Topic {
        name: "ALTER TYPE",
        summary: "add or rename fields of a type",
        forms: &[
            "ALTER TYPE [IF EXISTS] <type> ADD [IF NOT EXISTS] <field> <type>",
            "ALTER TYPE [IF EXISTS] <type> RENAME [IF EXISTS] <field> TO <name> [AND ...]",
        ],
        text: "Existing values have no value in a field that is added.",
        examples: &["ALTER TYPE shop.address ADD country text"],
    },
    Topic {
        name: "BATCH",
        summary: "several changes as one",
        forms: &[
            "BEGIN [UNLOGGED | COUNTER] BATCH [USING TIMESTAMP <microseconds>] <statement>; [<statement>; \
             ...] APPLY BATCH",
        ],
        text: "Applies all of its INSERT, UPDATE and DELETE statements or none. All conditions in it must \
               be about one partition, and hold together. Counters are changed in COUNTER batches alone.",
        examples: &[
            "BEGIN BATCH INSERT INTO shop.orders (id, total) VALUES (1, 5); UPDATE shop.orders SET total \
             = 6 WHERE id = 2; APPLY BATCH",
        ],
    },
    Topic {
        name: "CREATE AGGREGATE",
        summary: "a function over the rows of a query",
        forms: &[
            "CREATE [OR REPLACE] AGGREGATE [IF NOT EXISTS] <name> (<type>, ...) SFUNC <function> STYPE \
             <type> [FINALFUNC <function>] [INITCOND <term>]",
        ],
        text: "Calls SFUNC with the state and the arguments of each row, and FINALFUNC with the last \
               state.",
        examples: &["CREATE AGGREGATE shop.total (int) SFUNC plus STYPE int INITCOND 0"],
    },
    Topic {
        name: "CREATE FUNCTION",
        summary: "a function of values",
        forms: &["CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] <name> (<argument> <type>, ...) CALLED | \
             RETURNS NULL ON NULL INPUT RETURNS <type> LANGUAGE <language> AS '<body>'"],
        text: "Needs user_defined_functions_enabled. Bodies are in Lua, and run in a sandbox with limits \
               of time, instructions and memory.",
        examples: &[
            "CREATE FUNCTION shop.plus (a int, b int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua \
             AS 'return a + b'",
        ],
    },
    Topic {
        name: "CREATE INDEX",
        summary: "find rows by other columns",
        forms: &["CREATE [CUSTOM] INDEX [IF NOT EXISTS] [<name>] ON <table> (<column> | KEYS(<map>) | \
             VALUES(<map>) | ENTRIES(<map>) | FULL(<collection>)) [USING '<class>'] [WITH OPTIONS = \
             {...}]"],
        text: "Without USING, a secondary index, which finds equal values. USING 'sai' makes a \
               storage-attached index, which also finds ranges and nearest vectors. Many rows that exist \
               are indexed in the background.",
        examples: &[
            "CREATE INDEX ON shop.orders (city)",
            "CREATE INDEX by_total ON shop.orders (total) USING 'sai'",
        ],
    },
    Topic {
        name: "CREATE KEYSPACE",
        summary: "a set of tables",
        forms: &[
            "CREATE KEYSPACE [IF NOT EXISTS] <keyspace> WITH replication = {'class': '<strategy>', ...} \
             [AND durable_writes = true | false]",
        ],
        text: "The replication is stored for the move to a cluster: this node has one replica of \
               everything.",
        examples: &[
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        ],
    },
    Topic {
        name: "CREATE MATERIALIZED VIEW",
        summary: "rows of a table under another key",
        forms: &["CREATE MATERIALIZED VIEW [IF NOT EXISTS] <view> AS SELECT <column>, ... | * FROM <table> \
             WHERE <column> IS NOT NULL [AND ...] PRIMARY KEY (...) [WITH ...]"],
        text: "Needs materialized_views_enabled. The key has all columns of the table's key and at most \
               one other; each must be restricted by IS NOT NULL. Changes of the table change the view.",
        examples: &[
            "CREATE MATERIALIZED VIEW shop.by_city AS SELECT * FROM shop.orders WHERE city IS NOT NULL \
             AND id IS NOT NULL PRIMARY KEY (city, id)",
        ],
    },
    Topic {
        name: "CREATE ROLE",
        summary: "an account, or a group of rights",
        forms: &["CREATE ROLE [IF NOT EXISTS] <role> [WITH <option> = <value> [AND ...]]"],
        text: "Options are PASSWORD, HASHED PASSWORD, LOGIN, SUPERUSER, ACCESS TO DATACENTERS and ACCESS \
               FROM CIDRS. Needs an authenticator with passwords.",
        examples: &["CREATE ROLE app WITH PASSWORD = 'secret' AND LOGIN = true"],
    },
    Topic {
        name: "CREATE TABLE",
        summary: "a table",
        forms: &[
            "CREATE TABLE [IF NOT EXISTS] <table> (<column> <type> [STATIC] [PRIMARY KEY], ..., PRIMARY \
             KEY ((<partition key>), <clustering column>, ...)) [WITH CLUSTERING ORDER BY (<column> ASC | \
             DESC, ...) [AND <option> = <value> ...]]",
        ],
        text: "The partition key determines where rows are stored; clustering columns order the rows of a \
               partition. Static columns have one value a partition.",
        examples: &[
            "CREATE TABLE shop.orders (id int PRIMARY KEY, city text, total int)",
            "CREATE TABLE shop.events (day date, at timestamp, what text, PRIMARY KEY (day, at)) WITH \
             CLUSTERING ORDER BY (at DESC)",
        ],
    },
    Topic {
        name: "CREATE TYPE",
        summary: "a type with fields",
        forms: &["CREATE TYPE [IF NOT EXISTS] <type> (<field> <type>, ...)"],
        text: "Frozen values are written whole; fields of others can be set one by one.",
        examples: &["CREATE TYPE shop.address (street text, city text)"],
    },
    Topic {
        name: "DELETE",
        summary: "remove rows or values",
        forms: &[
            "DELETE [<column> | <collection>[<key>] | <udt>.<field>, ...] FROM <table> [USING TIMESTAMP \
             <microseconds>] WHERE <restriction> [AND ...] [IF EXISTS | IF <condition> [AND ...]]",
        ],
        text: "Without columns, removes rows: one, a range of clustering columns, or a partition.",
        examples: &[
            "DELETE FROM shop.orders WHERE id = 1",
            "DELETE note FROM shop.orders WHERE id = 1 IF EXISTS",
        ],
    },
    Topic {
        name: "DROP AGGREGATE",
        summary: "remove an aggregate",
        forms: &["DROP AGGREGATE [IF EXISTS] <name> [(<type>, ...)]"],
        text: "The types are necessary if several have the name.",
        examples: &["DROP AGGREGATE shop.total (int)"],
    },
    Topic {
        name: "DROP FUNCTION",
        summary: "remove a function",
        forms: &["DROP FUNCTION [IF EXISTS] <name> [(<type>, ...)]"],
        text: "The types are necessary if several have the name.",
        examples: &["DROP FUNCTION shop.plus (int, int)"],
    },
    Topic {
        name: "DROP INDEX",
        summary: "remove an index",
        forms: &["DROP INDEX [IF EXISTS] [<keyspace>.]<index>"],
        text: "Removes the index and its files.",
        examples: &["DROP INDEX IF EXISTS shop.by_total"],
    },
    Topic {
        name: "DROP KEYSPACE",
        summary: "remove a keyspace with all tables",
        forms: &["DROP KEYSPACE [IF EXISTS] <keyspace>"],
        text: "Removes its tables, types and functions. With auto_snapshot, which is the default, a \
               snapshot of each table remains.",
        examples: &["DROP KEYSPACE IF EXISTS shop"],
    },
    Topic {
        name: "DROP MATERIALIZED VIEW",
        summary: "remove a view",
        forms: &["DROP MATERIALIZED VIEW [IF EXISTS] <view>"],
        text: "Removes the view; its table is not changed.",
        examples: &["DROP MATERIALIZED VIEW shop.by_city"],
    },
    Topic {
        name: "DROP ROLE",
        summary: "remove a role",
        forms: &["DROP ROLE [IF EXISTS] <role>"],
        text: "Removes the role and its permissions.",
        examples: &["DROP ROLE app"],
    },
    Topic {
        name: "DROP TABLE",
        summary: "remove a table",
        forms: &["DROP TABLE [IF EXISTS] <table>"],
        text: "Removes the table and its indexes. With auto_snapshot, which is the default, a snapshot \
               remains. A table with views cannot be dropped.",
        examples: &["DROP TABLE IF EXISTS shop.orders"],
    },
    Topic {
        name: "DROP TYPE",
        summary: "remove a type",
        forms: &["DROP TYPE [IF EXISTS] <type>"],
        text: "A type that a table, a type or a function uses cannot be dropped.",
        examples: &["DROP TYPE shop.address"],
    },
    Topic {
        name: "GRANT",
        summary: "give permissions or a role",
        forms: &[
            "GRANT ALL | <permission> [PERMISSION] [, ...] ON <resource> TO <role>",
            "GRANT <role> TO <role>",
        ],
        text: "Permissions are CREATE, ALTER, DROP, SELECT, MODIFY, AUTHORIZE, DESCRIBE, EXECUTE, UNMASK \
               and SELECT_MASKED. Resources are ALL KEYSPACES, KEYSPACE <keyspace>, [TABLE] <table>, ALL \
               ROLES, ROLE <role>, ALL FUNCTIONS, FUNCTION <name>(<type>, ...).",
        examples: &["GRANT SELECT ON KEYSPACE shop TO app", "GRANT readers TO app"],
    },
    Topic {
        name: "INSERT",
        summary: "write a row",
        forms: &[
            "INSERT INTO <table> (<column>, ...) VALUES (<term>, ...) [IF NOT EXISTS] [USING TTL \
             <seconds> AND TIMESTAMP <microseconds>]",
            "INSERT INTO <table> JSON '<object>' [DEFAULT NULL | UNSET] [IF NOT EXISTS] [USING ...]",
        ],
        text: "Replaces the values of a row that exists, unless IF NOT EXISTS is there. null removes a \
               value.",
        examples: &[
            "INSERT INTO shop.orders (id, city, total) VALUES (1, 'Oslo', 5)",
            "INSERT INTO shop.orders JSON '{\"id\": 2, \"city\": \"Rome\"}' USING TTL 3600",
        ],
    },
    Topic {
        name: "LIST PERMISSIONS",
        summary: "who may do what",
        forms: &["LIST ALL | <permission> [PERMISSIONS] [ON <resource>] [OF <role> [NORECURSIVE]]"],
        text: "Lists permissions, with those that a role has from others.",
        examples: &["LIST ALL PERMISSIONS OF app"],
    },
    Topic {
        name: "LIST ROLES",
        summary: "the roles",
        forms: &["LIST ROLES [OF <role>] [NORECURSIVE]"],
        text: "Lists all roles, or those that a role has.",
        examples: &["LIST ROLES"],
    },
    Topic {
        name: "REVOKE",
        summary: "take permissions or a role",
        forms: &[
            "REVOKE ALL | <permission> [PERMISSION] [, ...] ON <resource> FROM <role>",
            "REVOKE <role> FROM <role>",
        ],
        text: "Takes what GRANT gave.",
        examples: &["REVOKE SELECT ON KEYSPACE shop FROM app"],
    },
    Topic {
        name: "SELECT",
        summary: "read rows",
        forms: &[
            "SELECT [JSON] [DISTINCT] * | <selector> [AS <name>], ... FROM <table> [WHERE <restriction> \
             [AND ...]] [GROUP BY <key column>, ...] [ORDER BY <column> ASC | DESC | ANN OF <vector>] \
             [PER PARTITION LIMIT <n>] [LIMIT <n>] [ALLOW FILTERING]",
        ],
        text: "Restrictions are =, <, <=, >, >=, IN, CONTAINS, CONTAINS KEY and LIKE. Those of the \
               partition key, of the first clustering columns, and of indexed columns find their rows; \
               others read all rows, which ALLOW FILTERING permits. Selectors are columns, functions such \
               as count, writetime, ttl and cast, arithmetic, and literals with a type.",
        examples: &[
            "SELECT city, total FROM shop.orders WHERE id = 1",
            "SELECT count(*) FROM shop.orders WHERE total > 3 ALLOW FILTERING",
        ],
    },
    Topic {
        name: "TRUNCATE",
        summary: "remove all rows of a table",
        forms: &["TRUNCATE [TABLE] <table>"],
        text: "Removes all rows at once. With auto_snapshot, which is the default, a snapshot remains.",
        examples: &["TRUNCATE shop.orders"],
    },
    Topic {
        name: "UPDATE",
        summary: "write values of a row",
        forms: &[
            "UPDATE <table> [USING TTL <seconds> AND TIMESTAMP <microseconds>] SET <column> = <term>, ... \
             WHERE <restriction> [AND ...] [IF EXISTS | IF <condition> [AND ...]]",
        ],
        text: "Creates a row that does not exist, unless there is a condition. Collections have +, - and \
               [<key>], counters + and -.",
        examples: &[
            "UPDATE shop.orders SET total = 7 WHERE id = 1 IF total = 5",
            "UPDATE shop.visits SET times = times + 1 WHERE page = '/'",
        ],
    },
];
