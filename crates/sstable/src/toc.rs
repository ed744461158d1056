//! TOC.txt: the names of an SSTable's components, one per line.

use crate::descriptor::Component;
use crate::error::{Malformed, Parsed};

/// Returns the file for these components; it lists itself, and the names are sorted as in 5.0.8.
pub fn encode(components: &[Component]) -> Vec<u8> {
    let mut names: Vec<&str> = components.iter().map(|c| c.file_name()).collect();
    names.push(Component::Toc.file_name());
    names.sort_unstable();
    names.dedup();
    let mut out = Vec::new();
    for name in names {
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    out
}

/// Returns the listed components except TOC.txt. Omits unknown names: secondary indexes have
/// additional components, which are not used here.
pub fn decode(bytes: &[u8]) -> Parsed<Vec<Component>> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| Malformed::new(e.valid_up_to() as u64, "a component's name expected"))?;
    let mut components: Vec<Component> =
        text.lines().filter_map(Component::from_file_name).filter(|&c| c != Component::Toc).collect();
    components.sort_unstable();
    components.dedup();
    if components.is_empty() {
        return Err(Malformed::new(0, "names of components expected, none found"));
    }
    Ok(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_contains_itself() {
        let bytes =
            encode(&[Component::Statistics, Component::Data, Component::CompressionInfo, Component::Crc]);
        assert_eq!(bytes, b"CRC.db\nCompressionInfo.db\nData.db\nStatistics.db\nTOC.txt\n");
        assert_eq!(
            decode(&bytes).unwrap(),
            [Component::CompressionInfo, Component::Crc, Component::Data, Component::Statistics]
        );
    }

    #[test]
    fn strangers_are_passed_over_but_an_empty_list_is_refused() {
        assert_eq!(decode(b"SAI+aa+GroupComplete.db\nData.db\n").unwrap(), [Component::Data]);
        assert!(decode(b"").is_err());
        assert!(decode(&[0xff]).is_err());
    }
}
