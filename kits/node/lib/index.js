'use strict'

const { findBinary } = require('./binary')
const { start } = require('./server')

exports.findBinary = () => findBinary()
exports.start = start
