// The Go driver, unmodified, against a server with passwords: HOST PORT USER PASSWORD [CA [PEM]].
//
// Connects with a password; with CA over TLS; with PEM, a file with a key and a certificate, by
// mutual TLS. Prints "ok" after a write and a read, or the error of the connection.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("refused:", err)
		os.Exit(1)
	}
	fmt.Println("ok")
}

func run(arguments []string) error {
	port, err := strconv.Atoi(arguments[1])
	if err != nil {
		return err
	}
	cluster := gocql.NewCluster(arguments[0])
	cluster.Port = port
	cluster.ConnectTimeout = 20 * time.Second
	cluster.Timeout = 20 * time.Second
	cluster.Logger = gocql.NewLogger(gocql.LogLevelNone)
	cluster.Authenticator = gocql.PasswordAuthenticator{Username: arguments[2], Password: arguments[3]}
	if len(arguments) > 4 {
		cluster.SslOpts = &gocql.SslOptions{CaPath: arguments[4], EnableHostVerification: true}
	}
	if len(arguments) > 5 {
		cluster.SslOpts.CertPath, cluster.SslOpts.KeyPath = arguments[5], arguments[5]
	}
	session, err := cluster.CreateSession()
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.Query("INSERT INTO app.t (k, v) VALUES (?, ?)", "go", 7).Exec(); err != nil {
		return err
	}
	var value int
	if err := session.Query("SELECT v FROM app.t WHERE k = ?", "go").Scan(&value); err != nil {
		return err
	}
	if value != 7 {
		return fmt.Errorf("expected 7, found %d", value)
	}
	return nil
}
