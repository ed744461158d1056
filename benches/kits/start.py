"""Starts a server and executes a query, by the shell and by the driver; prints the times since the start."""

import time

from cassette import Server

began = time.perf_counter()
with Server() as server:
    ready = time.perf_counter()
    server.execute("SELECT release_version FROM system.local")
    queried = time.perf_counter()
    from cassandra.cluster import Cluster

    imported = time.perf_counter()
    with Cluster([server.host], port=server.port) as cluster:
        cluster.connect().execute("SELECT release_version FROM system.local").one()
        driven = time.perf_counter()
print(*(f"{seconds * 1000:.1f}" for seconds in (ready - began, queried - began, ready - began + driven - queried)))
