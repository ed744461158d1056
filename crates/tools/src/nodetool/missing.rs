//! Unsupported commands of Cassandra's nodetool: scripts that call one receive the reason.

/// Commands about other nodes: communication, streaming, repair or ownership.
const OF_SEVERAL_NODES: &[&str] = &[
    "assassinate",
    "autorepairstatus",
    "bootstrap",
    "checktokenmetadata",
    "cleanup",
    "decommission",
    "describering",
    "disablegossip",
    "disablehandoff",
    "disablehintsfordc",
    "enablegossip",
    "enablehandoff",
    "enablehintsfordc",
    "failuredetector",
    "getautorepairconfig",
    "getbatchlogreplaythrottle",
    "getdefaultrf",
    "getendpoints",
    "getinterdcstreamthroughput",
    "getmaxhintwindow",
    "getseeds",
    "getstreamthroughput",
    "gossipinfo",
    "join",
    "listpendinghints",
    "move",
    "netstats",
    "pausehandoff",
    "rebuild",
    "reloadseeds",
    "removenode",
    "repair",
    "repair_admin",
    "replaybatchlog",
    "resetlocalschema",
    "resumehandoff",
    "setautorepairconfig",
    "setbatchlogreplaythrottle",
    "setdefaultrf",
    "sethintedhandoffthrottlekb",
    "setinterdcstreamthroughput",
    "setmaxhintwindow",
    "setstreamthroughput",
    "sstablerepairedset",
    "statushandoff",
    "truncatehints",
];

/// Commands about features that are not supported yet, or that this process does not have.
const OTHERS: &[&str] = &[
    "disablebackup",
    "disablebinary",
    "disableoldprotocolversions",
    "enablebackup",
    "enablebinary",
    "enableoldprotocolversions",
    "forcecompact",
    "getauthcacheconfig",
    "getcolumnindexsize",
    "getcompactionthreshold",
    "getconcurrency",
    "getconcurrentviewbuilders",
    "getsnapshotthrottle",
    "getsstables",
    "rangekeysample",
    "rebuild_index",
    "recompress_sstables",
    "refreshsizeestimates",
    "reloadlocalschema",
    "reloadtriggers",
    "relocatesstables",
    "setauthcacheconfig",
    "setcolumnindexsize",
    "setcompactionthreshold",
    "setconcurrency",
    "setconcurrentviewbuilders",
    "setsnapshotthrottle",
    "sjk",
    "statusbackup",
    "stopdaemon",
    "viewbuildstatus",
];

/// Returns the reason why a command is unsupported; `None` if Cassandra has no such command either.
pub(super) fn reason(name: &str) -> Option<String> {
    if OF_SEVERAL_NODES.contains(&name) {
        return Some(format!(
            "Cassette does not support {name}: it requires several nodes, and there is one"
        ));
    }
    OTHERS.contains(&name).then(|| format!("Cassette does not support {name} yet"))
}

#[cfg(test)]
mod tests {
    use super::super::arguments::COMMANDS;
    use super::*;

    #[test]
    fn no_supported_command_is_reported_as_unsupported() {
        for command in COMMANDS {
            for name in command.names {
                assert_eq!(reason(name), None, "{name}");
            }
        }
        assert_eq!(reason("nosuchcmd"), None);
    }
}
