'use strict'

const assert = require('node:assert')
const { spawn, spawnSync } = require('node:child_process')
const { once } = require('node:events')
const fs = require('node:fs')
const net = require('node:net')
const os = require('node:os')
const path = require('node:path')
const { beforeEach, afterEach, test } = require('node:test')
const { setTimeout: delay } = require('node:timers/promises')
const { start } = require('..')
const { findBinary } = require('../lib/binary')

const PATIENCE = 60_000
const KEYSPACE = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};"

let temporary

beforeEach(() => {
  temporary = fs.mkdtempSync(path.join(os.tmpdir(), 'cassette-test-'))
})
afterEach(() => fs.rmSync(temporary, { recursive: true }))

async function serves(port) {
  const socket = net.connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** Calls `use` with a server, and stops it. */
async function withServer(options, use) {
  const server = await start(options)
  try {
    return await use(server)
  } finally {
    await server.stop()
  }
}

/** Waits until a server has ended and removed its data below `directory`. */
async function waitForEnd(port, directory) {
  const deadline = Date.now() + PATIENCE
  while ((await serves(port)) || fs.readdirSync(directory).length > 0) {
    assert(Date.now() < deadline, 'the server outlives the process that started it')
    await delay(20)
  }
}

test('a server executes statements, and has ended after stop', async () => {
  const port = await withServer({}, async (server) => {
    assert.match(await server.execute('SELECT release_version FROM system.local'), /5\.0/)
    assert(await serves(server.port))
    return server.port
  })
  assert(!(await serves(port)))
})

test('stop can be called again', async () => {
  const server = await start()
  await Promise.all([server.stop(), server.stop()])
  await server.stop()
})

test('all tables are truncated', () =>
  withServer({}, async (server) => {
    await server.truncate()
    await server.execute(`${KEYSPACE} CREATE TABLE k."T" (k int PRIMARY KEY); INSERT INTO k."T" (k) VALUES (7)`)
    const rows = () => server.execute('SELECT k FROM "T"', { keyspace: 'k', format: 'json' })
    assert.strictEqual(await rows(), '{"k": 7}\n')
    await server.truncate()
    assert.strictEqual(await rows(), '')
  }))

test('a statement that fails is an error with its reason', () =>
  withServer({}, (server) => assert.rejects(server.execute('SELECT * FROM nowhere.t'), /nowhere/)))

test('a server that does not start is an error with its log', async () => {
  await assert.rejects(start({ arguments: ['--wrong'] }), /unexpected argument '--wrong'/)
  await assert.rejects(start({ binary: path.join(temporary, 'absent') }), /ENOENT/)
})

test('a directory keeps its data', async () => {
  const data = path.join(temporary, 'data')
  await withServer({ data }, (server) => server.execute(KEYSPACE))
  await withServer({ data }, (server) => server.execute('DESCRIBE KEYSPACE k', { keyspace: 'k' }))
})

test('a server in memory has no files', async () => {
  const found = process.env.TMPDIR
  process.env.TMPDIR = temporary
  try {
    await withServer({ inMemory: true }, async (server) => {
      await server.execute(KEYSPACE)
      assert.deepEqual(fs.readdirSync(temporary), [])
    })
  } finally {
    if (found === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = found
  }
  await assert.rejects(start({ inMemory: true, data: temporary }), /expected data or inMemory, found both/)
})

test('a seed makes uuids and times the same in each run and after each truncation', async () => {
  const written = async (server) => {
    await server.execute('INSERT INTO t (k, id, at) VALUES (1, uuid(), toTimestamp(now()))', { keyspace: 'k' })
    return server.execute('SELECT JSON id, at, writetime(id) FROM t', { keyspace: 'k' })
  }
  const run = (seed) =>
    withServer({ inMemory: true, seed }, async (server) => {
      await server.execute(KEYSPACE)
      await server.execute('CREATE TABLE t (k int PRIMARY KEY, id uuid, at timestamp)', { keyspace: 'k' })
      const first = await written(server)
      await server.truncate()
      assert.equal(await written(server), first)
      return first
    })
  const first = await run(7)
  assert.match(first, /2025-01-01/)
  assert.equal(await run(7), first)
  assert.notEqual(await run(8), first)
})

test('a configuration file applies', async () => {
  const config = path.join(temporary, 'cassandra.yaml')
  fs.writeFileSync(config, "cluster_name: 'of the file'\n")
  await withServer({ config }, async (server) => {
    assert.match(await server.execute('SELECT cluster_name FROM system.local'), /of the file/)
  })
})

test('the server ends with a process that is killed', async () => {
  const program = `require(${JSON.stringify(require.resolve('..'))}).start()
    .then((server) => { console.log(server.port); setInterval(() => {}, 1000) })`
  const environment = { ...process.env, TMPDIR: temporary }
  const child = spawn(process.execPath, ['-e', program], { env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data')
  assert(await serves(Number(line)))
  child.kill('SIGKILL')
  await waitForEnd(Number(line), temporary)
})

test('a program that forgets to stop the server ends', async () => {
  const program = `require(${JSON.stringify(require.resolve('..'))}).start().then((server) => console.log(server.port))`
  const environment = { ...process.env, TMPDIR: temporary }
  const ended = spawnSync(process.execPath, ['-e', program], { env: environment, encoding: 'utf8', timeout: PATIENCE })
  assert.strictEqual(ended.status, 0, ended.stderr)
  await waitForEnd(Number(ended.stdout), temporary)
})

test('the binary of the variable is before that of the package, which is before PATH', () => {
  const program = (name) => {
    const file = path.join(temporary, name)
    fs.writeFileSync(file, '#!/bin/sh\n', { mode: 0o755 })
    return file
  }
  const [named, bundled, onPath] = [program('named'), program('bundled'), program('cassette')]
  const environment = { CASSETTE_BINARY: named, PATH: temporary }
  assert.strictEqual(findBinary({ environment, bundled }), named)
  delete environment.CASSETTE_BINARY
  assert.strictEqual(findBinary({ environment, bundled }), bundled)
  assert.strictEqual(findBinary({ environment, bundled: 'absent' }), onPath)
  assert.throws(() => findBinary({ environment: {}, bundled: 'absent' }), /set CASSETTE_BINARY/)
  assert.throws(() => findBinary({ environment: { CASSETTE_BINARY: temporary } }), /expected a program/)
})
