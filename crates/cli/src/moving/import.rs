//! Arguments of `cassette move --by import`.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::bail;
use cassette_migration::{ImportDirectory, ImportOptions};
use clap::Args;

/// How nodes import SSTables.
#[derive(Debug, Args)]
#[command(next_help_heading = "Moves by import")]
pub struct ImportArguments {
    /// Directory that this machine and the node can reach, best on the file system of both data
    /// directories; ADDRESS=DIR for each node if there are several
    #[arg(long, value_name = "[ADDRESS=]DIR", value_delimiter = ',', value_parser = directory)]
    import_directory: Vec<ImportDirectory>,

    /// Path of this directory at the nodes [default: the same path]
    #[arg(long, value_name = "DIR", requires = "import_directory")]
    node_directory: Option<PathBuf>,

    /// Command that runs nodetool, in which {node} stands for the address of the node, for example
    /// 'ssh {node} nodetool' [default: commands are printed for you to execute]
    #[arg(long, value_name = "COMMAND")]
    nodetool: Option<String>,

    /// Let the nodes read all rows before they add SSTables, instead of comparing their checksums
    #[arg(long)]
    extended_verify: bool,

    /// Copy files that could be linked
    #[arg(long)]
    import_copy: bool,
}

impl ImportArguments {
    /// Returns the first argument that was specified.
    pub fn specified(&self) -> Option<&'static str> {
        [
            ("--import-directory", !self.import_directory.is_empty()),
            ("--nodetool", self.nodetool.is_some()),
            ("--extended-verify", self.extended_verify),
            ("--import-copy", self.import_copy),
        ]
        .into_iter()
        .find_map(|(name, is_specified)| is_specified.then_some(name))
    }

    /// Returns the options of the move.
    pub fn options(&self) -> anyhow::Result<ImportOptions> {
        if self.import_directory.is_empty() {
            bail!(
                "--by import needs --import-directory, a directory that this machine and the node can reach"
            );
        }
        if self.nodetool.as_ref().is_some_and(|command| command.trim().is_empty()) {
            bail!("invalid --nodetool: expected a command, found nothing");
        }
        Ok(ImportOptions {
            directories: self.import_directory.clone(),
            node_directory: self.node_directory.clone(),
            nodetool: self.nodetool.clone(),
            extended_verify: self.extended_verify,
            copies: self.import_copy,
        })
    }
}

fn directory(text: &str) -> Result<ImportDirectory, String> {
    let named = text.split_once('=').and_then(|(node, path)| Some((node.parse::<IpAddr>().ok()?, path)));
    let (node, path) = named.map_or((None, text), |(node, path)| (Some(node), path));
    if path.is_empty() {
        return Err("expected a directory, found nothing".to_owned());
    }
    Ok(ImportDirectory { node, path: path.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_can_belong_to_nodes() {
        let of = |text: &str| directory(text).map(|found| (found.node, found.path));
        assert_eq!(of("/d"), Ok((None, "/d".into())));
        assert_eq!(of("10.0.0.1=/d"), Ok((Some([10, 0, 0, 1].into()), "/d".into())));
        assert_eq!(of("/a=b"), Ok((None, "/a=b".into())));
        assert!(of("10.0.0.1=").is_err());
    }
}
