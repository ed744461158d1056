package cassettetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Execute executes statements with `cassette cql` in a keyspace, or in none if it is empty, and
// returns what that prints.
func (s *Server) Execute(keyspace, statements string) (string, error) {
	return s.shell(keyspace, "--execute", statements)
}

// ExecuteFile executes the statements of a file, as Execute does.
func (s *Server) ExecuteFile(keyspace, path string) (string, error) {
	return s.shell(keyspace, "--file", path)
}

// Truncate truncates all tables of all keyspaces, except those of the system. With WithSeed, UUIDs
// and times start again.
func (s *Server) Truncate() error {
	rows, err := s.shell("", "--format", "json", "--execute", "SELECT keyspace_name, table_name FROM system_schema.tables")
	if err != nil {
		return err
	}
	var truncations strings.Builder
	for decoder := json.NewDecoder(strings.NewReader(rows)); decoder.More(); {
		var table struct {
			Keyspace string `json:"keyspace_name"`
			Name     string `json:"table_name"`
		}
		if err := decoder.Decode(&table); err != nil {
			return err
		}
		if !strings.HasPrefix(table.Keyspace, "system") {
			fmt.Fprintf(&truncations, "TRUNCATE \"%s\".\"%s\";", table.Keyspace, table.Name)
		}
	}
	if s.hasSeed {
		truncations.WriteString("TRUNCATE system_testing.cassette_clock;")
	}
	if truncations.Len() == 0 {
		return nil
	}
	_, err = s.Execute("", truncations.String())
	return err
}

func (s *Server) shell(keyspace string, arguments ...string) (string, error) {
	arguments = append([]string{"cql", s.address, "--no-color", "--cqlshrc", os.DevNull}, arguments...)
	if keyspace != "" {
		arguments = append(arguments, "--keyspace", keyspace)
	}
	command := exec.Command(s.binary, arguments...)
	var failed bytes.Buffer
	command.Stderr = &failed
	out, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && failed.Len() > 0 {
		err = errors.New(strings.TrimSpace(failed.String()))
	}
	return string(out), err
}
