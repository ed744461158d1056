package cassettetest

import (
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
)

const faultsTable = "system_testing.cassette_faults"

// faultNumbers counts the faults of this process, for their ids.
var faultNumbers atomic.Int64

// Columns are columns of a rule: strings, integers, floating-point numbers and booleans.
type Columns map[string]any

// AddFault adds a rule of injected faults to a server with WithFaultInjection, and returns its id.
// The columns are those of the table system_testing.cassette_faults, which docs/testing.md describes.
func (s *Server) AddFault(effect string, columns Columns) (string, error) {
	id := fmt.Sprintf("fault-%06d", faultNumbers.Add(1))
	names, values := []string{"id", "effect"}, []string{literal(id), literal(effect)}
	for name := range columns {
		names = append(names, name)
	}
	sort.Strings(names[2:])
	for _, name := range names[2:] {
		values = append(values, literal(columns[name]))
	}
	_, err := s.Execute("", fmt.Sprintf(
		"INSERT INTO %s (%s) VALUES (%s)", faultsTable, strings.Join(names, ", "), strings.Join(values, ", ")))
	return id, err
}

// RemoveFault removes a rule. It does nothing if the rule does not exist.
func (s *Server) RemoveFault(id string) error {
	_, err := s.Execute("", fmt.Sprintf("DELETE FROM %s WHERE id = %s", faultsTable, literal(id)))
	return err
}

// ClearFaults removes all rules.
func (s *Server) ClearFaults() error {
	_, err := s.Execute("", "TRUNCATE "+faultsTable)
	return err
}

// SetNode changes the state of a virtual node of a server with WithNodes: up, down or removed. Take
// another node down than the one of Address, through which this package connects.
func (s *Server) SetNode(address, state string) error {
	_, err := s.Execute("", fmt.Sprintf(
		"UPDATE system_testing.cassette_nodes SET state = %s WHERE address = %s", literal(state), literal(address)))
	return err
}

func literal(value any) string {
	if text, ok := value.(string); ok {
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	}
	return fmt.Sprint(value)
}
