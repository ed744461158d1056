'use strict'

const assert = require('node:assert')
const path = require('node:path')
const { after, afterEach, before, test } = require('node:test')
const { Client } = require('cassandra-driver')
const { start } = require('..')

let server, client

before(async () => {
  server = await start()
  await server.executeFile(path.join(__dirname, 'schema.cql'))
  client = new Client({ ...server.clientOptions, keyspace: 'app' })
})
afterEach(() => server.truncate())
after(async () => {
  await client.shutdown()
  await server.stop()
})

for (const name of ['ada', 'grace']) {
  test(`${name} is the only user`, async () => {
    await client.execute('INSERT INTO users (id, name) VALUES (?, ?)', [name.length, name], { prepare: true })
    const { rows } = await client.execute('SELECT name FROM users')
    assert.deepStrictEqual(rows.map((row) => row.name), [name])
  })
}
