/* The C interface of Cassette. docs/c-api.md is the guide.
 *
 * Generated from crates/c/src; a test compares them. */

#ifndef CASSETTE_H
#define CASSETTE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 The result of a call. Codes keep their meaning in later versions, which may add others.
 */
typedef enum {
    /*
     The call succeeded.
     */
    CASSETTE_STATUS_OK = 0,
    /*
     The text is not valid CQL; the error has the line and the column.
     */
    CASSETTE_STATUS_SYNTAX = 1,
    /*
     The statement or its values are invalid; executing it again does not help.
     */
    CASSETTE_STATUS_INVALID = 2,
    /*
     The keyspace, table or type to create exists.
     */
    CASSETTE_STATUS_ALREADY_EXISTS = 3,
    /*
     The operation is not permitted, such as a write to a system table.
     */
    CASSETTE_STATUS_UNAUTHORIZED = 4,
    /*
     The statement writes, and the database is open for reading only.
     */
    CASSETTE_STATUS_READ_ONLY = 5,
    /*
     An option has an invalid value.
     */
    CASSETTE_STATUS_CONFIG = 6,
    /*
     The directory is open in another process, or in this one.
     */
    CASSETTE_STATUS_LOCKED = 7,
    /*
     The database was closed.
     */
    CASSETTE_STATUS_CLOSED = 8,
    /*
     A file or a stored definition is damaged.
     */
    CASSETTE_STATUS_CORRUPT = 9,
    /*
     Files of another version or program.
     */
    CASSETTE_STATUS_INCOMPATIBLE = 10,
    /*
     The disk, or the limit of files in memory, is full.
     */
    CASSETTE_STATUS_DISK_FULL = 11,
    /*
     The operating system failed to read or write a file.
     */
    CASSETTE_STATUS_IO = 12,
    /*
     A consistency level needs more replicas than there are.
     */
    CASSETTE_STATUS_UNAVAILABLE = 13,
    /*
     The read took longer than its timeout.
     */
    CASSETTE_STATUS_READ_TIMEOUT = 14,
    /*
     The write took longer than its timeout, and was applied as a whole or not at all.
     */
    CASSETTE_STATUS_WRITE_TIMEOUT = 15,
    /*
     Too many operations are in progress.
     */
    CASSETTE_STATUS_OVERLOADED = 16,
    /*
     The statement was interrupted, and nothing was changed.
     */
    CASSETTE_STATUS_INTERRUPTED = 17,
    /*
     A limit of the database ended the statement.
     */
    CASSETTE_STATUS_LIMIT_EXCEEDED = 18,
    /*
     The database stopped after a fault and has to be opened again.
     */
    CASSETTE_STATUS_STOPPED = 19,
    /*
     An internal error of the database.
     */
    CASSETTE_STATUS_INTERNAL = 20,
    /*
     The call was wrong: a null pointer, an index out of range, a value that is null.
     */
    CASSETTE_STATUS_MISUSE = 21,
    /*
     `cassette_step` has the next row.
     */
    CASSETTE_STATUS_ROW = 100,
    /*
     `cassette_step` has reached the end.
     */
    CASSETTE_STATUS_DONE = 101,
} cassette_status;

/*
 A type of CQL. The numbers are those of the native protocol, but for `vector`.
 */
typedef enum {
    CASSETTE_TYPE_CUSTOM = 0,
    CASSETTE_TYPE_ASCII = 1,
    CASSETTE_TYPE_BIGINT = 2,
    CASSETTE_TYPE_BLOB = 3,
    CASSETTE_TYPE_BOOLEAN = 4,
    CASSETTE_TYPE_COUNTER = 5,
    CASSETTE_TYPE_DECIMAL = 6,
    CASSETTE_TYPE_DOUBLE = 7,
    CASSETTE_TYPE_FLOAT = 8,
    CASSETTE_TYPE_INT = 9,
    CASSETTE_TYPE_TIMESTAMP = 11,
    CASSETTE_TYPE_UUID = 12,
    CASSETTE_TYPE_TEXT = 13,
    CASSETTE_TYPE_VARINT = 14,
    CASSETTE_TYPE_TIMEUUID = 15,
    CASSETTE_TYPE_INET = 16,
    CASSETTE_TYPE_DATE = 17,
    CASSETTE_TYPE_TIME = 18,
    CASSETTE_TYPE_SMALLINT = 19,
    CASSETTE_TYPE_TINYINT = 20,
    CASSETTE_TYPE_DURATION = 21,
    CASSETTE_TYPE_LIST = 32,
    CASSETTE_TYPE_MAP = 33,
    CASSETTE_TYPE_SET = 34,
    CASSETTE_TYPE_UDT = 48,
    CASSETTE_TYPE_TUPLE = 49,
    CASSETTE_TYPE_VECTOR = 256,
} cassette_type;

/*
 An open database. Any number of threads may use it at the same time.
 */
typedef struct cassette_database cassette_database;

/*
 What failed. Freed with `cassette_error_free`.
 */
typedef struct cassette_error cassette_error;

/*
 Options of opening a database. One thread at a time may use them.
 */
typedef struct cassette_options cassette_options;

/*
 The rows of a statement, of which one page is in memory. One thread at a time may use them.
 */
typedef struct cassette_rows cassette_rows;

/*
 A session, which has its own current keyspace (`USE`). Any number of threads may use it at the
 same time; they share the keyspace.
 */
typedef struct cassette_session cassette_session;

/*
 A prepared statement with the values of its markers. One thread at a time may use it.
 */
typedef struct cassette_statement cassette_statement;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Returns the code of an error; `CASSETTE_STATUS_OK` for null.

 # Safety
 `error` is null or of this library.
 */
cassette_status cassette_error_status(const cassette_error *error);

/*
 Returns the message of an error in UTF-8, which is valid until the error is freed; an empty text
 for null.

 # Safety
 `error` is null or of this library.
 */
const char *cassette_error_message(const cassette_error *error);

/*
 Returns the line of a syntax error in the statement, from 1; 0 if there is none.

 # Safety
 `error` is null or of this library.
 */
uint32_t cassette_error_line(const cassette_error *error);

/*
 Returns the column of a syntax error in its line, from 1; 0 if there is none.

 # Safety
 `error` is null or of this library.
 */
uint32_t cassette_error_column(const cassette_error *error);

/*
 Frees an error. Does nothing for null.

 # Safety
 `error` is null or of this library, and is not used again.
 */
void cassette_error_free(cassette_error *error);

/*
 Returns the version of the library, which is valid for the life of the process.
 */
const char *cassette_version(void);

/*
 Returns options with their defaults; null after an internal error. Free them with
 `cassette_options_free`.
 */
cassette_options *cassette_options_new(void);

/*
 Sets an option by its name in cassandra.yaml. Sizes are numbers of bytes, switches are `true` or
 `false`: `commitlog_sync` (`periodic`, `batch` or `group`), `commitlog_segment_size`,
 `commitlog_total_space`, `memtable_heap_space`, `file_cache_size`, `key_cache_size`,
 `row_cache_size`, `counter_cache_size`, `prepared_statements_cache_size`, `auto_snapshot`,
 `materialized_views_enabled`, and the names of guardrails.

 # Safety
 `options` is null or of this library; `name` and `value` are null or end with a zero byte.
 */
cassette_status cassette_options_set(cassette_options *options,
                                     const char *name,
                                     const char *value,
                                     cassette_error **error);

/*
 Frees options. Does nothing for null.

 # Safety
 `options` is null or of this library, and is not used again.
 */
void cassette_options_free(cassette_options *options);

/*
 Opens the database in a directory, which is created if it does not exist, or an empty one in
 memory for `:memory:`. The path is in UTF-8. `options` may be null; they are copied. Close it
 with `cassette_close`.

 # Safety
 `path` is null or ends with a zero byte; `options` is null or of this library; `database` is
 null or may be written to.
 */
cassette_status cassette_open(const char *path,
                              const cassette_options *options,
                              cassette_database **database,
                              cassette_error **error);

/*
 Opens a data directory or a snapshot for reading only. Close it with `cassette_close`.

 # Safety
 `path` is null or ends with a zero byte; `database` is null or may be written to.
 */
cassette_status cassette_open_read_only(const char *path,
                                        cassette_database **database,
                                        cassette_error **error);

/*
 Writes memtables to SSTables, so that the next start has nothing to replay.

 # Safety
 `database` is null or of this library.
 */
cassette_status cassette_flush(const cassette_database *database, cassette_error **error);

/*
 Closes a database and frees its handle, also if it fails. Later statements of its sessions fail
 with `CASSETTE_STATUS_CLOSED`. All acknowledged writes are kept, also without this call. Does
 nothing for null.

 # Safety
 `database` is null or of this library, and is not used again.
 */
cassette_status cassette_close(cassette_database *database, cassette_error **error);

/*
 Returns a session; null for null. Free it with `cassette_session_free`, before or after the
 database is closed.

 # Safety
 `database` is null or of this library.
 */
cassette_session *cassette_session_new(const cassette_database *database);

/*
 Frees a session. Its statements and rows stay valid. Does nothing for null.

 # Safety
 `session` is null or of this library, and is not used again.
 */
void cassette_session_free(cassette_session *session);

/*
 Executes a statement without markers. Its rows are read with `cassette_step`, and freed with
 `cassette_rows_free`; `rows` may be null if they are not needed.

 # Safety
 `session` is null or of this library; `cql` is null or ends with a zero byte; `rows` is null or
 may be written to.
 */
cassette_status cassette_execute(const cassette_session *session,
                                 const char *cql,
                                 cassette_rows **rows,
                                 cassette_error **error);

/*
 Prepares a statement, with `?` or `:name` as markers. Free it with `cassette_statement_free`.

 # Safety
 `session` is null or of this library; `cql` is null or ends with a zero byte; `statement` is
 null or may be written to.
 */
cassette_status cassette_prepare(const cassette_session *session,
                                 const char *cql,
                                 cassette_statement **statement,
                                 cassette_error **error);

/*
 Executes a statement. All of its markers must have a value, which they keep. The rows are read
 with `cassette_step`, and freed with `cassette_rows_free`; they do not depend on the statement,
 and `rows` may be null if they are not needed.

 # Safety
 `statement` is null or of this library; `rows` is null or may be written to.
 */
cassette_status cassette_statement_execute(const cassette_statement *statement,
                                           cassette_rows **rows,
                                           cassette_error **error);

/*
 Removes the values of all markers.

 # Safety
 `statement` is null or of this library.
 */
void cassette_statement_clear(cassette_statement *statement);

/*
 Returns the number of markers; 0 for null.

 # Safety
 `statement` is null or of this library.
 */
size_t cassette_marker_count(const cassette_statement *statement);

/*
 Returns the index of the first marker of this name, counted from 0; -1 if there is none. The
 marker `?` has the name of its column.

 # Safety
 `statement` is null or of this library; `name` is null or ends with a zero byte.
 */
int64_t cassette_marker_index(const cassette_statement *statement, const char *name);

/*
 Returns the name of a marker, which is valid until the statement is freed; null if there is no
 such marker.

 # Safety
 `statement` is null or of this library.
 */
const char *cassette_marker_name(const cassette_statement *statement, size_t index);

/*
 Returns the type of a marker; `CASSETTE_TYPE_CUSTOM` if there is no such marker.

 # Safety
 `statement` is null or of this library.
 */
cassette_type cassette_marker_type(const cassette_statement *statement, size_t index);

/*
 Frees a statement. Its rows stay valid. Does nothing for null.

 # Safety
 `statement` is null or of this library, and is not used again.
 */
void cassette_statement_free(cassette_statement *statement);

/*
 Sets a marker to null, which writes a tombstone.

 # Safety
 `statement` is null or of this library.
 */
cassette_status cassette_bind_null(cassette_statement *statement,
                                   size_t index,
                                   cassette_error **error);

/*
 Omits a value: its column stays as it is, and nothing is written for it.

 # Safety
 `statement` is null or of this library.
 */
cassette_status cassette_bind_unset(cassette_statement *statement,
                                    size_t index,
                                    cassette_error **error);

/*
 Sets a marker to bytes in the encoding of its type in the native protocol, as
 `cassette_column_bytes` returns them. For `blob`, these are the value. They are copied.

 # Safety
 `statement` is null or of this library; `data` is null or has `length` bytes.
 */
cassette_status cassette_bind_bytes(cassette_statement *statement,
                                    size_t index,
                                    const uint8_t *data,
                                    size_t length,
                                    cassette_error **error);

/*
 Sets a marker of type `boolean`.

 # Safety
 `statement` is null or of this library.
 */
cassette_status cassette_bind_bool(cassette_statement *statement,
                                   size_t index,
                                   bool value,
                                   cassette_error **error);

/*
 Sets a marker of type `tinyint`, `smallint`, `int`, `bigint`, `counter`, `varint`, `timestamp`
 (milliseconds since 1970) or `time` (nanoseconds since midnight). Fails if the value is out of
 the range of the type.

 # Safety
 `statement` is null or of this library.
 */
cassette_status cassette_bind_int64(cassette_statement *statement,
                                    size_t index,
                                    int64_t value,
                                    cassette_error **error);

/*
 Sets a marker of type `double` or `float`; the latter is rounded.

 # Safety
 `statement` is null or of this library.
 */
cassette_status cassette_bind_double(cassette_statement *statement,
                                     size_t index,
                                     double value,
                                     cassette_error **error);

/*
 Sets a marker of type `text` or `ascii` to a text of `length` bytes in UTF-8, which is copied.

 # Safety
 `statement` is null or of this library; `value` is null or has `length` bytes.
 */
cassette_status cassette_bind_text(cassette_statement *statement,
                                   size_t index,
                                   const char *value,
                                   size_t length,
                                   cassette_error **error);

/*
 Sets a marker of type `uuid` or `timeuuid` to 16 bytes in network order.

 # Safety
 `statement` is null or of this library; `value` is null or has 16 bytes.
 */
cassette_status cassette_bind_uuid(cassette_statement *statement,
                                   size_t index,
                                   const uint8_t *value,
                                   cassette_error **error);

/*
 Sets a marker of type `inet` to the 4 or 16 bytes of an address.

 # Safety
 `statement` is null or of this library; `value` is null or has `length` bytes.
 */
cassette_status cassette_bind_inet(cassette_statement *statement,
                                   size_t index,
                                   const uint8_t *value,
                                   size_t length,
                                   cassette_error **error);

/*
 Sets a marker of type `date` to days, of which 1970-01-01 is 2^31.

 # Safety
 `statement` is null or of this library.
 */
cassette_status cassette_bind_date(cassette_statement *statement,
                                   size_t index,
                                   uint32_t value,
                                   cassette_error **error);

/*
 Sets a marker of type `duration`, whose parts are all negative or all positive.

 # Safety
 `statement` is null or of this library.
 */
cassette_status cassette_bind_duration(cassette_statement *statement,
                                       size_t index,
                                       int32_t months,
                                       int32_t days,
                                       int64_t nanoseconds,
                                       cassette_error **error);

/*
 Sets a marker of type `varint` to the bytes of an integer in two's complement, in network order.

 # Safety
 `statement` is null or of this library; `value` is null or has `length` bytes.
 */
cassette_status cassette_bind_varint(cassette_statement *statement,
                                     size_t index,
                                     const uint8_t *value,
                                     size_t length,
                                     cassette_error **error);

/*
 Sets a marker of type `decimal` to `unscaled` × 10^-`scale`; `unscaled` is as for
 `cassette_bind_varint`.

 # Safety
 `statement` is null or of this library; `unscaled` is null or has `length` bytes.
 */
cassette_status cassette_bind_decimal(cassette_statement *statement,
                                      size_t index,
                                      const uint8_t *unscaled,
                                      size_t length,
                                      int32_t scale,
                                      cassette_error **error);

/*
 Sets a marker of any type to a value in the JSON of CQL's `INSERT JSON`: for collections, tuples
 and user-defined types.

 # Safety
 `statement` is null or of this library; `json` is null or ends with a zero byte.
 */
cassette_status cassette_bind_json(cassette_statement *statement,
                                   size_t index,
                                   const char *json,
                                   cassette_error **error);

/*
 Proceeds to the next row: `CASSETTE_STATUS_ROW` if there is one, `CASSETTE_STATUS_DONE` at the
 end, or another code if it cannot be read, which also ends the rows. What was returned for the
 row before is not valid any more.

 # Safety
 `rows` is null or of this library.
 */
cassette_status cassette_step(cassette_rows *rows, cassette_error **error);

/*
 Returns the number of columns; 0 for null, and for statements without rows.

 # Safety
 `rows` is null or of this library.
 */
size_t cassette_column_count(const cassette_rows *rows);

/*
 Returns the name of a column, which is valid until the rows are freed; null if there is no such
 column.

 # Safety
 `rows` is null or of this library.
 */
const char *cassette_column_name(const cassette_rows *rows, size_t index);

/*
 Returns the type of a column; `CASSETTE_TYPE_CUSTOM` if there is no such column.

 # Safety
 `rows` is null or of this library.
 */
cassette_type cassette_column_type(const cassette_rows *rows, size_t index);

/*
 Returns the type of a column in CQL, such as `list<int>`, which is valid until the rows are
 freed; null if there is no such column.

 # Safety
 `rows` is null or of this library.
 */
const char *cassette_column_type_name(const cassette_rows *rows, size_t index);

/*
 Frees rows, also before their end. Does nothing for null.

 # Safety
 `rows` is null or of this library, and is not used again.
 */
void cassette_rows_free(cassette_rows *rows);

/*
 Returns whether a value of the row is null; true if there is no such column or no row.

 # Safety
 `rows` is null or of this library.
 */
bool cassette_column_is_null(const cassette_rows *rows, size_t index);

/*
 Returns the bytes of a value in the encoding of its type in the native protocol, valid until the
 next step. For `text`, `ascii` and `blob`, they are the value, without a zero byte at its end.
 Null is a null pointer.

 # Safety
 `rows` is null or of this library; `data` and `length` are null or may be written to.
 */
cassette_status cassette_column_bytes(const cassette_rows *rows,
                                      size_t index,
                                      const uint8_t **data,
                                      size_t *length,
                                      cassette_error **error);

/*
 Returns a value of type `boolean`.

 # Safety
 `rows` is null or of this library; `value` is null or may be written to.
 */
cassette_status cassette_column_bool(const cassette_rows *rows,
                                     size_t index,
                                     bool *value,
                                     cassette_error **error);

/*
 Returns a value of type `tinyint`, `smallint`, `int`, `bigint`, `counter`, `varint`, `timestamp`
 (milliseconds since 1970) or `time` (nanoseconds since midnight). Fails if a `varint` is too
 large.

 # Safety
 `rows` is null or of this library; `value` is null or may be written to.
 */
cassette_status cassette_column_int64(const cassette_rows *rows,
                                      size_t index,
                                      int64_t *value,
                                      cassette_error **error);

/*
 Returns a value of type `double` or `float`.

 # Safety
 `rows` is null or of this library; `value` is null or may be written to.
 */
cassette_status cassette_column_double(const cassette_rows *rows,
                                       size_t index,
                                       double *value,
                                       cassette_error **error);

/*
 Writes the 16 bytes of a value of type `uuid` or `timeuuid` in network order to `value`.

 # Safety
 `rows` is null or of this library; `value` is null or has 16 bytes.
 */
cassette_status cassette_column_uuid(const cassette_rows *rows,
                                     size_t index,
                                     uint8_t *value,
                                     cassette_error **error);

/*
 Writes an address of type `inet` to `value`, and its number of bytes, 4 or 16, to `length`.

 # Safety
 `rows` is null or of this library; `value` is null or has 16 bytes; `length` is null or may be
 written to.
 */
cassette_status cassette_column_inet(const cassette_rows *rows,
                                     size_t index,
                                     uint8_t *value,
                                     size_t *length,
                                     cassette_error **error);

/*
 Returns a value of type `date`: days, of which 1970-01-01 is 2^31.

 # Safety
 `rows` is null or of this library; `value` is null or may be written to.
 */
cassette_status cassette_column_date(const cassette_rows *rows,
                                     size_t index,
                                     uint32_t *value,
                                     cassette_error **error);

/*
 Returns the parts of a value of type `duration`.

 # Safety
 `rows` is null or of this library; the others are null or may be written to.
 */
cassette_status cassette_column_duration(const cassette_rows *rows,
                                         size_t index,
                                         int32_t *months,
                                         int32_t *days,
                                         int64_t *nanoseconds,
                                         cassette_error **error);

/*
 Returns a value of type `decimal`, which is `unscaled` × 10^-`scale`. `unscaled` points to
 `length` bytes of an integer in two's complement, in network order, valid until the next step. A
 `varint` has these bytes as `cassette_column_bytes`.

 # Safety
 `rows` is null or of this library; the others are null or may be written to.
 */
cassette_status cassette_column_decimal(const cassette_rows *rows,
                                        size_t index,
                                        const uint8_t **unscaled,
                                        size_t *length,
                                        int32_t *scale,
                                        cassette_error **error);

/*
 Returns a value of any type as a literal of CQL, such as `{'a': 1}`, valid until the next step.
 Null is a null pointer.

 # Safety
 `rows` is null or of this library; `value` is null or may be written to.
 */
cassette_status cassette_column_literal(cassette_rows *rows,
                                        size_t index,
                                        const char **value,
                                        cassette_error **error);

/*
 Returns a value of any type in the JSON of CQL's `SELECT JSON`, valid until the next step. Null
 is a null pointer.

 # Safety
 `rows` is null or of this library; `value` is null or may be written to.
 */
cassette_status cassette_column_json(cassette_rows *rows,
                                     size_t index,
                                     const char **value,
                                     cassette_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CASSETTE_H */
