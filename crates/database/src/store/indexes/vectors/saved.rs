//! The links of graphs in files, so that a start does not have to find them again.
//!
//! ```text
//! <saved_caches_directory>/vectors-<id of the entries>.db
//!   "CASSVECT", u32 version: 1
//!   u32  dimension
//!   u8   similarity: 0 cosine, 1 dot_product, 2 euclidean
//!        links, see `cassette_vectors::SavedLinks`
//!   u32  CRC32 of all bytes before it
//! ```
//! Integers are little-endian. The vectors are those of the entries: a file that is missing, old or
//! damaged costs time.

use std::sync::atomic::Ordering;

use cassette_rows::TableId;
use cassette_vectors::{SavedLinks, Similarity};

use super::{VectorGraph, hash};
use crate::store::Store;

const MAGIC: [u8; 8] = *b"CASSVECT";
const VERSION: u32 = 1;
const PREFIX: &str = "vectors-";

/// A graph with fewer nodes is built again in no time.
const NODES_MIN: usize = if cfg!(test) { 10 } else { 1000 };

fn file_name(entries: TableId) -> String {
    format!("{PREFIX}{}.db", entries.0)
}

impl VectorGraph {
    /// Returns the saved links of `bytes`; `None` if they are not those of such a graph.
    fn read(&self, bytes: &[u8]) -> Option<SavedLinks> {
        let (content, checksum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let links = content.strip_prefix(&self.header()[..])?;
        SavedLinks::read(links)
    }

    fn header(&self) -> Vec<u8> {
        let similarity = match self.similarity {
            Similarity::Cosine => 0,
            Similarity::DotProduct => 1,
            Similarity::Euclidean => 2,
        };
        let (version, dimension) = (VERSION.to_le_bytes(), (self.dimension as u32).to_le_bytes());
        [&MAGIC[..], &version, &dimension, &[similarity]].concat()
    }

    /// Returns the file of the links, and the number of nodes.
    fn to_bytes(&self) -> (Vec<u8>, usize) {
        let graph = self.graph.read();
        let mut bytes = self.header();
        bytes.extend_from_slice(&graph.save(hash));
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        (bytes, graph.len())
    }

    /// Returns the number of nodes that were added since the links were saved.
    fn unsaved(&self) -> usize {
        if !self.is_complete() {
            return 0;
        }
        let nodes = self.graph.read().len();
        if nodes < NODES_MIN { 0 } else { nodes - self.saved.load(Ordering::Relaxed).min(nodes) }
    }

    /// Whether so many nodes were added that their links should be saved.
    fn is_due(&self) -> bool {
        self.unsaved() > NODES_MIN + self.saved.load(Ordering::Relaxed) / 4
    }
}

impl Store {
    /// Reads the saved links of a graph. They are not needed.
    pub fn read_graph(&self, entries: TableId, graph: &VectorGraph) -> Option<SavedLinks> {
        let file = file_name(entries);
        match self.engine().read_beside_caches(&file) {
            Ok(bytes) => {
                let bytes = bytes?;
                let links = graph.read(&bytes);
                if links.is_none() {
                    tracing::warn!(file, "the saved links of vectors are damaged, and are found again");
                }
                links
            }
            Err(error) => {
                tracing::warn!(%error, "the saved links of vectors cannot be read, and are found again");
                None
            }
        }
    }

    /// Saves the links of the graphs that have grown; of all that have changed if `all`. Errors are
    /// logged.
    pub fn save_graphs(&self, all: bool) {
        for (entries, graph) in self.build_states().graphs.all() {
            if if all { graph.unsaved() == 0 } else { !graph.is_due() } {
                continue;
            }
            let (bytes, nodes) = graph.to_bytes();
            match self.engine().save_beside_caches(&file_name(entries), &bytes) {
                Ok(()) => graph.saved.store(nodes, Ordering::Relaxed),
                Err(error) => tracing::warn!(%error, "the links of vectors are not saved"),
            }
        }
    }

    /// Removes the saved links of indexes that do not exist any more. Errors are logged.
    pub fn remove_unwanted_graphs(&self) {
        let catalog = self.catalog();
        let indexes = catalog.keyspaces().flat_map(|keyspace| keyspace.indexes.values());
        let wanted: Vec<String> = indexes.map(|index| file_name(index.storage().id)).collect();
        let is_wanted = |name: &str| wanted.iter().any(|wanted| wanted == name);
        if let Err(error) = self.engine().retain_beside_caches(PREFIX, is_wanted) {
            tracing::warn!(%error, "the saved links of dropped indexes stay");
        }
    }
}
