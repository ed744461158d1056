//! Backups of a database: a directory with one subdirectory for each backup.
//!
//! ```text
//! <repository>/cassette-backups.json                 makes the directory a repository
//! <repository>/lock                                  held by every command
//! <repository>/<backup>/manifest.json                all files with lengths and checksums
//! <repository>/<backup>/manifest.crc32               the CRC-32 of manifest.json, in decimal
//! <repository>/<backup>/<keyspace>/keyspace.cql      the keyspace and its types
//! <repository>/<backup>/<keyspace>/<table>-<id>/     schema.cql and SSTables, as in a snapshot
//! ```
//!
//! Each backup is complete: its directories can be imported by Cassandra or by Cassette without
//! this crate, and removing one backup does not change another. SSTables never change, so a backup
//! links the files that the previous one has already, and takes space only for the rest.
//!
//! In an object store, contents are stored once for all backups: see `object_layout`.
//!
//! A backup is created in `<backup>.incomplete` and renamed when everything in it is synced: after
//! a crash it is complete or does not exist.

mod copy;
mod create;
mod error;
mod keys;
mod log;
mod manifest;
mod marker;
#[cfg_attr(not(feature = "s3"), allow(dead_code, reason = "only object stores have leases"))]
mod object_layout;
#[cfg(all(test, feature = "s3"))]
mod object_tests;
mod objects;
mod opening;
mod repository;
mod restore;
mod restore_new;
mod service;
mod verify;

pub use create::{BackupOptions, Created, Transfer};
pub use error::{Error, Result};
pub use keys::BackupKeys;
pub use log::{Archived, LogArchiver, Until, parse_until};
pub use manifest::{FileRecord, LogPosition, Manifest, TableRecord};
pub use opening::{Location, is_remote};
pub use repository::{Backup, Repository};
pub use restore::{RestoreOptions, Restored};
pub use service::{BackupService, KeySource, ServiceOptions, ServiceStatus, TaskStatus};
pub use verify::Verified;
