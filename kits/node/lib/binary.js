'use strict'

const fs = require('node:fs')
const path = require('node:path')

/** The environment variable that names the binary to use. */
const VARIABLE = 'CASSETTE_BINARY'

/** The binary that was packed with this package. */
const BUNDLED = path.join(__dirname, '..', 'bin', 'cassette')

/** Returns whether a path is a program. */
function isProgram(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK)
    return fs.statSync(file).isFile()
  } catch {
    return false
  }
}

/** Finds the binary: of the variable, else of this package, else on PATH. Throws if there is none. */
function findBinary({ environment = process.env, bundled = BUNDLED } = {}) {
  const named = environment[VARIABLE]
  if (named) {
    if (!isProgram(named)) throw new Error(`${VARIABLE}: expected a program, found ${named}`)
    return path.resolve(named)
  }
  if (isProgram(bundled)) return bundled
  const directories = (environment.PATH ?? '').split(path.delimiter).filter(Boolean)
  const found = directories.map((directory) => path.resolve(directory, 'cassette')).find(isProgram)
  if (!found) {
    throw new Error(
      'no binary of Cassette: this package has none for this platform, and PATH has no `cassette`. ' +
        `Install one, or set ${VARIABLE} to its path`
    )
  }
  return found
}

module.exports = { findBinary }
