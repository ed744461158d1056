'use strict'

// Starts a server and executes a query, by the shell and by the driver; prints the times since the start.

const { start } = require('cassette-db')

async function main() {
  const began = performance.now()
  const server = await start()
  const ready = performance.now()
  await server.execute('SELECT release_version FROM system.local')
  const queried = performance.now()
  const { Client } = require('cassandra-driver')
  const client = new Client(server.clientOptions)
  await client.execute('SELECT release_version FROM system.local')
  const driven = performance.now()
  console.log([ready - began, queried - began, ready - began + driven - queried].map((ms) => ms.toFixed(1)).join(' '))
  await client.shutdown()
  await server.stop()
}

main()
