'use strict'

const FAULTS = 'system_testing.cassette_faults'
const NODES = 'system_testing.cassette_nodes'

function literal(value) {
  return typeof value === 'string' ? `'${value.replaceAll("'", "''")}'` : String(value)
}

async function rows(server, table) {
  const printed = await server.execute(`SELECT * FROM ${table}`, { format: 'json' })
  return printed.split('\n').filter(Boolean).map((line) => JSON.parse(line))
}

/** The rules of injected faults of a server. */
class Faults {
  #server
  #count = 0

  constructor(server) {
    this.#server = server
  }

  async add(effect, columns = {}) {
    this.#count += 1
    const rule = { id: `fault-${String(this.#count).padStart(6, '0')}`, effect, ...columns }
    const values = Object.values(rule).map(literal).join(', ')
    await this.#server.execute(`INSERT INTO ${FAULTS} (${Object.keys(rule).join(', ')}) VALUES (${values})`)
    return rule.id
  }

  async remove(id) {
    await this.#server.execute(`DELETE FROM ${FAULTS} WHERE id = ${literal(id)}`)
  }

  async clear() {
    await this.#server.execute(`TRUNCATE ${FAULTS}`)
  }

  async list() {
    return rows(this.#server, FAULTS)
  }
}

/** The virtual nodes of a server. */
class Nodes {
  #server

  constructor(server) {
    this.#server = server
  }

  async set(address, state) {
    const where = `WHERE address = ${literal(address)}`
    await this.#server.execute(`UPDATE ${NODES} SET state = ${literal(state)} ${where}`)
  }

  async list() {
    return rows(this.#server, NODES)
  }
}

module.exports = { Faults, Nodes }
