'use strict'

// Packs this package with a binary for this platform: node scripts/pack.js BINARY DIRECTORY

const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')

const [binary, directory] = process.argv.slice(2)
if (!binary || !directory) {
  console.error('usage: node scripts/pack.js BINARY DIRECTORY')
  process.exit(2)
}
const root = path.join(__dirname, '..')
const staging = fs.mkdtempSync(path.join(os.tmpdir(), 'cassette-pack-'))
try {
  const manifest = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'))
  delete manifest.devDependencies
  delete manifest.scripts
  Object.assign(manifest, { os: [process.platform], cpu: [process.arch], bin: { cassette: 'bin/cassette' } })
  if (process.platform === 'linux') manifest.libc = ['glibc']
  fs.writeFileSync(path.join(staging, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  fs.cpSync(path.join(root, 'lib'), path.join(staging, 'lib'), { recursive: true })
  fs.copyFileSync(path.join(root, 'README.md'), path.join(staging, 'README.md'))
  fs.mkdirSync(path.join(staging, 'bin'))
  fs.copyFileSync(binary, path.join(staging, 'bin', 'cassette'))
  fs.chmodSync(path.join(staging, 'bin', 'cassette'), 0o755)
  fs.mkdirSync(directory, { recursive: true })
  const options = { cwd: staging, stdio: ['ignore', 'inherit', 'inherit'] }
  execFileSync('npm', ['pack', '--silent', '--pack-destination', path.resolve(directory)], options)
} finally {
  fs.rmSync(staging, { recursive: true })
}
