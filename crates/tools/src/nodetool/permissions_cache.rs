//! `invalidatepermissionscache`: its options name resources of one role.

use cassette_admin_api::Operation;

use super::arguments::Invocation;
use super::{Failure, Result};

/// The options that name a resource.
const RESOURCES: [&str; 11] = [
    "--all-keyspaces",
    "--keyspace",
    "--all-tables",
    "--table",
    "--all-roles",
    "--role",
    "--all-functions",
    "--functions-in-keyspace",
    "--function",
    "--all-mbeans",
    "--mbean",
];

/// Returns the operation, after the checks of Cassandra's nodetool. The permissions of a role are
/// one entry, which is removed whatever the resources are.
pub(super) fn invalidation(invocation: &Invocation) -> Result<Operation> {
    // Of the options, those of all resources of a kind have no value.
    let is_set = |name: &str| {
        let has_value = invocation.option(name).is_some_and(|value| !value.is_empty());
        has_value || (name.starts_with("--all-") && invocation.has(name))
    };
    let any = RESOURCES.iter().any(|name| is_set(name));
    let refused = match invocation.arguments.as_slice() {
        [] if any => Some("No resource options allowed without a <role> being specified"),
        [] => None,
        [_] if is_set("--all-tables") && !is_set("--keyspace") => {
            Some("--all-tables option should be passed along with --keyspace option")
        }
        [_] if is_set("--table") && !is_set("--keyspace") => {
            Some("--table option should be passed along with --keyspace option")
        }
        [_] if is_set("--function") && !is_set("--functions-in-keyspace") => {
            Some("--function option should be passed along with --functions-in-keyspace option")
        }
        [_] if !any => Some("No resource options specified"),
        [_] => None,
        _ => Some("A single <role> is only supported / you have a typo in the resource options spelling"),
    };
    if let Some(message) = refused {
        return Err(Failure::usage(message));
    }
    let roles = invocation.arguments.clone();
    Ok(Operation::InvalidateAuthCache { cache: "permissions".to_owned(), roles })
}

#[cfg(test)]
mod tests {
    use super::super::arguments::{Parsed, parse};
    use super::*;

    fn invalidated(line: &str) -> Result<Operation> {
        let words = line.split_whitespace().map(str::to_owned);
        let Parsed::Run(invocation) = parse(&words.collect::<Vec<_>>())? else { panic!("{line}") };
        invalidation(&invocation)
    }

    #[test]
    fn resources_are_checked_as_by_cassandra() {
        for (arguments, expected) in [
            ("--all-keyspaces", "No resource options allowed without a <role> being specified"),
            ("u", "No resource options specified"),
            ("u --all-tables", "--all-tables option should be passed along with --keyspace option"),
            ("u --table t", "--table option should be passed along with --keyspace option"),
            (
                "u --function f",
                "--function option should be passed along with --functions-in-keyspace option",
            ),
            ("n u", "A single <role> is only supported / you have a typo in the resource options spelling"),
        ] {
            let refused = invalidated(&format!("invalidatepermissionscache {arguments}"));
            assert!(
                matches!(&refused, Err(Failure::Usage(found)) if found == expected),
                "{arguments}: {refused:?}"
            );
        }
        for (arguments, roles) in
            [("", vec![]), ("u --keyspace system --all-roles --role r --mbean a:b=*", vec!["u".to_owned()])]
        {
            let operation = invalidated(&format!("invalidatepermissionscache {arguments}")).unwrap();
            assert_eq!(operation, Operation::InvalidateAuthCache { cache: "permissions".to_owned(), roles });
        }
    }
}
