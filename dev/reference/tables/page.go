package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// text says what the result is.
func (r Row) text() string {
	if r.Unplayable != "" {
		return "not played: " + string(r.Unplayable)
	}
	text := extras(r.Extras)
	if r.Twice && len(r.Extras) > 0 {
		text += "; initialized: " + extras(r.Initialized)
	}
	return text
}

func extras(rows []string) string {
	if len(rows) == 0 {
		return "same"
	}
	rows = slices.Clone(rows)
	slices.Sort(rows)
	for i, row := range rows {
		rows[i] = strings.TrimSuffix(row, ":")
	}
	return "extra: " + strings.Join(rows, "; ")
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
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Case.ID(), b.Case.ID()) })
	var page bytes.Buffer
	fmt.Fprintf(&page, `# The reference's own tables under both managers

<!-- Written by "go test ./dev/reference/tables -run TestTables -update"; do not edit. -->

The unit tests of k8s.io/cloud-provider %s are tables: a cluster, what a plugin answers, and what must come of it. [dev/reference/tables](../reference/tables)
plays each case under the reference and under Mooring, with the same API server in memory and k8s.io/cloud-provider/fake. It compares nodes, Services, conditions
without their messages, events, routes, and calls of the plugin. Fewer questions are no difference, nor are fewer updates of targets that change at the same time.

- *same*: nothing differs.
- *extra*: what differs has the row of this name in the [register](../../docs/explanation/beyond-the-reference.md).
- *initialized*: the case with nodes that a cloud has initialized, in a cluster where another node works. It is played where the case's
  own nodes have neither a provider ID nor the taint, or the case is about deletions.
- *not played*: no API server holds these objects, or the test is about a type of its package.

Any other difference fails the test.

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
	page.WriteString("\nCases have the numbers that they have in the table of the test function.\n")
	for len(rows) > 0 {
		name := rows[0].Case.Test.Package.Name
		others := slices.IndexFunc(rows, func(row Row) bool { return row.Case.Test.Package.Name != name })
		if others < 0 {
			others = len(rows)
		}
		fmt.Fprintf(&page, "\n## %s\n\n", name)
		for _, result := range results(rows[:others]) {
			fmt.Fprintf(&page, "- %s\n  (%s)\n", result.text, strings.Join(result.tests(), "; "))
		}
		rows = rows[others:]
	}
	return page.Bytes()
}

// result is one that cases of a controller share.
type result struct {
	text  string
	cases []Case
}

// results returns the results of one controller, each with its cases.
func results(rows []Row) (all []result) {
	for _, row := range rows {
		text := row.text()
		at := slices.IndexFunc(all, func(known result) bool { return known.text == text })
		if at < 0 {
			at, all = len(all), append(all, result{text: text})
		}
		all[at].cases = append(all[at].cases, row.Case)
	}
	return all
}

// tests are the test functions of the cases, each with the numbers of its cases.
func (r result) tests() (all []string) {
	for cases := r.cases; len(cases) > 0; {
		name, of := cases[0].Test.Name, []int{}
		for len(cases) > 0 && cases[0].Test.Name == name {
			of, cases = append(of, cases[0].Index+cases[0].part+1), cases[1:]
		}
		all = append(all, name+" "+numbers(of))
	}
	return all
}

// numbers writes sorted numbers with ranges: 1-3, 5.
func numbers(sorted []int) string {
	var parts []string
	for i := 0; i < len(sorted); {
		end := i
		for end+1 < len(sorted) && sorted[end+1] == sorted[end]+1 {
			end++
		}
		part := strconv.Itoa(sorted[i])
		if end > i {
			part += "-" + strconv.Itoa(sorted[end])
		}
		parts, i = append(parts, part), end+1
	}
	return strings.Join(parts, ", ")
}
