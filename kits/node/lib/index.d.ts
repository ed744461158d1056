/** How a server is started. */
export interface StartOptions {
  /** A directory to keep the data in, instead of a temporary one. */
  data?: string
  /** A configuration file with keys of cassandra.yaml. */
  config?: string
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

/** A running server. It ends with this process, however that ends, and removes its temporary data. */
export interface Server {
  readonly host: string
  readonly port: number
  /** Host and port. */
  readonly address: string
  readonly pid: number
  /** Options for a `Client` of cassandra-driver. */
  readonly clientOptions: { contactPoints: string[]; localDataCenter: string }
  /** What the server has logged: its end, if that is long. */
  readonly log: string
  /** Executes statements with `cassette cql`, and resolves to what it prints. Rejects if one fails. */
  execute(statements: string, options?: ExecuteOptions): Promise<string>
  /** Executes the statements of a file, as `execute` does. */
  executeFile(file: string, options?: ExecuteOptions): Promise<string>
  /** Truncates all tables of all keyspaces, except those of the system. */
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
