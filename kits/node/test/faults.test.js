'use strict'

const assert = require('node:assert')
const { test } = require('node:test')
const { Client, types } = require('cassandra-driver')
const { start } = require('..')

/** Calls `use` with a server and a client in a keyspace with a table, and ends both. */
async function withClient(options, factor, use) {
  const server = await start(options)
  try {
    const replication = `{'class': 'SimpleStrategy', 'replication_factor': ${factor}}`
    await server.execute(`CREATE KEYSPACE k WITH replication = ${replication}; CREATE TABLE k.t (k int PRIMARY KEY);`)
    const client = new Client({ ...server.clientOptions, keyspace: 'k' })
    try {
      await client.connect()
      return await use(server, client)
    } finally {
      await client.shutdown()
    }
  } finally {
    await server.stop()
  }
}

test('a fault is the error that the driver reports', async () => {
  await withClient({ faultInjection: true }, 1, async (server, client) => {
    const id = await server.faults.add('write_timeout', { table_name: 't', write_type: 'UNLOGGED_BATCH', required: 3 })
    await assert.rejects(client.execute('INSERT INTO t (k) VALUES (1)'), (error) => {
      assert.strictEqual(error.code, types.responseErrorCodes.writeTimeout)
      assert.strictEqual(error.writeType, 'UNLOGGED_BATCH')
      assert.strictEqual(error.blockFor, 3)
      return true
    })
    const [rule] = await server.faults.list()
    assert.strictEqual(Number(rule.injected), 1)
    await server.faults.remove(id)
    await client.execute('INSERT INTO t (k) VALUES (1)')
    await assert.rejects(server.faults.add('overloaded', { kind: "it's" }), /kind: expected one of read/)
    await server.faults.clear()
  })
})

test('a node that is down makes a level unavailable', async () => {
  await withClient({ nodes: 3 }, 3, async (server, client) => {
    const read = () => client.execute('SELECT * FROM t WHERE k = 1', [], { consistency: types.consistencies.all, isIdempotent: true })
    await read()
    await server.nodes.set('127.0.0.3', 'down')
    // Until the driver has seen the end of its connections, requests can fail by that.
    const deadline = Date.now() + 60_000
    let failure
    do {
      failure = await read().catch((error) => (error.innerErrors ? Object.values(error.innerErrors)[0] : error))
    } while (failure instanceof Error && failure.code !== types.responseErrorCodes.unavailableException && Date.now() < deadline)
    assert.deepStrictEqual([failure.required, failure.alive], [3, 2])
    await server.nodes.set('127.0.0.3', 'up')
    await read()
    assert.strictEqual((await server.nodes.list()).length, 3)
  })
})
