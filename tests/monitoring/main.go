// Checks packaging/monitoring with the parsers of Prometheus, and the metrics of a server as
// `promtool check metrics` does:
//
//	go run . ALERTS DASHBOARD [METRICS]
//
// METRICS is the address of a server's metrics. Prints what was checked, and ends with 1 if
// anything is wrong.
package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// The intervals that Grafana replaces.
var interval = regexp.MustCompile(`\$__(rate_)?interval\b`)

var promQL = parser.NewParser(parser.Options{})

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, "usage: go run . ALERTS DASHBOARD [METRICS]")
		os.Exit(2)
	}
	problems := checkAlerts(os.Args[1])
	problems = append(problems, checkDashboard(os.Args[2])...)
	if len(os.Args) == 4 {
		problems = append(problems, checkMetrics(os.Args[3])...)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

func checkAlerts(path string) []error {
	groups, problems := rulefmt.ParseFile(path, false, model.UTF8Validation, promQL, slog.Default())
	if len(problems) > 0 {
		return problems
	}
	rules := 0
	for _, group := range groups.Groups {
		rules += len(group.Rules)
	}
	return counted("alerts", rules)
}

func checkDashboard(path string) []error {
	text, err := os.ReadFile(path)
	if err != nil {
		return []error{err}
	}
	var dashboard any
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	found := expressions(dashboard)
	problems := counted("expressions of the dashboard", len(found))
	for _, expression := range found {
		if _, err := promQL.ParseExpr(interval.ReplaceAllString(expression, "5m")); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", path, expression, err))
		}
	}
	return problems
}

// expressions returns the values of all keys `expr` in a JSON value.
func expressions(value any) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		if expression, ok := value["expr"].(string); ok {
			found = append(found, expression)
		}
		for _, inner := range value {
			found = append(found, expressions(inner)...)
		}
	case []any:
		for _, inner := range value {
			found = append(found, expressions(inner)...)
		}
	}
	return found
}

func checkMetrics(address string) []error {
	response, err := http.Get(address)
	if err != nil {
		return []error{err}
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return []error{fmt.Errorf("%s: %s", address, response.Status)}
	}
	found, err := promlint.New(response.Body).Lint()
	if err != nil {
		return []error{fmt.Errorf("%s: %w", address, err)}
	}
	var problems []error
	for _, problem := range found {
		problems = append(problems, fmt.Errorf("%s: %s", problem.Metric, problem.Text))
	}
	if len(problems) == 0 {
		fmt.Println("the metrics have no problems")
	}
	return problems
}

// counted prints a number of things that were checked. None is a problem.
func counted(what string, number int) []error {
	fmt.Println(number, what)
	if number == 0 {
		return []error{fmt.Errorf("no %s found", what)}
	}
	return nil
}
