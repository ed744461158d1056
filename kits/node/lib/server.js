'use strict'

const { execFile, spawn } = require('node:child_process')
const os = require('node:os')
const { promisify } = require('node:util')

const { findBinary } = require('./binary')
const { Faults, Nodes } = require('./faults')

/** The line that the server prints when clients can connect. */
const READY = /listens for CQL on ([^ ,\n]+):(\d+)/
const DATA_CENTER = 'datacenter1'
/** How much of the log is kept, characters. */
const LOG_MAX = 1 << 20
/** How much output of a statement is accepted, bytes. */
const OUTPUT_MAX = 1 << 28
/** How long to wait for the end, ms: the server waits 10 s for requests and 2 s for files. */
const STOP_TIMEOUT = 15_000

const run = promisify(execFile)

/** A running server. */
class Server {
  #binary
  #child
  #ended
  #hasSeed
  #log = ''

  constructor(binary, child, hasSeed) {
    this.#binary = binary
    this.#hasSeed = hasSeed
    this.#child = child
    this.faults = new Faults(this)
    this.nodes = new Nodes(this)
    child.stderr.setEncoding('utf8').on('data', (text) => {
      this.#log += text
      if (this.#log.length > 2 * LOG_MAX) this.#log = this.#log.slice(-LOG_MAX)
    })
    // An error of the pipe means that the server has ended.
    child.stdin.on('error', () => {})
    this.#ended = new Promise((resolve) => {
      child.once('close', (code, signal) => resolve(signal ?? code))
      child.once('error', resolve)
    })
  }

  get log() {
    return this.#log
  }

  get pid() {
    return this.#child.pid
  }

  get address() {
    return `${this.host}:${this.port}`
  }

  get clientOptions() {
    return { contactPoints: [this.address], localDataCenter: DATA_CENTER }
  }

  async execute(statements, options = {}) {
    return this.#shell(['--execute', statements], options)
  }

  async executeFile(file, options = {}) {
    return this.#shell(['--file', file], options)
  }

  async truncate() {
    const rows = await this.execute('SELECT keyspace_name, table_name FROM system_schema.tables', { format: 'json' })
    const tables = rows.split('\n').filter(Boolean).map((line) => JSON.parse(line))
    const users = tables.filter((table) => !table.keyspace_name.startsWith('system'))
    const truncations = users.map((table) => `TRUNCATE "${table.keyspace_name}"."${table.table_name}";`)
    if (this.#hasSeed) truncations.push('TRUNCATE system_testing.cassette_clock;')
    if (truncations.length > 0) await this.execute(truncations.join(''))
  }

  async stop() {
    this.#child.ref()
    this.#child.stdin.end()
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT)
    await this.#ended
    clearTimeout(timer)
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.stop()
  }

  /** Waits for the line with the address. */
  async ready(timeout) {
    let timer
    const expired = new Promise((resolve) => {
      timer = setTimeout(resolve, timeout, `the server was not ready within ${timeout} ms`)
    })
    const ended = this.#ended.then((how) => `the server ended: ${how.message ?? how}`)
    const printed = new Promise((resolve) => {
      let text = ''
      this.#child.stdout.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
        const found = text.includes('\n') && READY.exec(text)
        if (found) resolve(found)
      })
    })
    const outcome = await Promise.race([printed, ended, expired])
    clearTimeout(timer)
    if (typeof outcome === 'string') {
      this.#child.kill('SIGKILL')
      throw new Error(`${outcome}\n${this.#log}`)
    }
    this.host = outcome[1]
    this.port = Number(outcome[2])
    // A program that forgets to stop the server can end; the server ends then, too.
    for (const handle of [this.#child, this.#child.stdin, this.#child.stdout, this.#child.stderr]) handle.unref()
  }

  async #shell(words, { keyspace, format = 'table' }) {
    const place = keyspace === undefined ? [] : ['--keyspace', keyspace]
    const options = ['--no-color', '--cqlshrc', os.devNull, '--format', format, ...place]
    try {
      const ended = run(this.#binary, ['cql', this.address, ...options, ...words], { maxBuffer: OUTPUT_MAX })
      ended.child.stdin.end()
      return (await ended).stdout
    } catch (error) {
      throw new Error(error.stderr?.trim() || error.message)
    }
  }
}

/** Starts a server on a free port of 127.0.0.1. */
async function start(options = {}) {
  const { data, inMemory = false, config, faultInjection = false, nodes, seed, arguments: further = [] } = options
  const { binary = findBinary(), timeout = 30_000 } = options
  const words = ['serve', '--listen', '127.0.0.1:0', '--admin', 'off', '--stop-with-stdin']
  if (data !== undefined && inMemory) throw new TypeError('expected data or inMemory, found both')
  words.push(...(inMemory ? ['--in-memory'] : data === undefined ? ['--temporary'] : ['--data', data]))
  if (config !== undefined) words.push('--config', config)
  if (faultInjection) words.push('--fault-injection')
  if (nodes !== undefined) words.push('--nodes', String(nodes))
  if (seed !== undefined) words.push('--seed', String(seed))
  const server = new Server(binary, spawn(binary, [...words, ...further], { stdio: 'pipe' }), seed !== undefined)
  await server.ready(timeout)
  return server
}

module.exports = { start }
