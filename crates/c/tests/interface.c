/* Every function of the interface, with its mistakes. Prints the line of what is wrong. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cassette.h"

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                    \
                    cassette_error_message(error));                                               \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static cassette_error *error;

static void execute(cassette_session *session, const char *cql)
{
    CHECK(cassette_execute(session, cql, NULL, &error) == CASSETTE_STATUS_OK);
}

/* Checks a failure with its code and a part of its message. */
static void fails(cassette_status found, cassette_status expected, const char *message)
{
    CHECK(found == expected && cassette_error_status(error) == expected);
    CHECK(strstr(cassette_error_message(error), message) != NULL);
    cassette_error_free(error);
    error = NULL;
}

static void scalars(cassette_session *session)
{
    execute(session, "CREATE TABLE s (k int PRIMARY KEY, a ascii, bi bigint, bl blob, bo boolean, dt date,"
                     " de decimal, db double, du duration, f float, i inet, s smallint, t text, ti time,"
                     " ts timestamp, ti1 tinyint, tu timeuuid, u uuid, vi varint)");
    cassette_statement *insert;
    CHECK(cassette_prepare(session,
                           "INSERT INTO s (k, a, bi, bl, bo, dt, de, db, du, f, i, s, t, ti, ts, ti1, tu, u, vi)"
                           " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                           &insert, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_marker_count(insert) == 19);
    CHECK(cassette_marker_index(insert, "vi") == 18 && cassette_marker_index(insert, "none") == -1);
    CHECK(strcmp(cassette_marker_name(insert, 1), "a") == 0 && cassette_marker_name(insert, 19) == NULL);
    CHECK(cassette_marker_type(insert, 1) == CASSETTE_TYPE_ASCII);
    CHECK(cassette_marker_type(insert, 8) == CASSETTE_TYPE_DURATION);

    const uint8_t blob[] = {0, 1, 255}, uuid[16] = {0x12, 0, 0, 0, 0, 0, 0x10, 0, 0x80};
    const uint8_t v6[16] = {0x20, 1}, minus_one[] = {255}, digits[] = {4, 210};
    fails(cassette_statement_execute(insert, NULL, &error), CASSETTE_STATUS_MISUSE, "marker 0 (k)");
    CHECK(cassette_bind_int64(insert, 0, 1, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_text(insert, 1, "ascii", 5, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_int64(insert, 2, INT64_MIN, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_bytes(insert, 3, blob, 3, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_bool(insert, 4, true, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_date(insert, 5, 1u << 31, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_decimal(insert, 6, digits, 2, 2, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_double(insert, 7, 0.5, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_duration(insert, 8, 1, 2, 3, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_double(insert, 9, -0.25, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_inet(insert, 10, v6, 16, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_int64(insert, 11, -7, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_text(insert, 12, "a\0b", 3, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_int64(insert, 13, 1000, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_int64(insert, 14, -1, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_int64(insert, 15, 127, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_uuid(insert, 16, uuid, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_uuid(insert, 17, uuid, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_varint(insert, 18, minus_one, 1, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_statement_execute(insert, NULL, &error) == CASSETTE_STATUS_OK);

    /* A second row of nulls, and one value that is omitted. */
    CHECK(cassette_bind_int64(insert, 0, 2, &error) == CASSETTE_STATUS_OK);
    for (size_t i = 1; i < 18; i++) {
        CHECK(cassette_bind_null(insert, i, &error) == CASSETTE_STATUS_OK);
    }
    CHECK(cassette_bind_unset(insert, 18, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_statement_execute(insert, NULL, &error) == CASSETTE_STATUS_OK);

    fails(cassette_bind_int64(insert, 15, 128, &error), CASSETTE_STATUS_INVALID, "ti1");
    fails(cassette_bind_bool(insert, 0, true, &error), CASSETTE_STATUS_INVALID, "expected CQL's int");
    fails(cassette_bind_int64(insert, 19, 0, &error), CASSETTE_STATUS_MISUSE, "one of 19 markers, found 19");
    fails(cassette_bind_text(insert, 12, "\xff", 1, &error), CASSETTE_STATUS_MISUSE, "expected UTF-8");
    fails(cassette_bind_text(insert, 12, "x", (size_t)-1, &error), CASSETTE_STATUS_MISUSE, "length of at most");
    fails(cassette_bind_text(insert, 12, NULL, 1, &error), CASSETTE_STATUS_MISUSE, "value: expected a pointer");
    fails(cassette_bind_inet(insert, 10, v6, 5, &error), CASSETTE_STATUS_MISUSE, "4 or 16 bytes, found 5");
    fails(cassette_bind_json(insert, 12, "{", &error), CASSETTE_STATUS_MISUSE, "json");
    CHECK(cassette_bind_bytes(insert, 0, blob, 3, &error) == CASSETTE_STATUS_OK);
    fails(cassette_statement_execute(insert, NULL, &error), CASSETTE_STATUS_INVALID, "");
    cassette_statement_clear(insert);
    fails(cassette_statement_execute(insert, NULL, &error), CASSETTE_STATUS_MISUSE, "found none");
    cassette_statement_free(insert);

    cassette_rows *rows;
    CHECK(cassette_execute(session,
                           "SELECT k, a, bi, bl, bo, dt, de, db, du, f, i, s, t, ti, ts, ti1, tu, u, vi FROM s"
                           " WHERE k IN (1, 2)",
                           &rows, &error) == CASSETTE_STATUS_OK);
    int64_t number = 0, nanoseconds = 0;
    double real = 0;
    bool flag = false;
    int32_t months = 0, days = 0, scale = 0;
    uint32_t date = 0;
    uint8_t buffer[16];
    const uint8_t *data;
    size_t length = 0;
    const char *text;
    CHECK(cassette_column_is_null(rows, 0));
    fails(cassette_column_int64(rows, 0, &number, &error), CASSETTE_STATUS_MISUSE, "there is no row");
    CHECK(cassette_step(rows, &error) == CASSETTE_STATUS_ROW);
    CHECK(cassette_column_count(rows) == 19 && strcmp(cassette_column_name(rows, 5), "dt") == 0);
    CHECK(cassette_column_type(rows, 16) == CASSETTE_TYPE_TIMEUUID && cassette_column_name(rows, 19) == NULL);
    CHECK(strcmp(cassette_column_type_name(rows, 12), "text") == 0);
    CHECK(!cassette_column_is_null(rows, 1));
    CHECK(cassette_column_int64(rows, 2, &number, &error) == CASSETTE_STATUS_OK && number == INT64_MIN);
    CHECK(cassette_column_bytes(rows, 3, &data, &length, &error) == CASSETTE_STATUS_OK);
    CHECK(length == 3 && memcmp(data, blob, 3) == 0);
    CHECK(cassette_column_bool(rows, 4, &flag, &error) == CASSETTE_STATUS_OK && flag);
    CHECK(cassette_column_date(rows, 5, &date, &error) == CASSETTE_STATUS_OK && date == 1u << 31);
    CHECK(cassette_column_decimal(rows, 6, &data, &length, &scale, &error) == CASSETTE_STATUS_OK);
    CHECK(scale == 2 && length == 2 && memcmp(data, digits, 2) == 0);
    CHECK(cassette_column_double(rows, 7, &real, &error) == CASSETTE_STATUS_OK && real == 0.5);
    CHECK(cassette_column_duration(rows, 8, &months, &days, &nanoseconds, &error) == CASSETTE_STATUS_OK);
    CHECK(months == 1 && days == 2 && nanoseconds == 3);
    CHECK(cassette_column_double(rows, 9, &real, &error) == CASSETTE_STATUS_OK && real == -0.25);
    CHECK(cassette_column_inet(rows, 10, buffer, &length, &error) == CASSETTE_STATUS_OK);
    CHECK(length == 16 && memcmp(buffer, v6, 16) == 0);
    CHECK(cassette_column_int64(rows, 11, &number, &error) == CASSETTE_STATUS_OK && number == -7);
    CHECK(cassette_column_bytes(rows, 12, &data, &length, &error) == CASSETTE_STATUS_OK);
    CHECK(length == 3 && memcmp(data, "a\0b", 3) == 0);
    CHECK(cassette_column_int64(rows, 13, &number, &error) == CASSETTE_STATUS_OK && number == 1000);
    CHECK(cassette_column_int64(rows, 14, &number, &error) == CASSETTE_STATUS_OK && number == -1);
    CHECK(cassette_column_int64(rows, 15, &number, &error) == CASSETTE_STATUS_OK && number == 127);
    CHECK(cassette_column_uuid(rows, 16, buffer, &error) == CASSETTE_STATUS_OK);
    CHECK(memcmp(buffer, uuid, 16) == 0);
    CHECK(cassette_column_int64(rows, 18, &number, &error) == CASSETTE_STATUS_OK && number == -1);
    CHECK(cassette_column_literal(rows, 6, &text, &error) == CASSETTE_STATUS_OK && strcmp(text, "12.34") == 0);
    CHECK(cassette_column_json(rows, 4, &text, &error) == CASSETTE_STATUS_OK && strcmp(text, "true") == 0);
    fails(cassette_column_bool(rows, 0, &flag, &error), CASSETTE_STATUS_INVALID, "k: cannot convert");
    fails(cassette_column_date(rows, 0, &date, &error), CASSETTE_STATUS_MISUSE, "type date");
    fails(cassette_column_double(rows, 0, &real, &error), CASSETTE_STATUS_MISUSE, "double or float");
    fails(cassette_column_int64(rows, 19, &number, &error), CASSETTE_STATUS_MISUSE, "one of 19 columns");
    CHECK(cassette_step(rows, &error) == CASSETTE_STATUS_ROW);
    for (size_t i = 1; i < 19; i++) {
        CHECK(cassette_column_is_null(rows, i));
    }
    CHECK(cassette_column_bytes(rows, 3, &data, &length, &error) == CASSETTE_STATUS_OK && data == NULL);
    CHECK(cassette_column_literal(rows, 3, &text, &error) == CASSETTE_STATUS_OK && text == NULL);
    CHECK(cassette_column_json(rows, 3, &text, &error) == CASSETTE_STATUS_OK && text == NULL);
    fails(cassette_column_int64(rows, 2, &number, &error), CASSETTE_STATUS_MISUSE, "bi: the value is null");
    CHECK(cassette_step(rows, &error) == CASSETTE_STATUS_DONE);
    CHECK(cassette_step(rows, &error) == CASSETTE_STATUS_DONE);
    cassette_rows_free(rows);
}

static void other_types(cassette_session *session)
{
    execute(session, "CREATE TYPE address (street text, zip int)");
    execute(session, "CREATE TABLE o (k int PRIMARY KEY, l list<int>, m map<text, int>, s set<text>,"
                     " t tuple<int, text>, u frozen<address>, v vector<float, 2>, c text)");
    execute(session, "CREATE TABLE counts (k int PRIMARY KEY, n counter)");
    execute(session, "UPDATE counts SET n = n + 5 WHERE k = 1");
    cassette_statement *insert;
    CHECK(cassette_prepare(session, "INSERT INTO o (k, l, m, s, t, u, v) VALUES (:k, ?, ?, ?, ?, ?, ?)", &insert,
                           &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_bind_int64(insert, (size_t)cassette_marker_index(insert, "k"), 1, &error) == CASSETTE_STATUS_OK);
    const char *values[] = {"[1,2]", "{\"a\":1}", "[\"x\",\"y\"]", "[1,\"b\"]",
                            "{\"street\":\"Main\",\"zip\":7}", "[1.0,2.0]"};
    for (size_t i = 0; i < 6; i++) {
        CHECK(cassette_bind_json(insert, i + 1, values[i], &error) == CASSETTE_STATUS_OK);
    }
    CHECK(cassette_statement_execute(insert, NULL, &error) == CASSETTE_STATUS_OK);

    cassette_rows *rows;
    CHECK(cassette_execute(session, "SELECT l, m, s, t, u, v FROM o", &rows, &error) == CASSETTE_STATUS_OK);
    cassette_type types[] = {CASSETTE_TYPE_LIST,  CASSETTE_TYPE_MAP, CASSETTE_TYPE_SET,
                             CASSETTE_TYPE_TUPLE, CASSETTE_TYPE_UDT, CASSETTE_TYPE_VECTOR};
    const char *text, *before;
    const uint8_t *data;
    size_t length;
    CHECK(cassette_step(rows, &error) == CASSETTE_STATUS_ROW);
    CHECK(cassette_column_literal(rows, 4, &before, &error) == CASSETTE_STATUS_OK);
    for (size_t i = 0; i < 6; i++) {
        CHECK(cassette_column_type(rows, i) == types[i]);
        CHECK(cassette_column_json(rows, i, &text, &error) == CASSETTE_STATUS_OK && strcmp(text, values[i]) == 0);
        /* The bytes of a value are those to bind. */
        CHECK(cassette_column_bytes(rows, i, &data, &length, &error) == CASSETTE_STATUS_OK);
        CHECK(cassette_bind_bytes(insert, i + 1, data, length, &error) == CASSETTE_STATUS_OK);
    }
    CHECK(strcmp(before, "{street: 'Main', zip: 7}") == 0);
    CHECK(strcmp(cassette_column_type_name(rows, 1), "map<text, int>") == 0);
    CHECK(cassette_statement_execute(insert, NULL, &error) == CASSETTE_STATUS_OK);
    cassette_statement_free(insert);
    CHECK(cassette_step(rows, &error) == CASSETTE_STATUS_DONE);
    cassette_rows_free(rows);

    int64_t count = 0;
    CHECK(cassette_execute(session, "SELECT n FROM counts", &rows, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_step(rows, &error) == CASSETTE_STATUS_ROW);
    CHECK(cassette_column_int64(rows, 0, &count, &error) == CASSETTE_STATUS_OK && count == 5);
    /* Before the end. */
    cassette_rows_free(rows);
}

static void mistakes(cassette_session *session)
{
    fails(cassette_execute(session, "SELECT *\nFORM s", NULL, &error), CASSETTE_STATUS_SYNTAX, "FORM");
    CHECK(cassette_execute(session, "SELECT *\nFORM s", NULL, &error) == CASSETTE_STATUS_SYNTAX);
    CHECK(cassette_error_line(error) == 2 && cassette_error_column(error) == 1);
    cassette_error_free(error);
    fails(cassette_execute(session, "CREATE TABLE s (k int PRIMARY KEY)", NULL, &error),
          CASSETTE_STATUS_ALREADY_EXISTS, "s");
    fails(cassette_execute(session, "SELECT * FROM missing", NULL, &error), CASSETTE_STATUS_INVALID, "missing");
    fails(cassette_execute(session, "\xff", NULL, &error), CASSETTE_STATUS_MISUSE, "cql: expected UTF-8");
    fails(cassette_execute(session, NULL, NULL, &error), CASSETTE_STATUS_MISUSE, "cql: expected a pointer");
    fails(cassette_execute(NULL, "SELECT 1", NULL, &error), CASSETTE_STATUS_MISUSE, "session");
    /* Without a place for the error. */
    CHECK(cassette_execute(NULL, "SELECT 1", NULL, NULL) == CASSETTE_STATUS_MISUSE);
    CHECK(cassette_prepare(session, "SELECT 1", NULL, NULL) == CASSETTE_STATUS_MISUSE);
    cassette_statement *statement = (cassette_statement *)session;
    CHECK(cassette_prepare(session, "SELEC 1", &statement, NULL) == CASSETTE_STATUS_SYNTAX && statement == NULL);

    cassette_database *none = (cassette_database *)session;
    fails(cassette_open("\xff", NULL, &none, &error), CASSETTE_STATUS_MISUSE, "path: expected UTF-8");
    CHECK(none == NULL);
    fails(cassette_open(NULL, NULL, &none, &error), CASSETTE_STATUS_MISUSE, "path: expected a pointer");
    fails(cassette_open(":memory:", NULL, NULL, &error), CASSETTE_STATUS_MISUSE, "database: expected a pointer");

    CHECK(cassette_session_new(NULL) == NULL && cassette_column_count(NULL) == 0);
    CHECK(cassette_marker_count(NULL) == 0 && cassette_marker_index(NULL, "a") == -1);
    CHECK(cassette_step(NULL, NULL) == CASSETTE_STATUS_MISUSE && cassette_close(NULL, NULL) == CASSETTE_STATUS_OK);
    CHECK(cassette_error_status(NULL) == CASSETTE_STATUS_OK && *cassette_error_message(NULL) == 0);
    cassette_error_free(NULL);
    cassette_rows_free(NULL);
    cassette_statement_free(NULL);
    cassette_statement_clear(NULL);
    cassette_session_free(NULL);
    cassette_options_free(NULL);
}

/* Inserts 100 rows; the session is that of all threads. */
static void *insert_rows(void *argument)
{
    cassette_session *session = argument;
    cassette_statement *insert;
    cassette_error *failed;
    if (cassette_prepare(session, "INSERT INTO shared (id) VALUES (uuid())", &insert, &failed) != CASSETTE_STATUS_OK) {
        return NULL;
    }
    cassette_status status = CASSETTE_STATUS_OK;
    for (int i = 0; i < 100 && status == CASSETTE_STATUS_OK; i++) {
        status = cassette_statement_execute(insert, NULL, &failed);
    }
    cassette_statement_free(insert);
    return status == CASSETTE_STATUS_OK ? argument : NULL;
}

static void threads(cassette_session *session)
{
    execute(session, "CREATE TABLE shared (id uuid PRIMARY KEY)");
    pthread_t started[4];
    for (size_t i = 0; i < 4; i++) {
        CHECK(pthread_create(&started[i], NULL, insert_rows, session) == 0);
    }
    for (size_t i = 0; i < 4; i++) {
        void *result;
        CHECK(pthread_join(started[i], &result) == 0 && result == session);
    }
    cassette_rows *rows;
    int64_t count = 0;
    CHECK(cassette_execute(session, "SELECT count(*) FROM shared", &rows, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_step(rows, &error) == CASSETTE_STATUS_ROW);
    CHECK(cassette_column_int64(rows, 0, &count, &error) == CASSETTE_STATUS_OK && count == 400);
    cassette_rows_free(rows);
}

static void directories(const char *path)
{
    cassette_options *options = cassette_options_new();
    CHECK(cassette_options_set(options, "commitlog_sync", "batch", &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_options_set(options, "memtable_heap_space", "16777216", &error) == CASSETTE_STATUS_OK);
    fails(cassette_options_set(options, "commitlog_sync", "never", &error), CASSETTE_STATUS_CONFIG,
          "expected periodic, batch or group");
    fails(cassette_options_set(options, "file_cache_size", "-1", &error), CASSETTE_STATUS_CONFIG,
          "expected a number of bytes");
    fails(cassette_options_set(NULL, "file_cache_size", "1", &error), CASSETTE_STATUS_MISUSE, "options");
    fails(cassette_options_set(options, NULL, "1", &error), CASSETTE_STATUS_MISUSE, "name");

    cassette_database *database, *other;
    CHECK(cassette_open(path, options, &database, &error) == CASSETTE_STATUS_OK);
    fails(cassette_open(path, NULL, &other, &error), CASSETTE_STATUS_LOCKED, "");
    CHECK(other == NULL);
    cassette_session *session = cassette_session_new(database);
    execute(session, "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    execute(session, "CREATE TABLE app.t (k int PRIMARY KEY)");
    execute(session, "INSERT INTO app.t (k) VALUES (7)");
    CHECK(cassette_flush(database, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_close(database, &error) == CASSETTE_STATUS_OK);
    fails(cassette_execute(session, "SELECT * FROM app.t", NULL, &error), CASSETTE_STATUS_CLOSED, "");
    cassette_session_free(session);

    CHECK(cassette_options_set(options, "no_such_option", "1", &error) == CASSETTE_STATUS_OK);
    fails(cassette_open(path, options, &database, &error), CASSETTE_STATUS_CONFIG, "no_such_option");
    cassette_options_free(options);

    cassette_rows *rows;
    int64_t key = 0;
    CHECK(cassette_open_read_only(path, &database, &error) == CASSETTE_STATUS_OK);
    session = cassette_session_new(database);
    CHECK(cassette_execute(session, "SELECT k FROM app.t", &rows, &error) == CASSETTE_STATUS_OK);
    CHECK(cassette_step(rows, &error) == CASSETTE_STATUS_ROW);
    CHECK(cassette_column_int64(rows, 0, &key, &error) == CASSETTE_STATUS_OK && key == 7);
    fails(cassette_execute(session, "INSERT INTO app.t (k) VALUES (8)", NULL, &error), CASSETTE_STATUS_READ_ONLY,
          "reading only");
    cassette_session_free(session);
    CHECK(cassette_close(database, &error) == CASSETTE_STATUS_OK);
    cassette_rows_free(rows);
}

int main(int count, char **arguments)
{
    CHECK(count == 2 && strlen(cassette_version()) >= 5);
    cassette_database *database;
    CHECK(cassette_open(":memory:", NULL, &database, &error) == CASSETTE_STATUS_OK);
    cassette_session *session = cassette_session_new(database);
    execute(session, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    execute(session, "USE ks");
    scalars(session);
    other_types(session);
    mistakes(session);
    threads(session);
    cassette_session_free(session);
    CHECK(cassette_close(database, &error) == CASSETTE_STATUS_OK);
    directories(arguments[1]);
    puts("passed");
    return 0;
}
