//! `info`.

use cassette_admin_api::{CacheReport, NodeReport};

use super::text::{double, file_size, fixed};

/// Formats the node as `nodetool info` does.
pub(super) fn text(node: &NodeReport, all_tokens: bool) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| text += &format!("{label:<23}: {value}\n");
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    line("ID", node.host_id.clone());
    // There is no gossip without other nodes.
    line("Gossip active", "false".to_owned());
    line("Native Transport active", node.native_transport_active.to_string());
    line("Load", file_size(node.load_bytes));
    line("Uncompressed load", file_size(node.uncompressed_load_bytes));
    line("Generation No", "0".to_owned());
    line("Uptime (seconds)", node.uptime_seconds.to_string());
    let (held, limit) = (mebibytes(node.memory_bytes), mebibytes(node.memory_max_bytes));
    line("Heap Memory (MB)", format!("{held:.2} / {limit:.2}"));
    line("Off Heap Memory (MB)", format!("{:.2}", mebibytes(node.sstable_memory_bytes)));
    line("Data Center", node.data_center.clone());
    line("Rack", node.rack.clone());
    line("Exceptions", node.exceptions.to_string());
    for (label, name) in [("Key Cache", "key"), ("Row Cache", "row"), ("Counter Cache", "counter")] {
        line(label, saved_cache(&node.caches.get(name).cloned().unwrap_or_default()));
    }
    if let Some(chunks) = node.caches.get("chunk") {
        line("Chunk Cache", chunk_cache(chunks));
    }
    // Buffers for other replicas, which do not exist.
    line("Network Cache", "size 0 bytes, overflow size: 0 bytes, capacity 0 bytes".to_owned());
    if let (Some(bytes), Some(oldest)) = (node.captured_bytes, node.captured_oldest_seconds) {
        let limit = file_size(node.captured_space_bytes.unwrap_or(0));
        let used = file_size(node.captured_disk_bytes.unwrap_or(0));
        line("Captured Changes", format!("{} since {oldest:.0} s, disk {used} / {limit}", file_size(bytes)));
    }
    line("Percent Repaired", format!("{}%", double(node.percent_repaired)));
    match &node.tokens[..] {
        tokens if tokens.len() == 1 || all_tokens => {
            tokens.iter().for_each(|token| line("Token", token.clone()));
        }
        tokens => line("Token", format!("(invoke with -T/--tokens to see all {} tokens)", tokens.len())),
    }
    line("Bootstrap state", "COMPLETED".to_owned());
    for label in ["Bootstrap failed", "Decommissioning", "Decommission failed"] {
        line(label, "false".to_owned());
    }
    text
}

fn size(cache: &CacheReport) -> String {
    let (size, capacity) = (file_size(cache.size_bytes), file_size(cache.capacity_bytes));
    format!("entries {}, size {size}, capacity {capacity}", cache.entries)
}

fn hit_rate(cache: &CacheReport) -> String {
    fixed(cache.recent_hit_rate.unwrap_or(f64::NAN), 3)
}

fn saved_cache(cache: &CacheReport) -> String {
    format!(
        "{}, {} hits, {} requests, {} recent hit rate, {} save period in seconds",
        size(cache),
        cache.hits,
        cache.requests,
        hit_rate(cache),
        cache.save_period_seconds,
    )
}

fn chunk_cache(cache: &CacheReport) -> String {
    format!(
        "{}, {} misses, {} requests, {} recent hit rate, {} microseconds miss latency",
        size(cache),
        cache.requests.saturating_sub(cache.hits),
        cache.requests,
        hit_rate(cache),
        fixed(cache.miss_latency_micros.unwrap_or(f64::NAN), 3),
    )
}
