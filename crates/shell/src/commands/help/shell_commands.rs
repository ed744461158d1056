//! HELP on the commands of the shell.

use super::Topic;

/// The pages of the commands, sorted.
pub(super) const COMMANDS: [Topic; 19] = [
    Topic {
        name: "CAPTURE",
        summary: "write results to a file",
        forms: &["CAPTURE '<file>'", "CAPTURE OFF", "CAPTURE"],
        text: "Appends the results of queries to a file instead of showing them. Errors and the output of \
               commands are still shown. Without arguments, shows whether results are captured.",
        examples: &[],
    },
    Topic {
        name: "CLEAR",
        summary: "clear the screen",
        forms: &["CLEAR", "CLS"],
        text: "Clears the terminal.",
        examples: &[],
    },
    Topic {
        name: "CONSISTENCY",
        summary: "consistency level of requests",
        forms: &["CONSISTENCY <level>", "CONSISTENCY"],
        text: "Sets the consistency level of the following requests, which is ONE at first: ANY, ONE, TWO, \
               THREE, QUORUM, ALL, LOCAL_ONE, LOCAL_QUORUM, EACH_QUORUM; for reads also SERIAL and \
               LOCAL_SERIAL. Without arguments, shows the level.",
        examples: &[],
    },
    Topic {
        name: "COPY",
        summary: "CSV files into and out of tables",
        forms: &[
            "COPY <table> [(<column>, ...)] FROM '<file>[, <file> ...]' | STDIN [WITH <option> = <value> [AND ...]]",
            "COPY <table> [(<column>, ...)] TO '<file>' | STDOUT [WITH <option> = <value> [AND ...]]",
        ],
        text: "Reads or writes comma-separated values, with cqlsh's options. Files can be patterns with * and ?. \
               Both directions: DELIMITER, QUOTE, ESCAPE, HEADER, NULL, DATETIMEFORMAT, MAXATTEMPTS, \
               REPORTFREQUENCY, DECIMALSEP, THOUSANDSSEP, BOOLSTYLE, NUMPROCESSES (threads), CONFIGFILE, \
               RATEFILE.\n\
               FROM: CHUNKSIZE, INGESTRATE, MINBATCHSIZE, MAXBATCHSIZE, MAXROWS, SKIPROWS, SKIPCOLS, \
               MAXPARSEERRORS, MAXINSERTERRORS, ERRFILE, PREPAREDSTATEMENTS, TTL. Rejected rows are appended to \
               ERRFILE (import_<keyspace>_<table>.err), and their reasons are shown.\n\
               TO: ENCODING, PAGESIZE, PAGETIMEOUT, BEGINTOKEN, ENDTOKEN, MAXREQUESTS, MAXOUTPUTSIZE, \
               FLOATPRECISION, DOUBLEPRECISION.",
        examples: &[],
    },
    Topic {
        name: "DESCRIBE",
        summary: "the schema as statements",
        forms: &[
            "DESCRIBE KEYSPACES | TABLES | TYPES | FUNCTIONS | AGGREGATES",
            "DESCRIBE [ONLY] KEYSPACE [<keyspace>]",
            "DESCRIBE TABLE | INDEX | MATERIALIZED VIEW | TYPE | FUNCTION | AGGREGATE <name>",
            "DESCRIBE [FULL] SCHEMA",
            "DESCRIBE CLUSTER",
            "DESCRIBE <name>",
        ],
        text: "Shows names, or the statements that create objects again. WITH INTERNALS adds ids and dropped \
               columns. DESC is short for it.",
        examples: &[],
    },
    Topic {
        name: "EXIT",
        summary: "end the shell",
        forms: &["EXIT", "QUIT"],
        text: "Ends the shell, as Ctrl-D does.",
        examples: &[],
    },
    Topic {
        name: "EXPAND",
        summary: "rows one below the other",
        forms: &["EXPAND ON | OFF", "EXPAND"],
        text: "Shows each column of a row on its own line. Without arguments, shows whether it is on.",
        examples: &[],
    },
    Topic {
        name: "FORMAT",
        summary: "format of results",
        forms: &["FORMAT TABLE | JSON | CSV | MARKDOWN", "FORMAT"],
        text: "TABLE is cqlsh's format. JSON has one object a line, CSV a header, MARKDOWN is a table in \
               Markdown. --format sets it at the start.",
        examples: &[],
    },
    Topic {
        name: "HELP",
        summary: "this help",
        forms: &["HELP [<topic> ...]", "? [<topic> ...]"],
        text: "Lists the commands and the statements, or describes some of them.",
        examples: &[],
    },
    Topic {
        name: "HISTORY",
        summary: "earlier input",
        forms: &["HISTORY [<n>]"],
        text: "Shows the last inputs of the terminal, 50 by default. Input with passwords is not kept.",
        examples: &[],
    },
    Topic {
        name: "IMPORT",
        summary: "CSV, JSON and Parquet files into a table",
        forms: &[".import <file> [<keyspace>.]<table> [--rejects <file>] [--threads <n>]"],
        text: "Inserts the rows of a .csv file with a header, a .json file (an array of objects, or an object a \
               line; also .jsonl and .ndjson) or a .parquet file into a table, with columns of the same names. \
               Rejected rows are kept in a file of JSON lines with the reason \
               (<file>.rejected.jsonl by default).",
        examples: &[],
    },
    Topic {
        name: "LOGIN",
        summary: "continue as another user",
        forms: &["LOGIN <user> ['<password>']"],
        text: "Connects as another user. Without a password, asks for it.",
        examples: &[],
    },
    Topic {
        name: "PAGING",
        summary: "rows of a page",
        forms: &["PAGING ON | OFF | <rows>", "PAGING"],
        text: "Reads results in pages, of 100 rows by default. On a terminal, the Enter key shows the next page \
               at ---MORE---, and q with Enter ends the result. Without arguments, shows the state.",
        examples: &[],
    },
    Topic {
        name: "SERIAL",
        summary: "consistency level of conditional writes",
        forms: &["SERIAL CONSISTENCY SERIAL | LOCAL_SERIAL", "SERIAL CONSISTENCY"],
        text: "Sets the consistency level of the serial phase of conditional writes. Without arguments, shows it.",
        examples: &[],
    },
    Topic {
        name: "SHOW",
        summary: "versions, host, traces, replicas",
        forms: &[
            "SHOW VERSION",
            "SHOW HOST",
            "SHOW SESSION <trace id>",
            "SHOW REPLICAS <token> [<keyspace>]",
        ],
        text: "Shows the versions of shell and server, where the shell is connected to, an earlier trace, or the \
               nodes that store a token.",
        examples: &[],
    },
    Topic {
        name: "SOURCE",
        summary: "execute a file",
        forms: &["SOURCE '<file>'"],
        text: "Executes the statements and commands of a file. Errors do not end it. --file does so at the start.",
        examples: &[],
    },
    Topic {
        name: "TEXT",
        summary: "how text is shown",
        forms: &["\\n, \\t, \\x1b, \\\\"],
        text: "Tables show control characters in text as escapes, and double backslashes. With colors, escapes \
               have another color and backslashes are not doubled. Other characters are shown as they are.",
        examples: &[],
    },
    Topic {
        name: "TRACING",
        summary: "the steps of each request",
        forms: &["TRACING ON | OFF", "TRACING"],
        text: "Records and shows the steps of each request. Without arguments, shows whether it is on.",
        examples: &[],
    },
    Topic {
        name: "USE",
        summary: "keyspace of names without one",
        forms: &["USE <keyspace>"],
        text: "Selects the keyspace in which names of tables are looked up. It is a statement of CQL.",
        examples: &[],
    },
];
