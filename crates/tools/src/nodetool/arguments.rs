//! The command line of Cassandra's nodetool: options of one dash and several letters, and those
//! that are common to all commands before or after the command's name.

use std::collections::BTreeMap;

use super::{Failure, Result, missing};

/// An option: its names, of which the longest is canonical, and whether a value follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opt {
    names: &'static [&'static str],
    takes_value: bool,
}

/// A command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    /// Its names; the first is canonical.
    pub names: &'static [&'static str],
    pub about: &'static str,
    pub usage: &'static str,
    pub options: &'static [Opt],
}

/// The parsed command line.
#[derive(Debug)]
pub(super) enum Parsed {
    Help(String),
    Run(Invocation),
}

/// A command with its options and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Invocation {
    /// The canonical name of the command.
    pub command: &'static str,
    pub host: String,
    pub port: String,
    options: BTreeMap<&'static str, String>,
    pub arguments: Vec<String>,
}

impl Invocation {
    /// Returns the value of an option, by its longest name.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// Returns whether an option without value is present.
    pub fn has(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    /// An option's value as a number.
    pub fn number<N: std::str::FromStr>(&self, name: &str, default: N) -> Result<N> {
        match self.option(name) {
            None => Ok(default),
            Some(text) => {
                text.parse().map_err(|_| Failure::usage(format!("{name}: can not convert \"{text}\"")))
            }
        }
    }
}

const fn flag(names: &'static [&'static str]) -> Opt {
    Opt { names, takes_value: false }
}

const fn value(names: &'static [&'static str]) -> Opt {
    Opt { names, takes_value: true }
}

const GLOBAL: &[Opt] = &[
    value(&["-h", "--host"]),
    value(&["-p", "--port"]),
    value(&["-u", "--username"]),
    value(&["-pw", "--password"]),
    value(&["-pwf", "--password-file"]),
    value(&["--socket"]),
    value(&["--token-file"]),
    flag(&["--ssl"]),
    value(&["--tls-ca"]),
    value(&["--tls-certificate"]),
    value(&["--tls-key"]),
    flag(&["-pp", "--print-port"]),
    value(&["-F", "--format"]),
];

const CACHE_CAPACITIES: &str = "<key-cache-capacity> <row-cache-capacity> <counter-cache-capacity>";
const CACHE_KEYS_TO_SAVE: &str =
    "<key-cache-keys-to-save> <row-cache-keys-to-save> <counter-cache-keys-to-save>";
const TABLES: &str = "[<keyspace> <tables>...]";
const HUMAN: Opt = flag(&["-H", "--human-readable"]);
const RESOLVE: Opt = flag(&["-r", "--resolve-ip"]);
const JOBS: Opt = value(&["-j", "--jobs"]);

const fn command(
    names: &'static [&'static str],
    about: &'static str,
    usage: &'static str,
    options: &'static [Opt],
) -> Command {
    Command { names, about, usage, options }
}

/// All commands, by name.
pub(super) const COMMANDS: &[Command] = &[
    command(
        &["adopttable"],
        "Create the table of unknown data again, so that its files are used (not in Cassandra)",
        "<table id>",
        &[],
    ),
    command(&["cidrfilteringstats"], "Print statistics on CIDR filtering", "", &[]),
    command(
        &["archivecommitlog"],
        "Archive the commit log into the configured repository of backups, now (not in Cassandra)",
        "",
        &[],
    ),
    command(
        &["backup"],
        "Back up the given keyspaces, or all with roles, into a directory of backups on the node's machine or an \
         object store (not in Cassandra)",
        "<directory> [<keyspaces>...]",
        &[value(&["--name"]), flag(&["--link"]), value(&["--key-file"])],
    ),
    command(
        &["backupstatus"],
        "Print the state of scheduled backups and of the archived commit log (not in Cassandra)",
        "",
        &[],
    ),
    command(
        &["clearsnapshot"],
        "Remove the snapshot with the given name from the given keyspaces",
        "[<keyspaces>...]",
        &[value(&["-t"]), flag(&["--all"]), value(&["--older-than"]), value(&["--older-than-timestamp"])],
    ),
    command(
        &["clientstats"],
        "Print information about connected clients",
        "",
        &[
            flag(&["--all"]),
            flag(&["--by-protocol"]),
            flag(&["--clear-history"]),
            flag(&["--client-options"]),
        ],
    ),
    command(
        &["compact"],
        "Force a (major) compaction on one or more tables or user-defined compaction on given SSTables",
        "[<keyspace> <tables>...] or <SSTable file>...",
        &[
            flag(&["-s", "--split-output"]),
            flag(&["--user-defined"]),
            value(&["-st", "--start-token"]),
            value(&["-et", "--end-token"]),
            value(&["--partition"]),
        ],
    ),
    command(&["compactionhistory"], "Print history of compaction", "", &[]),
    command(&["compactionstats"], "Print statistics on compactions", "", &[HUMAN, flag(&["-V", "--vtable"])]),
    command(
        &["datapaths"],
        "Print all directories where data of tables are stored",
        "[<keyspace.table>...]",
        &[],
    ),
    command(
        &["describecluster"],
        "Print the name, snitch, partitioner and schema version of a cluster",
        "",
        &[],
    ),
    command(&["disableauditlog"], "Disable the audit log", "", &[]),
    command(
        &["disableautocompaction"],
        "Disable autocompaction for the given keyspace and table",
        TABLES,
        &[],
    ),
    command(&["disablefullquerylog"], "Disable the full query log", "", &[]),
    command(&["drain"], "Drain the node (stop accepting writes and flush all tables)", "", &[]),
    command(&["dropcidrgroup"], "Drop an existing cidr group", "<cidrGroup>", &[]),
    command(
        &["enableauditlog"],
        "Enable the audit log",
        "",
        &[
            value(&["--logger"]),
            value(&["--included-keyspaces"]),
            value(&["--excluded-keyspaces"]),
            value(&["--included-categories"]),
            value(&["--excluded-categories"]),
            value(&["--included-users"]),
            value(&["--excluded-users"]),
            value(&["--roll-cycle"]),
            value(&["--blocking"]),
            value(&["--max-queue-weight"]),
            value(&["--max-log-size"]),
            value(&["--archive-command"]),
            value(&["--max-archive-retries"]),
        ],
    ),
    command(&["enableautocompaction"], "Enable autocompaction for the given keyspace and table", TABLES, &[]),
    command(
        &["enablefullquerylog"],
        "Enable full query logging, defaults for the options are configured in cassandra.yaml",
        "",
        &[
            value(&["--path"]),
            value(&["--roll-cycle"]),
            value(&["--blocking"]),
            value(&["--max-queue-weight"]),
            value(&["--max-log-size"]),
            value(&["--archive-command"]),
            value(&["--max-archive-retries"]),
        ],
    ),
    command(&["flush"], "Flush one or more tables", TABLES, &[]),
    command(
        &["garbagecollect"],
        "Remove deleted data from one or more tables",
        TABLES,
        &[value(&["-g", "--granularity"]), JOBS],
    ),
    command(&["gcstats"], "Print GC Statistics", "", &[]),
    command(
        &["getauditlog"],
        "Print configuration of audit log if enabled, otherwise the configuration reflected in cassandra.yaml",
        "",
        &[],
    ),
    command(&["getcidrgroupsofip"], "Print CIDR groups associated with given IP", "<IP address>", &[]),
    command(
        &["getcompactionthroughput"],
        "Print the MiB/s throughput cap for compaction in the system as a rounded number",
        "",
        &[flag(&["-d", "--precise-mib"])],
    ),
    command(&["getconcurrentcompactors"], "Get the number of concurrent compactors in the system", "", &[]),
    command(
        &["getfullquerylog"],
        "Print configuration of fql if enabled, otherwise the configuration reflected in cassandra.yaml",
        "",
        &[],
    ),
    command(
        &["getguardrailsconfig"],
        "Print runtime configuration of guardrails.",
        "[<guardrail>]",
        &[value(&["-c", "--category"]), flag(&["--expand"])],
    ),
    command(&["getlogginglevels"], "Get the runtime logging levels", "", &[]),
    command(&["gettimeout"], "Print the timeout of the given type in ms", "<timeout_type>", &[]),
    command(&["gettraceprobability"], "Print the current trace probability value", "", &[]),
    command(
        &["import"],
        "Import new SSTables to the system",
        "<keyspace> <table> <directory> ...",
        &[
            flag(&["-l", "--keep-level"]),
            flag(&["-r", "--keep-repaired"]),
            flag(&["-v", "--no-verify"]),
            flag(&["-t", "--no-tokens"]),
            flag(&["-c", "--no-invalidate-caches"]),
            flag(&["-q", "--quick"]),
            flag(&["-e", "--extended-verify"]),
            flag(&["-p", "--copy-data"]),
            flag(&["-ri", "--require-index-components"]),
            flag(&["-niv", "--no-index-validation"]),
        ],
    ),
    command(
        &["info"],
        "Print node information (uptime, load, ...)",
        "",
        &[flag(&["-T", "--tokens"]), flag(&["-O", "--out-of-range-ops"])],
    ),
    command(&["invalidatecidrpermissionscache"], "Invalidate the cidr permissions cache", "[<role>...]", &[]),
    command(&["invalidatecountercache"], "Invalidate the counter cache", "", &[]),
    command(&["invalidatecredentialscache"], "Invalidate the credentials cache", "[<role>...]", &[]),
    command(&["invalidatejmxpermissionscache"], "Invalidate the JMX permissions cache", "[<role>...]", &[]),
    command(&["invalidatekeycache"], "Invalidate the key cache", "", &[]),
    command(
        &["invalidatenetworkpermissionscache"],
        "Invalidate the network permissions cache",
        "[<role>...]",
        &[],
    ),
    command(
        &["invalidatepermissionscache"],
        "Invalidate the permissions cache",
        "[<role>]",
        &[
            flag(&["--all-keyspaces"]),
            value(&["--keyspace"]),
            flag(&["--all-tables"]),
            value(&["--table"]),
            flag(&["--all-roles"]),
            value(&["--role"]),
            flag(&["--all-functions"]),
            value(&["--functions-in-keyspace"]),
            value(&["--function"]),
            flag(&["--all-mbeans"]),
            value(&["--mbean"]),
        ],
    ),
    command(&["invalidaterolescache"], "Invalidate the roles cache", "[<role>...]", &[]),
    command(&["invalidaterowcache"], "Invalidate the row cache", "", &[]),
    command(&["listcidrgroups"], "List existing cidr groups", "[<cidrGroup>]", &[]),
    command(
        &["listsnapshots"],
        "Lists all the snapshots along with the size on disk and true size",
        "",
        &[flag(&["-nt", "--no-ttl"]), flag(&["-e", "--ephemeral"])],
    ),
    command(&["proxyhistograms"], "Print statistic histograms for network operations", "", &[]),
    command(
        &["refresh"],
        "Load newly placed SSTables to the system without restart",
        "<keyspace> <table>",
        &[],
    ),
    command(
        &["reloadcidrgroupscache"],
        "Reload CIDR groups cache with latest entries in cidr_groups table, when CIDR authorizer is enabled",
        "",
        &[],
    ),
    command(&["reloadssl"], "Signals Cassandra to reload SSL certificates", "", &[]),
    command(
        &["removeunknowntable"],
        "Remove data of a table that the schema does not name (not in Cassandra)",
        "--yes <table id or directory>",
        &[flag(&["--yes"])],
    ),
    command(
        &["resetfullquerylog"],
        "Stop the full query log and clean files in the configured full query log directory from cassandra.yaml as \
         well as JMX",
        "",
        &[],
    ),
    command(&["ring"], "Print information about the token ring", "[<keyspace>]", &[RESOLVE]),
    command(
        &["restorebackup"],
        "Restore the given keyspaces or tables, or all, from a directory of backups on the node's machine or an \
         object store (not in Cassandra)",
        "<directory> [<keyspace> | <keyspace.table>...]",
        &[
            value(&["--name"]),
            flag(&["--truncate"]),
            value(&["--keyspace-as"]),
            value(&["--table-as"]),
            value(&["--key-file"]),
        ],
    ),
    command(
        &["scrub"],
        "Scrub (rebuild sstables for) one or more tables",
        TABLES,
        &[
            flag(&["-ns", "--no-snapshot"]),
            flag(&["-s", "--skip-corrupted"]),
            flag(&["-n", "--no-validate"]),
            flag(&["-r", "--reinsert-overflowed-ttl"]),
            JOBS,
        ],
    ),
    command(
        &["setcachecapacity"],
        "Set global key, row, and counter cache capacities (in MB units)",
        CACHE_CAPACITIES,
        &[],
    ),
    command(
        &["setcachekeystosave"],
        "Set number of keys saved by each cache for faster post-restart warmup. 0 to disable",
        CACHE_KEYS_TO_SAVE,
        &[],
    ),
    command(
        &["setcompactionthroughput"],
        "Set the MiB/s throughput cap for compaction in the system, or 0 to disable throttling",
        "<value_in_mb>",
        &[],
    ),
    command(
        &["setconcurrentcompactors"],
        "Set number of concurrent compactors in the system.",
        "<value>",
        &[],
    ),
    command(
        &["setguardrailsconfig"],
        "Modify runtime configuration of guardrails.",
        "[<setter> <value1> ...]",
        &[],
    ),
    command(
        &["setlogginglevel"],
        "Set the log level threshold for a given component or class",
        "<component|class> <level>",
        &[],
    ),
    command(
        &["settimeout"],
        "Set the specified timeout in ms, or 0 to disable timeout",
        "<timeout_type> <timeout_in_ms>",
        &[],
    ),
    command(
        &["settraceprobability"],
        "Sets the probability for tracing any given request to value",
        "<value>",
        &[],
    ),
    command(
        &["snapshot"],
        "Take a snapshot of specified keyspaces or a snapshot of the specified table",
        "[<keyspaces...>]",
        &[
            value(&["-cf", "--table", "--column-family"]),
            value(&["-t", "--tag"]),
            value(&["-kt", "-kc", "--kc.list", "--kt-list"]),
            flag(&["-sf", "--skip-flush"]),
            value(&["--ttl"]),
        ],
    ),
    command(&["status"], "Print cluster information (state, load, IDs, ...)", "[<keyspace>]", &[RESOLVE]),
    command(
        &["statusautocompaction"],
        "status of autocompaction of the given keyspace and table",
        TABLES,
        &[flag(&["-a", "--all"])],
    ),
    command(&["statusbinary"], "Status of native transport (binary protocol)", "", &[]),
    command(&["statusgossip"], "Status of gossip", "", &[]),
    command(&["stop"], "Stop compaction", "<compaction type>", &[value(&["-id", "--compaction-id"])]),
    command(
        &["tablehistograms", "cfhistograms"],
        "Print statistic histograms for a given table",
        "[<keyspace> <table> | <keyspace.table>]",
        &[],
    ),
    command(
        &["tablestats", "cfstats"],
        "Print statistics on tables",
        "[<keyspace.table>...]",
        &[
            flag(&["-i"]),
            HUMAN,
            value(&["-s", "--sort"]),
            value(&["-t", "--top"]),
            flag(&["-l", "--sstable-location-check"]),
        ],
    ),
    command(
        &["toppartitions", "profileload"],
        "Sample and print the most active partitions",
        "<keyspace> <cfname> <duration>",
        &[
            value(&["-s"]),
            value(&["-k"]),
            value(&["-a"]),
            value(&["-i", "--interval"]),
            flag(&["-t", "--stop"]),
            flag(&["-l", "--list"]),
        ],
    ),
    command(&["tpstats"], "Print usage statistics of thread pools", "", &[]),
    command(
        &["unknowntables"],
        "List data of tables that the schema does not name (not in Cassandra)",
        "",
        &[],
    ),
    command(&["updatecidrgroup"], "Insert/Update a cidr group", "[<cidrGroup> <cidr> ...]", &[]),
    command(
        &["upgradesstables"],
        "Rewrite sstables (for the requested tables) that are not on the current version",
        TABLES,
        &[flag(&["-a", "--include-all-sstables"]), value(&["-t", "--max-timestamp"]), JOBS],
    ),
    command(
        &["verify"],
        "Verify (check data checksum for) one or more tables",
        TABLES,
        &[
            flag(&["-e", "--extended-verify"]),
            flag(&["-c", "--check-version"]),
            flag(&["-f", "--force"]),
            flag(&["-d", "--dfp"]),
            flag(&["-r", "--rsc"]),
            flag(&["-t", "--check-tokens"]),
            flag(&["-q", "--quick"]),
        ],
    ),
    command(&["version"], "Print cassandra version", "", &[flag(&["-v", "--verbose"])]),
];

/// Parses the words after `nodetool`.
pub(super) fn parse(words: &[String]) -> Result<Parsed> {
    let mut words = words.iter().map(String::as_str);
    let mut command: Option<&Command> = None;
    let mut options = BTreeMap::new();
    let mut arguments = Vec::new();
    let mut only_arguments = false;
    while let Some(word) = words.next() {
        // A negative number is not an option.
        let is_number = command.is_some() && word.parse::<i64>().is_ok();
        if only_arguments || is_number || !word.starts_with('-') || word == "-" {
            match command {
                None if word == "help" => return Ok(Parsed::Help(help(words.next())?)),
                None => {
                    let found = COMMANDS.iter().find(|command| command.names.contains(&word));
                    command = Some(found.ok_or_else(|| match missing::reason(word) {
                        Some(reason) => Failure::Error(reason),
                        None => Failure::usage(format!("Found unexpected parameters: [{word}]")),
                    })?);
                }
                Some(_) => arguments.push(word.to_owned()),
            }
            continue;
        }
        if word == "--" {
            only_arguments = true;
            continue;
        }
        if word == "--help" {
            return Ok(Parsed::Help(help(command.map(|command| command.names[0]))?));
        }
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ => (word, None),
        };
        let own = command.map_or(&[][..], |command| command.options);
        let option = own.iter().chain(GLOBAL).find(|option| option.names.contains(&name));
        let Some(option) = option else {
            return Err(Failure::usage(format!("Found unexpected parameters: [{word}]")));
        };
        let given = match (option.takes_value, attached) {
            (true, Some(value)) => value.to_owned(),
            (true, None) => {
                let value = words.next();
                value
                    .ok_or_else(|| {
                        Failure::usage(format!("Required values for option '{name}' not provided"))
                    })?
                    .to_owned()
            }
            (false, None) => String::new(),
            (false, Some(_)) => return Err(Failure::usage(format!("Found unexpected parameters: [{word}]"))),
        };
        options.insert(option.key(), given);
    }
    let Some(command) = command else { return Ok(Parsed::Help(help(None)?)) };
    let take = |options: &mut BTreeMap<&'static str, String>, name: &str, default: &str| {
        options.remove(name).unwrap_or_else(|| default.to_owned())
    };
    Ok(Parsed::Run(Invocation {
        command: command.names[0],
        host: take(&mut options, "--host", "127.0.0.1"),
        port: take(&mut options, "--port", "7199"),
        options,
        arguments,
    }))
}

impl Opt {
    /// Returns the canonical name.
    fn key(&self) -> &'static str {
        self.names.last().copied().unwrap_or_default()
    }
}

fn help(command: Option<&str>) -> Result<String> {
    let Some(name) = command else {
        let mut text = "usage: cassette nodetool [(-h <host> | --host <host>)] [(-p <port> | --port \
            <port>)] [(-u <username> | --username <username>)] [(-pw <password> | --password \
            <password>)] [(-pwf <passwordFile> | --password-file <passwordFile>)] [(-F <format> | \
            --format <format>)] <command> [<args>]\n\nOptions that Cassandra does not have:\n    \
            --socket <path>           Connect to a Unix socket, which needs no password\n    \
            --token-file <file>       Use a token instead of a user name and a password\n    \
            --tls-ca <file>           Connect with TLS, and trust the certificates in the file\n    \
            --tls-certificate <file>  The certificate of this client, with its private key\n    \
            --tls-key <file>          The private key, if it is in another file\n\nWithout a \
            password, CASSETTE_PASSWORD in the environment has it.\n\nThe commands are:\n"
            .to_owned();
        for command in COMMANDS {
            text += &format!("    {:<24} {}\n", command.names[0], command.about);
        }
        return Ok(
            text + "\nSee 'cassette nodetool help <command>' for more information on a specific command.\n\n"
        );
    };
    let found = COMMANDS.iter().find(|command| command.names.contains(&name));
    let command = found.ok_or_else(|| Failure::usage(format!("Unknown command {name}")))?;
    let mut text = format!(
        "NAME\n        nodetool {} - {}\n\nSYNOPSIS\n        nodetool {}",
        command.names[0], command.about, command.names[0]
    );
    for option in command.options.iter().chain(GLOBAL) {
        let value = if option.takes_value { " <value>" } else { "" };
        let names: Vec<_> = option.names.iter().map(|name| format!("{name}{value}")).collect();
        text += &format!("\n                [{}]", names.join(" | "));
    }
    text += &format!("\n                [--] {}\n\n", command.usage);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(line: &str) -> Result<Parsed> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn invocation(line: &str) -> Invocation {
        match parse_words(line) {
            Ok(Parsed::Run(invocation)) => invocation,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_are_accepted_before_and_after_the_command() {
        let parsed =
            invocation("-h 10.0.0.1 -p 7300 -u me -pw secret tablestats -H -F json ks.t ks2 -- -odd");
        assert_eq!((&*parsed.host, &*parsed.port, parsed.command), ("10.0.0.1", "7300", "tablestats"));
        assert!(parsed.has("--human-readable"));
        assert_eq!(parsed.option("--format"), Some("json"));
        assert_eq!(parsed.arguments, ["ks.t", "ks2", "-odd"]);
        assert_eq!(invocation("cfstats -p 1 ks").port, "1");
        assert_eq!(invocation("cfhistograms ks t").command, "tablehistograms");
        assert_eq!(invocation("--port=8 status").port, "8");
    }

    #[test]
    fn an_option_of_a_command_hides_the_one_of_all_commands() {
        let parsed = invocation("import -p ks t /dir");
        assert!(parsed.has("--copy-data"));
        assert_eq!((&*parsed.port, parsed.arguments.len()), ("7199", 3));
        let snapshot = invocation("snapshot -kt ks.a,ks.b -sf -t name");
        assert_eq!(
            (snapshot.option("--kt-list"), snapshot.option("--tag")),
            (Some("ks.a,ks.b"), Some("name"))
        );
        assert_eq!(invocation("tablestats -t 3 -s reads").option("--top"), Some("3"));
    }

    #[test]
    fn unknown_words_are_rejected_with_cassandras_messages() {
        for (line, expected) in [
            ("nosuchcmd", "Found unexpected parameters: [nosuchcmd]"),
            ("status --nosuch", "Found unexpected parameters: [--nosuch]"),
            ("tablestats -s", "Required values for option '-s' not provided"),
        ] {
            match parse_words(line) {
                Err(Failure::Usage(message)) => assert_eq!(message, expected),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn unsupported_commands_of_cassandra_are_rejected_by_name() {
        for (line, expected) in [
            ("repair ks", "Cassette does not support repair: it requires several nodes, and there is one"),
            ("-h 10.0.0.1 getsstables ks t 1", "Cassette does not support getsstables yet"),
        ] {
            match parse_words(line) {
                Err(Failure::Error(message)) => assert_eq!(message, expected),
                other => panic!("{line}: {other:?}"),
            }
        }
    }

    #[test]
    fn names_and_options_are_unambiguous() {
        let mut names: Vec<_> = COMMANDS.iter().flat_map(|command| command.names).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        for command in COMMANDS {
            let mut options: Vec<_> = command.options.iter().flat_map(|option| option.names).collect();
            let all = options.len();
            options.sort();
            options.dedup();
            assert_eq!(options.len(), all, "{}", command.names[0]);
            assert!(matches!(parse_words(&format!("help {}", command.names[0])), Ok(Parsed::Help(_))));
        }
    }
}
