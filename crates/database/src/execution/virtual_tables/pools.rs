//! The engine's threads in the form of Cassandra's thread pools.

use cassette_engine::Engine;

use crate::basics::server_metrics::Pool;

/// Returns the engine's threads, and the completed reads and writes, which run on the threads of
/// requests.
pub(crate) fn pools(engine: &Engine) -> Vec<Pool> {
    let (metrics, options) = (engine.metrics(), engine.options());
    let (mut reads, mut writes, mut pending_flushes, mut pending_compactions) = (0, 0, 0, 0);
    for (id, _) in engine.tables() {
        let (Ok(table), Ok(stats)) = (engine.table_metrics(id), engine.table_stats(id)) else { continue };
        reads += table.read_latency.count() + table.range_latency.count();
        writes += table.write_latency.count();
        pending_flushes += stats.pending_flushes;
        pending_compactions += stats.pending_compactions;
    }
    let flushing = metrics.active_flushes.get();
    let pool = |name, active, active_max, pending, completed| Pool {
        name,
        active,
        active_max,
        pending,
        completed,
        blocked: 0,
        blocked_all_time: 0,
    };
    vec![
        Pool { blocked_all_time: metrics.writes_stalled.get(), ..pool("MutationStage", 0, 0, 0, writes) },
        pool("ReadStage", 0, 0, 0, reads),
        pool(
            "CompactionExecutor",
            metrics.active_compactions.get(),
            engine.concurrent_compactors() as u64,
            pending_compactions,
            metrics.compactions.get(),
        ),
        pool(
            "MemtableFlushWriter",
            flushing,
            options.memtable_flush_writers as u64,
            pending_flushes.saturating_sub(flushing),
            metrics.flushes.get(),
        ),
    ]
}
