//! The environment variables of Cassandra's image, as arguments of `cassette serve`.

use anyhow::bail;
use cassette_database::Node;

/// The variable with the file of the superuser's password, which is not in Cassandra's image.
const PASSWORD_FILE: &str = "CASSETTE_SUPERUSER_PASSWORD_FILE";

/// Variables about other nodes, which do not exist here.
const WITHOUT_EFFECT: [&str; 6] = [
    "CASSANDRA_BROADCAST_ADDRESS",
    "CASSANDRA_BROADCAST_RPC_ADDRESS",
    "CASSANDRA_LISTEN_ADDRESS",
    "CASSANDRA_NUM_TOKENS",
    "CASSANDRA_SEEDS",
    "CASSANDRA_START_RPC",
];

/// The snitches of Cassandra that ignore `CASSANDRA_DC` and `CASSANDRA_RACK`.
const SNITCH_WITHOUT_NAMES: &str = "SimpleSnitch";

/// What the environment sets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settings {
    cluster_name: Option<String>,
    data_center: Option<String>,
    rack: Option<String>,
    host: String,
    password_file: Option<String>,
    /// Variables that have no effect, as texts for the log.
    pub warnings: Vec<String>,
}

/// Reads the variables. Those that are empty are not set, as in Cassandra's image.
///
/// # Errors
/// If a value is invalid.
pub fn settings(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Settings> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    let host = variable("CASSANDRA_RPC_ADDRESS").unwrap_or_else(|| "0.0.0.0".to_owned());
    if host.contains(char::is_whitespace) {
        bail!("invalid CASSANDRA_RPC_ADDRESS: expected an address, found {host:?}");
    }
    let mut settings = Settings {
        cluster_name: variable("CASSANDRA_CLUSTER_NAME"),
        host,
        password_file: variable(PASSWORD_FILE),
        ..Settings::default()
    };
    let ignored = WITHOUT_EFFECT.iter().filter(|name| variable(name).is_some());
    settings.warnings.extend(ignored.map(|name| format!("{name} has no effect: this is the only node")));
    let (data_center, rack) = (variable("CASSANDRA_DC"), variable("CASSANDRA_RACK"));
    let snitch = variable("CASSANDRA_ENDPOINT_SNITCH").unwrap_or_else(|| SNITCH_WITHOUT_NAMES.to_owned());
    if snitch.rsplit('.').next() != Some(SNITCH_WITHOUT_NAMES) {
        (settings.data_center, settings.rack) = (data_center, rack);
    } else if data_center.is_some() || rack.is_some() {
        settings.warnings.push(
            "CASSANDRA_DC and CASSANDRA_RACK have no effect, as in Cassandra's image, without \
             CASSANDRA_ENDPOINT_SNITCH=GossipingPropertyFileSnitch"
                .to_owned(),
        );
    }
    Ok(settings)
}

impl Settings {
    /// Returns the address to listen on, with `port`.
    pub fn address(&self, port: u16) -> String {
        let is_v6 = self.host.contains(':') && !self.host.starts_with('[');
        if is_v6 { format!("[{}]:{port}", self.host) } else { format!("{}:{port}", self.host) }
    }

    /// Returns the arguments of `cassette serve` that listens on `port`.
    pub fn arguments(&self, port: u16) -> Vec<String> {
        let mut words = vec!["--listen".to_owned(), self.address(port)];
        for (option, value) in [
            ("--cluster-name", &self.cluster_name),
            ("--data-center", &self.data_center),
            ("--rack", &self.rack),
            ("--superuser-password-file", &self.password_file),
        ] {
            words.extend(value.iter().map(|value| format!("{option}={value}")));
        }
        if self.password_file.is_some() {
            let classes = ["--authenticator=PasswordAuthenticator", "--authorizer=CassandraAuthorizer"];
            words.extend(classes.map(str::to_owned));
        }
        words
    }

    /// Replaces the names of `node` by those that are set.
    pub fn apply(&self, node: &mut Node) {
        for (name, value) in [
            (&mut node.cluster_name, &self.cluster_name),
            (&mut node.data_center, &self.data_center),
            (&mut node.rack, &self.rack),
        ] {
            if let Some(value) = value {
                name.clone_from(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_of(variables: &[(&str, &str)]) -> anyhow::Result<Settings> {
        settings(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn without_variables_the_server_listens_on_all_addresses() {
        let settings = settings_of(&[("CASSANDRA_CLUSTER_NAME", "")]).unwrap();
        assert_eq!(settings.arguments(9042), ["--listen", "0.0.0.0:9042"]);
        assert!(settings.warnings.is_empty());
    }

    #[test]
    fn names_apply_with_a_snitch_that_uses_them() {
        let names =
            [("CASSANDRA_CLUSTER_NAME", "my cluster"), ("CASSANDRA_DC", "dc1"), ("CASSANDRA_RACK", "r")];
        let alone = settings_of(&names).unwrap();
        assert_eq!(alone.arguments(1)[2..], ["--cluster-name=my cluster"]);
        assert!(alone.warnings[0].contains("CASSANDRA_ENDPOINT_SNITCH"), "{:?}", alone.warnings);
        let snitch = ("CASSANDRA_ENDPOINT_SNITCH", "GossipingPropertyFileSnitch");
        let used = settings_of(&[&names[..], &[snitch]].concat()).unwrap();
        assert_eq!(used.arguments(1)[2..], ["--cluster-name=my cluster", "--data-center=dc1", "--rack=r"]);
        let mut node = Node::default();
        used.apply(&mut node);
        assert_eq!([node.cluster_name, node.data_center, node.rack], ["my cluster", "dc1", "r"]);
    }

    #[test]
    fn an_address_is_bracketed_if_it_is_of_version_6() {
        let listen =
            |host| settings_of(&[("CASSANDRA_RPC_ADDRESS", host)]).unwrap().arguments(9042)[1].clone();
        assert_eq!([listen("::"), listen("10.0.0.1")], ["[::]:9042", "10.0.0.1:9042"]);
        assert!(settings_of(&[("CASSANDRA_RPC_ADDRESS", "10.0.0.1 --data x")]).is_err());
    }

    #[test]
    fn a_password_file_requires_passwords() {
        let words = settings_of(&[(PASSWORD_FILE, "/run/secrets/password")]).unwrap().arguments(9042);
        let expected =
            ["--superuser-password-file=/run/secrets/password", "--authenticator=PasswordAuthenticator"];
        assert_eq!(words[2..4], expected);
    }

    #[test]
    fn variables_about_other_nodes_are_reported() {
        let settings = settings_of(&[("CASSANDRA_SEEDS", "a,b")]).unwrap();
        assert_eq!(settings.warnings, ["CASSANDRA_SEEDS has no effect: this is the only node"]);
    }
}
