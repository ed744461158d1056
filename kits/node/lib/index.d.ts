/** How a server is started. */
export interface StartOptions {
  /** A directory to keep the data in, instead of a temporary one. */
  data?: string
  /** Whether to keep all files in memory, instead of a temporary directory. */
  inMemory?: boolean
  /** A configuration file with keys of cassandra.yaml. */
  config?: string
  /** Whether tests can add `faults`. */
  faultInjection?: boolean
  /** A number of virtual nodes, or their places, as in `--nodes`. */
  nodes?: number | string
  /** A number that makes UUIDs and times the same in each run, and after each `truncate`. */
  seed?: number | bigint
  /** Further arguments of `cassette serve`. */
  arguments?: string[]
  /** The binary to start, instead of the one that `findBinary` finds. */
  binary?: string
  /** How long to wait for the server, ms; 30,000 by default. */
  timeout?: number
}

/** How statements are executed. */
export interface ExecuteOptions {
  /** The keyspace to use. */
  keyspace?: string
  /** The format of rows; `table` by default. */
  format?: 'table' | 'json' | 'csv' | 'markdown'
}

/** The rules of injected faults of a server with `faultInjection`. */
export interface Faults {
  /**
   * Adds a rule, and resolves to its id. The columns are those of the table `system_testing.cassette_faults`, which
   * docs/testing.md describes.
   */
  add(effect: string, columns?: Record<string, string | number | boolean>): Promise<string>
  /** Removes a rule. Does nothing if it does not exist. */
  remove(id: string): Promise<void>
  /** Removes all rules. */
  clear(): Promise<void>
  /** Resolves to all rules, with how many requests they `matched` and `injected` faults into. */
  list(): Promise<Record<string, unknown>[]>
}

/** The virtual nodes of a server with `nodes`. */
export interface Nodes {
  /** Changes the state of a node: take another one down than that at `server.host`. */
  set(address: string, state: 'up' | 'down' | 'removed'): Promise<void>
  /** Resolves to all nodes, with their states and requests. */
  list(): Promise<Record<string, unknown>[]>
}

/** A running server. It ends with this process, however that ends, and removes its temporary data. */
export interface Server {
  readonly host: string
  readonly port: number
  /** Host and port. */
  readonly address: string
  readonly pid: number
  /** Options for a `Client` of cassandra-driver. */
  readonly clientOptions: { contactPoints: string[]; localDataCenter: string }
  readonly faults: Faults
  readonly nodes: Nodes
  /** What the server has logged: its end, if that is long. */
  readonly log: string
  /** Executes statements with `cassette cql`, and resolves to what it prints. Rejects if one fails. */
  execute(statements: string, options?: ExecuteOptions): Promise<string>
  /** Executes the statements of a file, as `execute` does. */
  executeFile(file: string, options?: ExecuteOptions): Promise<string>
  /** Truncates all tables of all keyspaces, except those of the system. With `seed`, UUIDs and times start again. */
  truncate(): Promise<void>
  /** Stops the server, which removes its temporary data. Later calls do nothing. */
  stop(): Promise<void>
}

/** Starts a server on a free port of 127.0.0.1. Rejects with its log if it does not start. */
export function start(options?: StartOptions): Promise<Server>

/**
 * Finds the binary: the one that the environment variable CASSETTE_BINARY names, else that of this package, else
 * `cassette` on PATH. Throws if there is none.
 */
export function findBinary(): string
