package tables

import (
	"bytes"
	"fmt"
)

// Row is the result of a case.
type Row struct {
	Case Case
	// Unplayable is why the case cannot be played.
	Unplayable Unplayable
	// Extras are the rows of the register that differences have; Initialized are those of the case with initialized nodes, if it was played Twice.
	Extras, Initialized []string
	Twice               bool
}

// counts are the results of one test function.
type counts struct{ cases, same, extra, unplayed int }

func (c *counts) add(row Row) {
	c.cases++
	switch {
	case row.Unplayable != "":
		c.unplayed++
	case len(row.Extras)+len(row.Initialized) > 0:
		c.extra++
	default:
		c.same++
	}
}

// Page returns the page of results.
func Page(version string, rows []Row) []byte {
	var page bytes.Buffer
	fmt.Fprintf(&page, `# The reference's own tables under both managers

<!-- Written by "go test ./dev/reference/tables -run TestTables -update"; do not edit. -->

The unit tests of k8s.io/cloud-provider %s are tables: a cluster, what a plugin answers, and what must come of it. [dev/reference/tables](../reference/tables)
plays each case under the reference and under Mooring, with the same API server in memory and k8s.io/cloud-provider/fake. It compares nodes, Services, conditions
without their messages, events, routes, and calls of the plugin. Fewer questions are no difference, nor are fewer updates of targets that change at the same time.

- *same*: nothing differs.
- *extra*: what differs has the row of this name in the [register](../../docs/explanation/beyond-the-reference.md).
- *not played*: no API server holds these objects, or the test is about a type of its package.

Any other difference fails the test, whose output names each case with -v. Where a case's nodes have neither a provider ID nor the taint, or it is
about deletions, it is played with nodes that a cloud has initialized, too.

`, version)
	total, tests := counts{}, map[string]*counts{}
	for _, row := range rows {
		name := row.Case.Test.Package.Name
		if tests[name] == nil {
			tests[name] = &counts{}
		}
		tests[name].add(row)
		total.add(row)
	}
	page.WriteString("| controller | cases | same | extra | not played |\n|---|---|---|---|---|\n")
	for _, name := range keys(tests) {
		fmt.Fprintf(&page, "| %s | %d | %d | %d | %d |\n", name, tests[name].cases, tests[name].same, tests[name].extra, tests[name].unplayed)
	}
	fmt.Fprintf(&page, "| all | %d | %d | %d | %d |\n", total.cases, total.same, total.extra, total.unplayed)
	return page.Bytes()
}
