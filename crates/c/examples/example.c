/* A database in a directory, or in memory: rows written and read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cassette.h"

static cassette_error *error;

/* Ends the program with the message of an error. Its argument is evaluated before it reads `error`. */
static void check(cassette_status status)
{
    if (error == NULL) {
        return;
    }
    fprintf(stderr, "%d: %s\n", (int)status, cassette_error_message(error));
    cassette_error_free(error);
    exit(1);
}

static void execute(cassette_session *session, const char *cql)
{
    check(cassette_execute(session, cql, NULL, &error));
}

int main(int count, char **arguments)
{
    cassette_database *database;
    const char *path = count > 1 ? arguments[1] : ":memory:";
    check(cassette_open(path, NULL, &database, &error));
    cassette_session *session = cassette_session_new(database);

    execute(session, "CREATE KEYSPACE IF NOT EXISTS app WITH replication = "
                     "{'class': 'SimpleStrategy', 'replication_factor': 1}");
    execute(session, "USE app");
    execute(session, "CREATE TABLE IF NOT EXISTS users "
                     "(id int PRIMARY KEY, name text, tags set<text>, born date)");

    cassette_statement *insert;
    check(cassette_prepare(session, "INSERT INTO users (id, name, tags) VALUES (?, ?, ?)", &insert, &error));
    const char *names[] = {"ada", "grace", "edsger"};
    for (int id = 0; id < 3; id++) {
        check(cassette_bind_int64(insert, 0, id, &error));
        check(cassette_bind_text(insert, 1, names[id], strlen(names[id]), &error));
        check(cassette_bind_json(insert, 2, id == 0 ? "[\"first\", \"poet\"]" : "null", &error));
        check(cassette_statement_execute(insert, NULL, &error));
    }
    cassette_statement_free(insert);

    cassette_rows *rows;
    cassette_status step;
    check(cassette_execute(session, "SELECT id, name, tags FROM users", &rows, &error));
    while ((step = cassette_step(rows, &error)) == CASSETTE_STATUS_ROW) {
        int64_t id;
        const uint8_t *name;
        const char *tags;
        size_t length;
        check(cassette_column_int64(rows, 0, &id, &error));
        check(cassette_column_bytes(rows, 1, &name, &length, &error));
        check(cassette_column_literal(rows, 2, &tags, &error));
        printf("%" PRId64 " %.*s %s\n", id, (int)length, (const char *)name, tags ? tags : "-");
    }
    check(step);
    cassette_rows_free(rows);

    cassette_session_free(session);
    check(cassette_close(database, &error));
    return 0;
}
