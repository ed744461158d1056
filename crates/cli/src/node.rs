//! Names of the node: its cluster, data center and rack.

use cassette_database::Node;
use clap::Args;

/// Options that name the node.
#[derive(Debug, Args)]
pub struct NodeArguments {
    /// The name of the cluster, which the data directory keeps; overrides `cluster_name` of the
    /// configuration file [default: Test Cluster]
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,

    /// The name of the data center: clients have to use the same, as does replication with
    /// NetworkTopologyStrategy [default: datacenter1]
    #[arg(long, value_name = "NAME")]
    data_center: Option<String>,

    /// The name of the rack [default: rack1]
    #[arg(long, value_name = "NAME")]
    rack: Option<String>,
}

impl NodeArguments {
    /// Replaces the names of `node` by those that were specified.
    pub fn apply(&self, node: &mut Node) {
        for (name, specified) in [
            (&mut node.cluster_name, &self.cluster_name),
            (&mut node.data_center, &self.data_center),
            (&mut node.rack, &self.rack),
        ] {
            if let Some(specified) = specified {
                name.clone_from(specified);
            }
        }
    }
}
