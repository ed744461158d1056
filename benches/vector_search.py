"""Vector search beside Apache Cassandra and usearch: build rate, latency and recall@10 on generated clustered vectors.

Loads the same vectors into a Cassette server and into a Cassandra server, each through one connection of the Python
driver with 32 requests in flight, then searches with queries around the same centers, one after the other. Of each
server, the latency of a read of one row by its key is shown, too: what the driver and the connection need.
usearch runs in this process, with one thread per processor to build and one to search.

    pip install numpy usearch cassandra-driver
    benches/vector_search.py --cassette 127.0.0.1:9042 --cassandra 127.0.0.2:9042 --vectors 100000 --dimension 128
"""

import argparse
import statistics
import time

import numpy
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import RoundRobinPolicy
from cassandra.query import tuple_factory

KEYSPACE = "vector_bench"
CREATE_KEYSPACE = f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"


def clustered(count, dimension, seed, centers):
    """Vectors around `centers`, as float32."""
    random = numpy.random.default_rng(seed)
    around = centers[random.integers(len(centers), size=count)]
    return (around + 0.35 * random.standard_normal((count, dimension))).astype(numpy.float32)


def exact(vectors, queries, k):
    """The numbers of the `k` vectors with the greatest cosines, for each query."""
    normed = vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)
    found = []
    for query in queries:
        cosines = normed @ (query / numpy.linalg.norm(query))
        found.append(set(numpy.argpartition(-cosines, k)[:k].tolist()))
    return found


def report(name, built, count, latencies, found, expected, k):
    recall = sum(len(e & f) for e, f in zip(expected, found)) / (k * len(expected))
    latencies = sorted(latencies)
    p99 = latencies[int(len(latencies) * 0.99)]
    print(
        f"{name:10} built {count / built:9,.0f}/s  search {1000 * statistics.median(latencies):7.3f} ms median "
        f"{1000 * p99:7.3f} ms p99  recall@{k} {recall:.4f}",
        flush=True,
    )


def served(name, contact, vectors, queries, expected, k):
    host, port = contact.rsplit(":", 1)
    profile = ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), row_factory=tuple_factory, request_timeout=120)
    cluster = Cluster([host], port=int(port), execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    session = cluster.connect()
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(CREATE_KEYSPACE)
    session.set_keyspace(KEYSPACE)
    dimension = vectors.shape[1]
    session.execute(f"CREATE TABLE t (k int PRIMARY KEY, v vector<float, {dimension}>)")
    session.execute("CREATE INDEX t_v ON t (v) USING 'sai'")
    insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)")
    # Values are encoded before the clock starts.
    rows = [insert.bind((i, vector.tolist())) for i, vector in enumerate(vectors)]
    began = time.monotonic()
    load(session, rows)
    built = time.monotonic() - began
    search = session.prepare(f"SELECT k FROM t ORDER BY v ANN OF ? LIMIT {k}")
    bound = [search.bind((query.tolist(),)) for query in queries]
    by_key = session.prepare("SELECT k FROM t WHERE k = ?")
    for number, query in enumerate(bound[:20]):
        session.execute(query)
        session.execute(by_key, (number,))
    reads = []
    for number in range(len(bound)):
        start = time.monotonic()
        session.execute(by_key, (number,))
        reads.append(time.monotonic() - start)
    latencies, found = [], []
    for query in bound:
        start = time.monotonic()
        rows = session.execute(query).current_rows
        latencies.append(time.monotonic() - start)
        found.append({row[0] for row in rows})
    report(name, built, len(vectors), latencies, found, expected, k)
    print(f"{name:10} reads of a row by key: {1000 * statistics.median(reads):.3f} ms median", flush=True)
    session.execute(f"DROP KEYSPACE {KEYSPACE}")
    cluster.shutdown()


def load(session, rows):
    """Executes bound statements, 32 at a time."""
    from threading import Semaphore

    free, failures = Semaphore(32), []

    def done(_):
        free.release()

    def failed(error):
        failures.append(error)
        free.release()

    for row in rows:
        free.acquire()
        session.execute_async(row).add_callbacks(done, failed)
    for _ in range(32):
        free.acquire()
    assert not failures, failures[0]


def direct(vectors, queries, expected, k):
    from usearch.index import Index

    index = Index(ndim=vectors.shape[1], metric="cos", dtype="f32", connectivity=16, expansion_add=100, expansion_search=128)
    began = time.monotonic()
    index.add(numpy.arange(len(vectors)), vectors)
    built = time.monotonic() - began
    latencies, found = [], []
    for query in queries:
        start = time.monotonic()
        keys = index.search(query, k).keys
        latencies.append(time.monotonic() - start)
        found.append(set(keys.tolist()))
    report("usearch", built, len(vectors), latencies, found, expected, k)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cassette")
    arguments.add_argument("--cassandra")
    arguments.add_argument("--vectors", type=int, default=100_000)
    arguments.add_argument("--dimension", type=int, default=128)
    arguments.add_argument("--queries", type=int, default=500)
    arguments.add_argument("--limit", type=int, default=10)
    options = arguments.parse_args()
    random = numpy.random.default_rng(7)
    centers = random.standard_normal((200, options.dimension)).astype(numpy.float32)
    vectors = clustered(options.vectors, options.dimension, 8, centers)
    queries = clustered(options.queries, options.dimension, 9, centers)
    expected = exact(vectors, queries, options.limit)
    print(f"{options.vectors:,} vectors of {options.dimension} floats, {options.queries} queries", flush=True)
    direct(vectors, queries, expected, options.limit)
    for name, contact in (("Cassette", options.cassette), ("Cassandra", options.cassandra)):
        if contact:
            served(name, contact, vectors, queries, expected, options.limit)


if __name__ == "__main__":
    main()
