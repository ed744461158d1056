//! A private Cassandra cluster as an engine under test.

use super::jmx::Jmx;
use super::{Cluster, ClusterSettings, configuration};
use crate::LabError;
use crate::cql::{CqlSettings, CqlTarget};
use crate::results::EngineInfo;
use crate::run::{Action, Driven, Sampler, Target, Worker};
use crate::workload::TableShape;

/// A cluster and its client. Dropping it stops the cluster.
#[derive(Debug)]
pub struct CassandraTarget {
    cluster: Cluster,
    client: CqlTarget,
    /// `None` if Java cannot compile: metrics from JMX are then unavailable.
    jmx: Option<Jmx>,
}

impl CassandraTarget {
    /// Starts a cluster and connects to all its nodes.
    pub fn start(cluster: ClusterSettings, client: CqlSettings) -> Result<Self, LabError> {
        let contacts = cluster.contacts();
        let mut cluster = Cluster::start(cluster)?;
        match CqlTarget::new(CqlSettings { contacts, ..client }) {
            Ok(client) => {
                let client = client.on_processes(cluster.pids().to_vec());
                let settings = cluster.settings();
                let ports: Vec<u16> =
                    (1..=settings.nodes).map(|number| configuration::jmx_port(settings, number)).collect();
                let jmx = Jmx::start(&settings.directory, &ports).ok();
                Ok(Self { cluster, client, jmx })
            }
            Err(error) => {
                cluster.stop();
                Err(error)
            }
        }
    }
}

impl Drop for CassandraTarget {
    fn drop(&mut self) {
        self.cluster.stop();
    }
}

impl Target for CassandraTarget {
    fn describe(&self) -> EngineInfo {
        let mut info = self.client.describe();
        let settings = self.cluster.settings();
        info.name = "cassandra".into();
        info.settings.insert("nodes".into(), settings.nodes.to_string());
        info.settings.insert("heap".into(), settings.heap.clone());
        info
    }

    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError> {
        self.client.create_table(shape, replace)
    }

    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError> {
        self.client.use_table(shape)
    }

    fn act(&mut self, action: &Action) -> Result<(), LabError> {
        match action {
            Action::Cql(_) => self.client.act(action),
            Action::Flush => self.cluster.nodetool(&["flush"]).map(drop),
            Action::Compact => {
                // Compaction includes only SSTables and ignores memtables.
                self.cluster.nodetool(&["flush"])?;
                self.cluster.nodetool(&["compact"]).map(drop)
            }
            Action::DropCaches => {
                for cache in ["invalidatekeycache", "invalidaterowcache", "invalidatecountercache"] {
                    self.cluster.nodetool(&[cache])?;
                }
                crate::engine::drop_page_cache()
            }
            Action::Restart => {
                self.cluster.restart()?;
                self.client.set_processes(self.cluster.pids().to_vec());
                Ok(())
            }
        }
    }

    fn sampler(&self) -> Option<Sampler<'_>> {
        let mut client = self.client.sampler();
        Some(Box::new(move || {
            let mut counters = client.as_mut().map(|look| look()).unwrap_or_default();
            counters.extend(self.jmx.as_ref().map(Jmx::sample).unwrap_or_default());
            counters
        }))
    }

    fn failure_cause(&self) -> Option<String> {
        self.cluster.diagnosis()
    }

    fn server_pids(&self) -> Vec<u32> {
        self.client.server_pids()
    }

    fn worker_count(&self, in_flight: usize) -> usize {
        self.client.worker_count(in_flight)
    }

    fn drive(&self, workers: Vec<Worker>, in_flight: usize) -> Result<Driven, LabError> {
        self.client.drive(workers, in_flight)
    }
}
