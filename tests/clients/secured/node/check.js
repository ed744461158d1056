// The Node.js driver, unmodified, against a server with passwords: HOST PORT USER PASSWORD [CA [PEM]].
//
// Connects with a password; with CA over TLS; with PEM, a file with a key and a certificate, by
// mutual TLS. Prints "ok" after a write and a read, or the errors of the connection.
"use strict";

const fs = require("fs");
const cassandra = require("cassandra-driver");

async function run([host, port, username, password, authority, pem]) {
  const options = {
    contactPoints: [`${host}:${port}`],
    localDataCenter: "datacenter1",
    credentials: { username, password },
    socketOptions: { connectTimeout: 20000, readTimeout: 20000 },
  };
  if (authority) {
    options.sslOptions = { ca: [fs.readFileSync(authority)], rejectUnauthorized: true };
  }
  if (pem) {
    options.sslOptions.key = options.sslOptions.cert = fs.readFileSync(pem);
  }
  const client = new cassandra.Client(options);
  try {
    await client.connect();
    await client.execute("INSERT INTO app.t (k, v) VALUES (?, ?)", ["node", 7], { prepare: true });
    const found = await client.execute("SELECT v FROM app.t WHERE k = ?", ["node"], { prepare: true });
    if (found.first().v !== 7) {
      throw new Error(`expected 7, found ${found.first().v}`);
    }
  } finally {
    await client.shutdown();
  }
}

run(process.argv.slice(2)).then(
  () => console.log("ok"),
  (error) => {
    const causes = Object.values(error.innerErrors || {});
    console.log("refused:", [error, ...causes].map((cause) => `${cause.name}: ${cause.message}`).join("; "));
    process.exitCode = 1;
  },
);
